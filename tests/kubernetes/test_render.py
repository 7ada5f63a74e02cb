"""``gdrcheck kubernetes render``: what it refuses, all at once, and what it leaves behind."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.kubernetes import render, render_words
from tests.kubernetes.rendering import DIGEST, PROFILE, command, kubectl, profile_file, rendered
from tests.test_ib_links import IBNETDISCOVER


def refused(folder: Path, *options: str | Path, overlay: str = "rdma-shared") -> list[str]:
    """The lines with which the command refused, after which no folder is there."""
    done = command(folder, *options, overlay=overlay)
    assert done.code == 2
    assert done.out == ""
    assert not (folder / "job").exists()
    return done.err.splitlines()


def test_the_folder_holds_all_that_a_run_needs(tmp_path: Path) -> None:
    done = command(tmp_path, "--component", "host-facts")
    assert (done.code, done.err) == (0, "")
    folder = tmp_path / "job"
    assert sorted(str(file.relative_to(folder)) for file in folder.rglob("*.*")) == [
        ".gitignore",
        "kubernetes/base/job.yaml",
        "kubernetes/base/kustomization.yaml",
        "kubernetes/base/namespace.yaml",
        "kubernetes/base/replacements.yaml",
        "kubernetes/base/service.yaml",
        "kubernetes/components/host-facts/host-facts.yaml",
        "kubernetes/components/host-facts/kustomization.yaml",
        "kubernetes/overlays/rdma-shared/host-network.yaml",
        "kubernetes/overlays/rdma-shared/kustomization.yaml",
        "kustomization.yaml",
        "profile/h200.yml",
        "site.yaml",
        "values.yaml",
    ]
    assert stat.S_IMODE((folder / "secret").stat().st_mode) == 0o600
    assert (folder / ".gitignore").read_text() == "*\n"
    assert "kubectl apply -k" in done.out
    assert "3 pods" in done.out
    assert (folder / "secret").read_text() not in done.out


def test_each_run_has_its_own_secret(tmp_path: Path) -> None:
    secrets = set()
    for name in "ab":
        folder = tmp_path / name
        folder.mkdir()
        command(folder)
        secrets.add((folder / "job/secret").read_text())
    assert len(secrets) == 2


def test_everything_wrong_is_told_at_once(tmp_path: Path) -> None:
    profile = profile_file(tmp_path, "rails: {count: 0}\n", "bad.yml")
    lines = refused(
        tmp_path,
        *("--profile", profile, "--nodes", "0", "--image", "Not An Image"),
        *("--rounds", "some", "--time-scale", "no", "--arrival-s", "0", "--port", "65535"),
        *("--rdma-resource", "cpu=1", "--gpu-resource", "gpu", "--namespace", "kube-system"),
        *("--network", "a b", "--node-selector", "pool", "--toleration", "a b"),
        *("--ib-links", tmp_path / "none.txt", "--cpu", "1.5", "--memory", "20"),
    )
    named = [line.split(":")[0] if "bad.yml" not in line else "bad.yml" for line in lines]
    for option in (
        *("bad.yml", "--nodes 0", "--image Not An Image", "--rounds some", "--time-scale no"),
        *("--arrival-s 0", "--port 65535", "--rdma-resource cpu=1", "--gpu-resource gpu"),
        *("--namespace kube-system", "--network a b", "--node-selector pool"),
        *("--toleration a b", "--cpu 1.5", "--memory 20"),
    ):
        assert option in named, (option, named)
    assert any("none.txt" in line for line in lines)


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "1e9", "", "0x10"])
def test_numbers_are_numbers(text: str, tmp_path: Path) -> None:
    (line,) = refused(tmp_path, f"--time-scale={text}")
    assert line.startswith(f"--time-scale {text}: expected a number from 0.01 to 100")


@pytest.mark.parametrize("namespace", ["default", "kube-public", "Upper", "-a", "a" * 64])
def test_a_namespace_of_others_is_not_touched(namespace: str, tmp_path: Path) -> None:
    (line,) = refused(tmp_path, f"--namespace={namespace}")
    assert line.startswith(f"--namespace {namespace}: expected")


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "mine").write_text("")
    done = command(tmp_path)
    assert done.code == 2
    assert "is there already" in done.err
    assert [one.name for one in (tmp_path / "job").iterdir()] == ["mine"]


def test_without_the_manifests_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render.render, "__defaults__", (tmp_path / "nowhere",))
    (line,) = refused(tmp_path)
    assert "nowhere: no such folder; expected a checkout" in line


@pytest.mark.parametrize("trouble", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_was_half_made_is_removed(
    trouble: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> None:
        assert (tmp_path / "job/site.yaml").exists()
        raise trouble

    monkeypatch.setattr(render, "_write_secret", fail)
    done = command(tmp_path)
    assert done.code == (2 if isinstance(trouble, OSError) else 130)
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize(
    "promise",
    [
        "os: 'Debian*'",
        "ofed: inbox",
        "fabric_manager: active",
        "acs_redirect: 'off'",
        "relaxed_ordering: true",
        "max_payload_bytes: 256",
        "max_read_request_bytes: 4096",
    ],
)
def test_what_only_the_host_tells_is_not_promised_without_it(promise: str, tmp_path: Path) -> None:
    profile = profile_file(tmp_path, PROFILE + f"expect: {{{promise}}}\n", "more.yml")
    (line,) = refused(tmp_path, "--profile", profile)
    assert f"expect.{promise.partition(':')[0]}" in line
    assert "expected --component host-facts" in line
    assert command(tmp_path, "--profile", profile, "--component", "host-facts").code == 0


def test_cabling_that_nothing_tells_of_is_refused(tmp_path: Path) -> None:
    text = PROFILE.replace("link_layer: infiniband", "link_layer: infiniband\n  cabling: by_rail")
    profile = profile_file(tmp_path, text, "cabled.yml")
    (line,) = refused(tmp_path, "--profile", profile)
    assert "rails.cabling: by_rail" in line
    assert "expected --ib-links FILE" in line
    links = tmp_path / "links.txt"
    links.write_text(IBNETDISCOVER)
    done = command(tmp_path, "--profile", profile, "--ib-links", links)
    assert done.code == 0, done.err
    assert (tmp_path / "job/profile/ib_links.txt").read_text() == IBNETDISCOVER


def test_lldp_needs_a_listener_on_the_hosts_network(tmp_path: Path) -> None:
    (line,) = refused(tmp_path, "--neighbours", "lldp")
    assert "expected --component host-facts" in line
    options = ("--neighbours", "lldp", "--component", "host-facts")
    (line,) = refused(tmp_path, *options, overlay="sriov")
    assert "hears no LLDP" in line
    assert command(tmp_path, *options).code == 0
    assert "--neighbours=lldp" in (tmp_path / "job/site.yaml").read_text()


def test_each_rail_needs_its_function_and_network(tmp_path: Path) -> None:
    text = PROFILE.replace("count: 2", "count: 4")
    text = text.replace("[{name: mlx5_0}, {name: mlx5_1}]", "[{name: 'm*'}]")
    profile = profile_file(tmp_path, text, "four.yml")
    lines = refused(tmp_path, "--profile", profile, overlay="sriov")
    assert len(lines) == 2
    assert "--rdma-resource: 2 virtual functions a pod; expected 4" in lines[0]
    assert "--network: given 2 times; expected 4" in lines[1]


def test_overlays_take_only_what_is_theirs(tmp_path: Path) -> None:
    (line,) = refused(tmp_path, "--network", "rail0")
    assert "expected --overlay sriov" in line
    (line,) = refused(tmp_path, "--rdma-resource", "a.b/c=1", overlay="privileged")
    assert "without a device plugin" in line


def test_a_pod_without_nics_is_not_rendered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(command.__globals__["NEEDED"], "rdma-shared", ())
    (line,) = refused(tmp_path)
    assert line.startswith("--rdma-resource: missing; expected NAME=COUNT")


def test_a_resource_is_named_once(tmp_path: Path) -> None:
    (line,) = refused(tmp_path, "--rdma-resource", "rdma/rdma_shared_device_a=2")
    assert "is given twice" in line


def test_a_resource_of_gpus_is_not_one_of_nics(tmp_path: Path) -> None:
    (line,) = refused(tmp_path, "--rdma-resource", "nvidia.com/gpu=1")
    assert line.startswith("--rdma-resource nvidia.com/gpu: is what --gpu-resource names")


def test_the_manifests_are_not_copied_into_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifests = tmp_path / "kubernetes"
    shutil.copytree(render.MANIFESTS, manifests)
    monkeypatch.setattr(render.render, "__defaults__", (manifests,))
    (line,) = refused(tmp_path, "--out", manifests / "base/job")
    assert "is in" in line
    assert not (manifests / "base/job").exists()


def test_what_cannot_be_copied_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise shutil.Error([("base/job.yaml", "job/base/job.yaml", "No space left on device")])

    monkeypatch.setattr(shutil, "copytree", fail)
    (line,) = refused(tmp_path)
    assert "No space left on device" in line


def test_text_that_looks_like_a_number_stays_text(tmp_path: Path) -> None:
    options = (
        "--node-selector",
        "pool=1e3",
        "--node-selector",
        "y=0o17",
        "--image",
        "gdrcheck:1e3",
    )
    job = rendered(tmp_path, *options, "--namespace", "1e3", "--toleration", "y")
    # PyYAML would not know, so as text.
    text = subprocess.run(
        [kubectl(), "kustomize", str(job.folder)], capture_output=True, text=True, check=True
    ).stdout
    for line in ('pool: "1e3"', '"y": "0o17"', 'namespace: "1e3"', 'key: "y"', "gdrcheck:1e3"):
        assert line in text, text


def test_what_will_not_pass_is_said_before(tmp_path: Path) -> None:
    profile = profile_file(tmp_path, "gpus: {count: 0}\n", "little.yml")
    done = command(tmp_path, "--profile", profile, "--nodes", "1", "--image", "gdrcheck")
    assert done.code == 0
    assert "--image: gdrcheck:latest names no digest" in done.err
    assert "--nodes 1: one node measures no pair" in done.err
    assert "rails is left out: the verdict will be INCOMPLETE at best" in done.err


@pytest.mark.parametrize("image", ["gdrcheck", "localhost/gdrcheck:dev", "library/gdrcheck:1"])
def test_an_image_that_only_this_machine_has_is_told(image: str, tmp_path: Path) -> None:
    done = command(tmp_path, "--image", image)
    assert done.code == 0
    assert "names no registry" in done.err


@pytest.mark.parametrize("host", ["r.example", "localhost:5000", "10.0.0.1:5000"])
def test_an_image_of_a_registry_is_no_news(host: str, tmp_path: Path) -> None:
    done = command(tmp_path, "--image", f"{host}/gdrcheck@{DIGEST}")
    assert (done.code, done.err) == (0, "")


def test_virtual_functions_are_not_selected_by_what_changes(tmp_path: Path) -> None:
    done = command(tmp_path, overlay="sriov")
    assert done.code == 0
    assert "rails.nics: a pod gets other virtual functions each time" in done.err
    (tmp_path / "stay").mkdir()
    text = PROFILE.replace("{name: mlx5_0}, {name: mlx5_1}", "{netdev: net1}, {netdev: net2}")
    profile = profile_file(tmp_path, text, "stay.yml")
    done = command(tmp_path / "stay", "--profile", profile, overlay="sriov")
    assert (done.code, done.err) == (0, "")


def test_memory_has_room_for_the_volumes_in_it(tmp_path: Path) -> None:
    (line,) = refused(tmp_path, "--memory", "1024Mi")
    assert line.startswith("--memory 1024Mi: expected 4Gi or more")
    assert command(tmp_path, "--memory", "4096Mi").code == 0


def test_the_next_commands_can_be_pasted(tmp_path: Path) -> None:
    folder = tmp_path / "of a user"
    folder.mkdir()
    done = command(folder)
    assert f"kubectl apply -k '{folder}/job' " in done.out


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("gdrcheck", ("gdrcheck", "latest", "")),
        ("localhost/gdrcheck:dev", ("localhost/gdrcheck", "dev", "")),
        ("10.0.0.1:5000/a/b_c", ("10.0.0.1:5000/a/b_c", "latest", "")),
        (f"r.example/a:1@{DIGEST}", ("r.example/a", "", DIGEST)),
    ],
)
def test_references_of_images(text: str, parts: tuple[str, str, str]) -> None:
    image = render_words.image(text)
    assert image is not None
    assert (image.name, image.tag, image.digest) == parts


@pytest.mark.parametrize(
    "text", ["", "A", "a b", "a:", "a@sha256:12", "a@", "a:b:c", "/a", "a//b", "a\n", f"@{DIGEST}"]
)
def test_what_is_no_reference(text: str) -> None:
    assert render_words.image(text) is None


@given(st.text())
def test_any_text_is_a_reference_or_none(text: str) -> None:
    image = render_words.image(text)
    assert image is None or (text.startswith(image.name) and bool(image.tag) != bool(image.digest))


def test_rounds_that_no_deadline_leaves_time_for_are_refused(tmp_path: Path) -> None:
    (line,) = refused(tmp_path, "--nodes", "300", "--rounds", "all")
    assert line.startswith("--rounds all: they are planned to take ")
    assert line.endswith("set fewer, or a larger --time-scale")
    assert command(tmp_path, "--nodes", "300").code == 0
