"""What is wrong with what people wrote is said at once, with its place; no node is touched."""

from __future__ import annotations

import pytest

from .conftest import Place

# TEST-NET-1: nothing answers there, so a node that is touched is seen as unreachable.
HOSTS = """---
gpu:
  hosts:
    node1: {ansible_host: 192.0.2.201}
    node2: {ansible_host: 192.0.2.202}
other:
  hosts:
    login: {ansible_host: 192.0.2.203}
"""


def assert_stopped(output: str, *texts: str) -> None:
    """Every text is there, on a line of its own, and no play for the nodes began."""
    lines = output.splitlines()
    for text in texts:
        assert any(text in line for line in lines), f"{text!r} is not in:\n{output}"
    assert "No node was touched" in output
    assert "PLAY [Preflight]" not in output
    assert "UNREACHABLE" not in output


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("hosts.yml", "", "there is no group gpu"),
        ("hosts.yml", "---\ngpus:\n  hosts:\n    node1:\n", "did you mean gpu"),
        ("hosts.yml", "---\ngpu:\n  hosts: {}\n", "gpu"),
        ("group_vars/gpu.yml", "---\ngdrcheck_profile: small\ngdrcheck_prot: 1\n",
         "group_vars/gpu.yml:3: gdrcheck_prot: unknown variable"),
        ("group_vars/gpu.yml", "---\ngdrcheck_profile: smal\n",
         'group_vars/gpu.yml:2: gdrcheck_profile: there is no profile "smal"'),
        ("group_vars/gpu.yml", "---\n{}\n", "gdrcheck_profile: missing"),
        ("group_vars/gpu.yml", "---\ngdrcheck_profile: small\ngdrcheck_port: many\n",
         "group_vars/gpu.yml:3: gdrcheck_port"),
        ("group_vars/gpus.yml", "---\ngdrcheck_port: 1\n", "the inventory has no group gpus"),
        ("profiles/small.yml", "---\ngpu: {count: 0}\n", "profiles/small.yml:2: gpu: unknown key"),
        ("profiles/small.yml", "---\ngpus: {count: many}\n", "profiles/small.yml:2: gpus.count"),
        ("group_vars/gpu.yml", "---\ngdrcheck_profile: small\ngdrcheck_image_source: archive\n",
         "group_vars/gpu.yml:3: gdrcheck_image_archive: missing"),
    ],
)  # fmt: skip
def test_is_named_with_file_line_and_key(place: Place, name: str, text: str, expected: str) -> None:
    place.write("hosts.yml", HOSTS)
    place.write(name, text)
    done = place.play()
    assert done.returncode != 0
    assert_stopped(done.stdout, expected)


@pytest.mark.parametrize("arguments", [(), ("--limit", "node1")])
@pytest.mark.parametrize(
    "name", ["group_vars/all.yml", "group_vars/gpu.yml", "host_vars/node1.yml"]
)
def test_what_is_no_yaml_is_named_with_file_and_line(
    place: Place, name: str, arguments: tuple[str, ...]
) -> None:
    place.write("hosts.yml", HOSTS)
    path = place.write(name, "---\ngdrcheck_profile: small\n\tgdrcheck_port: 1\n")
    done = place.play(*arguments)
    assert done.returncode != 0
    assert_stopped(done.stdout, f"{path}:3: ")
    assert "What must be corrected:" in done.stdout
    assert "filter plugin" not in done.stdout


def test_all_files_that_are_no_yaml_come_at_once(place: Place) -> None:
    place.write("hosts.yml", HOSTS)
    one = place.write("group_vars/gpu.yml", "---\n\tgdrcheck_port: 1\n")
    other = place.write("host_vars/node1.yml", "---\ngdrcheck_leaf: [\n")
    assert_stopped(place.play().stdout, f"{one}:2: ", f"{other}:3: ")


def test_all_problems_come_at_once(place: Place) -> None:
    place.write("hosts.yml", HOSTS)
    place.write("profiles/small.yml", "---\ngpus: {count: many}\nrials: {}\n")
    place.write("host_vars/node1.yml", "---\ngdrcheck_prot: 1\n")
    done = place.play()
    assert done.returncode != 0
    assert_stopped(done.stdout, "gpus.count", "rials", "gdrcheck_prot")


def test_inventory_that_is_not_there(place: Place) -> None:
    done = place.play(inventory="nowhere.yml")
    assert done.returncode != 0
    assert_stopped(done.stdout, "nowhere.yml")


def test_limit_to_a_host_that_is_no_node(place: Place) -> None:
    place.write("hosts.yml", HOSTS)
    done = place.play("--limit", "login")
    assert done.returncode != 0
    assert_stopped(done.stdout, "--limit login: leaves no node of group gpu")


def test_unknown_variable_on_the_command_line(place: Place) -> None:
    place.write("hosts.yml", HOSTS)
    done = place.play("-e", "gdrcheck_rouds=all")
    assert done.returncode != 0
    assert_stopped(done.stdout, "gdrcheck_rouds: unknown variable", "did you mean gdrcheck_rounds")


def test_an_archive_that_is_no_image(place: Place) -> None:
    place.write("hosts.yml", HOSTS)
    archive = place.write("image.tar", "no archive")
    done = place.play(
        "-e", "gdrcheck_image_source=archive", "-e", f"gdrcheck_image_archive={archive}"
    )
    assert done.returncode != 0
    assert f"gdrcheck_image_archive: {archive} is no image archive" in done.stdout
    assert "PLAY [Preflight]" not in done.stdout


@pytest.mark.parametrize(
    "arguments", [(), ("-e", "gdrcheck_run_id=2026"), ("-e", "gdrcheck_run_id=")]
)
def test_clean_up_without_a_run_id(place: Place, arguments: tuple[str, ...]) -> None:
    place.write("hosts.yml", HOSTS)
    done = place.play(*arguments, playbook="playbooks/clean.yml")
    assert done.returncode != 0
    assert_stopped(done.stdout, "gdrcheck_run_id: ", "-e gdrcheck_run_id=RUN-ID")
    assert "Remove container" not in done.stdout
    assert "[ERROR]: Task failed: Finalization" not in done.stdout
