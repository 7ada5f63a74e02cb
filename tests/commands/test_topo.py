"""gdrcheck topo: the matrix says how far GPUs and NICs are apart, and what the rails are."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from gdrcheck.facts import Facts, Nvml, Unreadable
from gdrcheck.schemas import schema_text
from tests import facts as build
from tests.commands.support import run, saved, two_sockets
from tests.gpu_facts import gpu_health, gpu_peer

PROFILE = """\
gpus: {count: 2, model: "NVIDIA H200"}
rails:
  count: 3
  nics: [{name: mlx5_0, gpu: 0}, {name: mlx5_1}, {name: mlx5_9}]
"""


def rows(out: str) -> dict[str, list[str]]:
    """The matrix in ``out``: the cells of each row, and the columns as row ``""``."""
    lines = out.partition("distances:\n")[2].partition("\n\n")[0].splitlines()
    return {"": lines[0].split()} | {line.split()[0]: line.split()[1:] for line in lines[1:]}


def test_matrix_has_a_row_a_function_and_a_column_a_nic_with_rails_marked(tmp_path: Path) -> None:
    done = run("topo", "--from", saved(two_sockets(), tmp_path))
    assert (done.code, done.err) == (0, "")
    assert rows(done.out) == {
        "": ["mlx5_1", "mlx5_0", "mlx5_2"],
        "gpu0": ["PIX*", "SYS", "SYS"],
        "gpu1": ["SYS", "PIX*", "NODE"],
        "mlx5_1": ["X", "SYS", "SYS"],
        "mlx5_0": ["SYS", "X", "NODE"],
        "mlx5_2": ["SYS", "NODE", "X"],
    }
    assert "as the topology suggests them" in done.out
    assert "no rail: mlx5_2: 100 Gb/s ethernet, unlike the 2 of 400 Gb/s infiniband" in done.out
    assert "SYS   across NUMA nodes" in done.out


def test_rails_are_those_of_the_profile_when_one_is_given(tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_text(PROFILE)
    done = run("topo", "--from", saved(two_sockets(), tmp_path), "--profile", tmp_path / "p.yml")
    assert done.code == 0
    assert rows(done.out)["gpu0"] == ["PIX", "SYS*", "SYS"]
    assert rows(done.out)["gpu1"] == ["SYS*", "PIX", "NODE"]
    rails = done.out.partition("rails, as the profile promises them:\n")[2].splitlines()[:3]
    assert [line.split() for line in rails[:2]] == [
        ["rail", "0", "gpu0", "mlx5_0", "SYS"],
        ["rail", "1", "gpu1", "mlx5_1", "SYS"],
    ]
    assert rails[2].split()[:6] == ["rail", "2", "no", "GPU", "no", "NIC"]
    assert "mlx5_9" in rails[2]


def test_tree_shows_links_that_are_less_than_they_can_be(tmp_path: Path) -> None:
    slow = build.link(current_gts=16.0, current_width=8)
    tree = build.pci_tree(functions=(build.pci_function(parent=None, link=slow),))
    done = run("topo", "--from", saved(build.facts(pci=tree), tmp_path))
    assert "  0000:1a:00.0  mlx5_0  16 GT/s x8 (can 32 GT/s x16)" in done.out


def two_gpus(**changes: object) -> Facts:
    """Those of ``two_sockets``, with what NVML says of the two."""
    facts = two_sockets()
    assert isinstance(facts.nvml, Nvml)
    return facts.model_copy(update={"nvml": facts.nvml.model_copy(update=changes)})


def between_gpus(out: str) -> list[list[str]]:
    lines = out.partition("between GPUs:\n")[2].partition("\n\n")[0].splitlines()
    return [line.split() for line in lines]


def test_gpus_have_a_matrix_of_their_own_with_nvlinks(tmp_path: Path) -> None:
    slots = ("0000:16:05.0", "0000:96:05.0")
    peers = (gpu_peer(*slots), gpu_peer(*slots[::-1]))
    done = run("topo", "--from", saved(two_gpus(peers=peers), tmp_path))
    assert between_gpus(done.out) == [
        ["gpu0", "gpu1"],
        ["gpu0", "X", "NV18"],
        ["gpu1", "NV18", "X"],
    ]
    assert "(peer access), by NVML:\neach two: read ok, write ok\n" in done.out
    assert "NV#   NVLink" in done.out


def test_gpus_without_nvlink_have_their_distance_and_each_way_its_word(tmp_path: Path) -> None:
    slots = ("0000:16:05.0", "0000:96:05.0")
    gpus = tuple(build.gpu(slot, health=gpu_health(nvlinks=())) for slot in slots)
    no = Unreadable(unreadable="NVML: Timeout")
    peers = (gpu_peer(*slots, read="chipset not supported"), gpu_peer(*slots[::-1], write=no))
    file = saved(two_gpus(gpus=gpus, peers=peers), tmp_path)
    done = run("topo", "--from", file)
    assert between_gpus(done.out)[1] == ["gpu0", "X", "SYS"]
    assert "read chipset not supported, write ok: gpu0 -> gpu1" in done.out
    assert "read ok, write ?: gpu1 -> gpu0" in done.out
    assert "NVML: Timeout: peer access gpu1 -> gpu0, write" in done.out
    found = json.loads(run("topo", "--from", file, "--json").out)
    assert found["gpu_links"] == {
        "gpu0": {"gpu0": "X", "gpu1": "SYS"},
        "gpu1": {"gpu0": "SYS", "gpu1": "X"},
    }
    assert found["peer_access"][0] == {
        "gpu": "gpu0",
        "peer": "gpu1",
        "read": "chipset not supported",
        "write": "ok",
    }


def test_peer_access_that_nobody_asked_for_is_not_known(tmp_path: Path) -> None:
    done = run("topo", "--from", saved(two_gpus(), tmp_path))
    assert "(peer access), by NVML:\nnot known\n" in done.out


def test_distance_that_is_not_known_is_a_question_mark(tmp_path: Path) -> None:
    devices = (build.rdma_device("rxe0", slot=None, software=True),)
    done = run("topo", "--from", saved(build.facts(rdma_devices=devices), tmp_path))
    assert rows(done.out)["gpu0"] == ["?*"]


def test_without_nics_there_is_no_matrix_and_that_is_said(tmp_path: Path) -> None:
    done = run("topo", "--from", saved(build.facts(rdma_devices=()), tmp_path))
    assert done.code == 0
    assert "no RDMA NIC was found" in done.out
    assert "legend" not in done.out


def test_json_holds_the_same_and_fits_its_schema(tmp_path: Path) -> None:
    done = run("topo", "--from", saved(two_sockets(), tmp_path), "--json")
    topology = json.loads(done.out)
    jsonschema.validate(topology, json.loads(schema_text("topology")))
    assert topology["distances"]["gpu1"] == {"mlx5_1": "SYS", "mlx5_0": "PIX", "mlx5_2": "NODE"}
    assert [(rail["gpu"], rail["nic"]) for rail in topology["rails"]] == [
        ("gpu0", "mlx5_1"),
        ("gpu1", "mlx5_0"),
    ]
    assert [(end["name"], end["kind"], end["slot"]) for end in topology["functions"]][:3] == [
        ("gpu0", "gpu", "0000:16:05.0"),
        ("gpu1", "gpu", "0000:96:05.0"),
        ("mlx5_1", "nic", "0000:16:06.0"),
    ]


def test_wrong_profile_is_told_by_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_text("gpsu: 1\n")
    done = run("topo", "--from", saved(two_sockets(), tmp_path), "--profile", tmp_path / "p.yml")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"{tmp_path}/p.yml:1: gpsu: unknown key; did you mean gpus?\n"


@pytest.mark.parametrize("name", ["gpu0", "0000:16:05.0"])
def test_a_nic_that_is_called_like_a_gpu_has_a_row_of_its_own(tmp_path: Path, name: str) -> None:
    devices = (build.rdma_device(name, slot=None),)
    done = run("topo", "--from", saved(build.facts(rdma_devices=devices), tmp_path), "--json")
    names = [end["name"] for end in json.loads(done.out)["functions"]]
    assert len(names) == len(set(names)) == 3


def test_rails_that_the_profile_does_not_tell_apart_are_not_shown(tmp_path: Path) -> None:
    profile = tmp_path / "p.yml"
    profile.write_text(PROFILE.partition("rails:")[0] + "rails: {count: 2, nics: [{name: mlx5_*}]}")
    file = saved(two_sockets(), tmp_path)
    done = run("topo", "--from", file, "--profile", profile)
    assert (done.code, done.err) == (0, "")
    shown = done.out.partition("rails, as the profile promises them:\n")[2].partition("\n\n")[0]
    assert " ".join(shown.split()) == (
        "3 devices match, 2 rails are promised: which ones serve them is not told. They are "
        "mlx5_1, mlx5_0, mlx5_2; name those of the rails one by one in rails.nics."
    )
    assert "PIX*" not in done.out
    topology = json.loads(run("topo", "--from", file, "--profile", profile, "--json").out)
    jsonschema.validate(topology, json.loads(schema_text("topology")))
    assert topology["rails"] == []
    assert topology["undecided"].startswith("3 devices match, 2 rails are promised")


def test_columns_are_in_the_order_of_slots_then_of_numbers_in_names(tmp_path: Path) -> None:
    devices = [build.rdma_device(f"rxe{number}", slot=None) for number in (10, 9)]
    devices += [build.rdma_device("mlx5_9", slot="10000:01:00.0"), build.rdma_device("mlx5_1")]
    done = run("topo", "--from", saved(build.facts(rdma_devices=devices), tmp_path))
    assert rows(done.out)[""] == ["mlx5_1", "mlx5_9", "rxe9", "rxe10"]


@pytest.mark.parametrize("command", [("topo", "--profile"), ("profile", "check")])
def test_facts_in_place_of_the_profile_are_one_line(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    file = saved(build.facts(), tmp_path)
    done = run(*command, file)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"{file}: this is a facts.json, no profile; ")
    assert done.err.count("\n") == 1


def test_gpu_without_a_nic_is_told(tmp_path: Path) -> None:
    facts = two_sockets()
    assert isinstance(facts.rdma_devices, tuple)
    done = run(
        "topo",
        "--from",
        saved(facts.model_copy(update={"rdma_devices": facts.rdma_devices[1:2]}), tmp_path),
    )
    assert "no rail: gpu1: none of the 1 NICs is left for it" in done.out
