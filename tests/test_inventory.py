"""gdrcheck's side of an inventory: every mistake is one line with the file and the nearest word."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from gdrcheck.inventory import Judged, judge
from gdrcheck.inventory_files import Inventory, existing_sources, is_ours, scan
from gdrcheck.outcome import InputError
from gdrcheck.variables import VARIABLES, VARIABLES_BY_NAME

TODAY = date(2026, 11, 30)
PROFILE = "gpus: {count: 0}\n"
HOSTS = """\
all:
  children:
    gpu:
      hosts:
        node1:
          gdrcheck_address: 192.0.2.1
        node2:
          gdrcheck_address: 192.0.2.2
"""


class Site:
    """An inventory on disk, and what Ansible would say about it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("inventory/hosts.yml", HOSTS)
        self.write("inventory/group_vars/gpu.yml", "gdrcheck_profile: lab\n")
        self.write("inventory/profiles/lab.yml", PROFILE)
        self.groups: dict[str, Any] = {"all": ["node1", "node2"], "gpu": ["node1", "node2"]}
        self.limit: str | None = None
        self.play_hosts = ["node1", "node2"]
        self.hostvars: dict[str, dict[str, Any]] = {
            f"node{number}": {
                "ansible_host": f"198.51.100.{number}",
                "gdrcheck_address": f"192.0.2.{number}",
                "gdrcheck_profile": "lab",
            }
            for number in (1, 2)
        }

    def write(self, path: str, text: str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
        return file

    def everywhere(self, variables: Mapping[str, Any]) -> None:
        """Set variables in group_vars/gpu.yml as Ansible then reports them."""
        lines = "".join(f"{name}: {value}\n" for name, value in variables.items())
        self.write("inventory/group_vars/gpu.yml", "gdrcheck_profile: lab\n" + lines)
        for own in self.hostvars.values():
            own |= variables

    def judge(self) -> Judged:
        inventory = Inventory(
            inventory_sources=(str(self.folder / "inventory/hosts.yml"),),
            playbook_dir=str(self.folder),
            groups=self.groups,
            play_hosts=tuple(self.play_hosts),
            limit=self.limit,
            hostvars=self.hostvars,
        )
        return judge(inventory, self.folder, TODAY)

    def problems(self) -> tuple[str, ...]:
        with pytest.raises(InputError) as caught:
            self.judge()
        return caught.value.problems


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.chdir(tmp_path)
    return Site(tmp_path)


def test_good_inventory_gives_nodes_in_its_order(site: Site) -> None:
    site.hostvars["node2"] |= {"gdrcheck_port": 18601, "gdrcheck_leaf": 7}
    judged = site.judge()
    assert [(node.name, node.address, node.port) for node in judged.nodes] == [
        ("node1", "192.0.2.1", 18600),
        ("node2", "192.0.2.2", 18601),
    ]
    assert judged.nodes[1].leaf == "7"
    assert list(judged.profiles) == ["lab"]
    assert judged.run_variables.rounds == 4


def test_address_is_ansible_host_or_the_name_when_not_given(site: Site) -> None:
    del site.hostvars["node1"]["gdrcheck_address"]
    site.hostvars["node2"] = {"gdrcheck_profile": "lab"}
    assert [node.address for node in site.judge().nodes] == ["198.51.100.1", "node2"]


def test_limit_leaves_the_nodes_of_the_play(site: Site) -> None:
    site.limit, site.play_hosts = "node2", ["node2"]
    site.hostvars["node1"]["gdrcheck_port"] = "wrong, but not in the play"
    assert [node.name for node in site.judge().nodes] == ["node2"]


def test_limit_that_leaves_nothing_is_refused(site: Site) -> None:
    site.limit, site.play_hosts = "other", []
    assert site.problems() == (
        "--limit other: leaves no node of group gpu; expected some of node1, node2",
    )


@pytest.mark.parametrize(("value", "rounds"), [(8, 8), ("8", 8), (8.0, 8), ("all", "all")])
def test_number_given_on_the_command_line_is_text_and_still_a_number(
    site: Site, value: object, rounds: object
) -> None:
    site.everywhere({"gdrcheck_rounds": value})
    assert site.judge().run_variables.rounds == rounds


def test_deadlines_may_be_given_one_by_one(site: Site) -> None:
    site.everywhere({"gdrcheck_deadlines": {"check_s": 90}})
    assert site.judge().run_variables.deadlines.check_s == 90


def test_group_that_is_mistyped_is_named_with_the_right_one(site: Site) -> None:
    site.groups = {"all": ["node1"], "gpus": ["node1"], "ungrouped": []}
    assert site.problems() == (
        "inventory/hosts.yml: there is no group gpu; expected the nodes in it; "
        "the groups are gpus; did you mean gpus?",
    )


def test_group_without_hosts_is_refused(site: Site) -> None:
    site.groups = {"all": [], "gpu": []}
    assert site.problems() == ("inventory/hosts.yml: group gpu is empty; expected the nodes in it",)


def test_unknown_variable_is_named_with_its_line_and_the_nearest(site: Site) -> None:
    site.everywhere({"gdrcheck_time_scal": 3})
    assert site.problems() == (
        "inventory/group_vars/gpu.yml:2: gdrcheck_time_scal: unknown variable; "
        "expected one of gdrcheck variables; did you mean gdrcheck_time_scale?",
    )


def test_mistyped_prefix_is_noticed_though_ansible_does_not_pass_it_on(site: Site) -> None:
    site.write("inventory/host_vars/node1.yml", "---\n# port\ngdrchek_port: 3\n")
    (problem,) = site.problems()
    assert problem.startswith("inventory/host_vars/node1.yml:3: gdrchek_port: unknown variable")
    assert problem.endswith("did you mean gdrcheck_port?")


def test_mistyped_profile_variable_is_not_called_missing_as_well(site: Site) -> None:
    site.write("inventory/group_vars/gpu.yml", "gdrcheck_profil: lab\n")
    for own in site.hostvars.values():
        own["gdrcheck_profil"] = own.pop("gdrcheck_profile")
    (problem,) = site.problems()
    assert problem.endswith("did you mean gdrcheck_profile?")


def test_unknown_variable_from_nowhere_says_so(site: Site) -> None:
    site.hostvars["node1"]["gdrcheck_portt"] = 1
    (problem,) = site.problems()
    assert problem.startswith("not set in the inventory's files: gdrcheck_portt: unknown variable")


def test_missing_profile_is_one_line_for_all_nodes(site: Site) -> None:
    for own in site.hostvars.values():
        del own["gdrcheck_profile"]
    assert site.problems() == (
        "inventory/hosts.yml: gdrcheck_profile: missing; expected the NAME of a file "
        "profiles/NAME.yml beside the inventory (on node1, node2)",
    )


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("port", "x", 'is "x"; expected a whole number from 1 to 65535 (on node1, node2)'),
        ("port", True, "is a truth value; expected a number (on node1, node2)"),
        ("port", 0, "is 0; expected a whole number from 1 to 65535 (on node1, node2)"),
        ("rounds", "al", 'is "al"; expected a whole number of at least 1 or all'),
        ("rounds", 0, "is 0; expected a whole number of at least 1 or all"),
        ("engine", "podmn", 'is "podmn"; expected one of auto, podman, docker; did you mean'),
        ("state_dir", "var/lib", 'is "var/lib"; expected an absolute path'),
        ("state_dir", "/var:/lib", 'is "/var:/lib"; expected an absolute path'),
        ("time_scale", float("inf"), "is Infinity; expected a number above 0, at most 100"),
        ("address", "a b", 'is "a b"; expected a host name or an IP address'),
        ("allow_gpu_processes", "maybe", 'is "maybe"; expected true or false'),
    ],
)
def test_wrong_value_names_the_line_and_what_was_expected(
    site: Site, name: str, value: object, text: str
) -> None:
    site.everywhere({f"gdrcheck_{name}": value})
    (problem,) = site.problems()
    assert problem.startswith(f"inventory/group_vars/gpu.yml:2: gdrcheck_{name}: {text}")


def test_wrong_deadline_names_the_key_inside(site: Site) -> None:
    site.everywhere({"gdrcheck_deadlines": {"check": 3}})
    (problem,) = site.problems()
    assert "gdrcheck_deadlines.check: unknown key; did you mean check_s?" in problem
    site.everywhere({"gdrcheck_deadlines": {"check_s": 3}})
    (problem,) = site.problems()
    assert "gdrcheck_deadlines: deadlines must nest" in problem


def test_value_of_the_run_that_differs_between_nodes_is_refused(site: Site) -> None:
    site.write("inventory/host_vars/node2.yml", "gdrcheck_rounds: 2\n")
    site.hostvars["node2"]["gdrcheck_rounds"] = 2
    (problem,) = site.problems()
    assert problem.startswith("inventory/host_vars/node2.yml:1: gdrcheck_rounds: differs between")


def test_profile_that_does_not_exist_lists_those_that_do(site: Site) -> None:
    site.write("inventory/profiles/h200.yml", PROFILE)
    site.write("inventory/group_vars/gpu.yml", "gdrcheck_profile: h20\n")
    for own in site.hostvars.values():
        own["gdrcheck_profile"] = "h20"
    assert site.problems() == (
        'inventory/group_vars/gpu.yml:1: gdrcheck_profile: there is no profile "h20" '
        "(inventory/profiles/h20.yml); expected one of h200, lab; did you mean h200?",
    )


def test_profile_name_cannot_leave_its_folder(site: Site) -> None:
    site.hostvars["node1"]["gdrcheck_profile"] = "../lab"
    (problem,) = site.problems()
    assert 'gdrcheck_profile: is "../lab"; expected the NAME of a file' in problem


def test_problems_of_profile_and_inventory_come_together(site: Site) -> None:
    site.write("inventory/profiles/lab.yml", "gpsu: 1\nrials: 2\n")
    site.everywhere({"gdrcheck_port": 0})
    problems = site.problems()
    assert [line.split(": ")[0] for line in problems] == [
        "inventory/group_vars/gpu.yml:2",
        "inventory/profiles/lab.yml:1",
        "inventory/profiles/lab.yml:2",
    ]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (
            "inventory/group_vars/gpus.yml",
            "inventory/group_vars/gpus.yml: the inventory has no group gpus; "
            "expected the name of a group; did you mean gpu?",
        ),
        (
            "inventory/host_vars/nod1/main.yml",
            "inventory/host_vars/nod1: the inventory has no host nod1; "
            "expected the name of a host; did you mean node1?",
        ),
        (
            "group_vars/storage",
            "group_vars/storage: the inventory has no group storage; expected the name of a group",
        ),
    ],
)
def test_variable_file_for_nothing_is_refused(site: Site, path: str, problem: str) -> None:
    site.write(path, "x: 1\n")
    assert site.problems() == (problem,)


def test_variable_files_that_belong_to_something_are_fine(site: Site) -> None:
    site.groups["cluster.example"] = ["node1"]
    for path in ("all.yml", "ungrouped.yml", "README.md", ".hidden", "cluster.example.yml"):
        site.write(f"inventory/group_vars/{path}", "x: 1\n")
    site.write("inventory/host_vars/node1", "x: 1\n")
    site.judge()


def test_same_address_and_port_twice_is_refused(site: Site) -> None:
    site.hostvars["node2"]["gdrcheck_address"] = "192.0.2.1"
    (problem,) = site.problems()
    assert problem == (
        "inventory/hosts.yml:6: gdrcheck_address: nodes node1 and node2 both have 192.0.2.1, "
        "port 18600; expected an address or port of its own for each"
    )
    site.hostvars["node2"]["gdrcheck_port"] = 18601
    site.judge()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
def test_loopback_as_a_channel_between_nodes_is_refused(site: Site, address: str) -> None:
    site.hostvars["node1"] = {"gdrcheck_profile": "lab", "ansible_host": address}
    (problem,) = site.problems()
    assert f"{address} (by ansible_host) reaches only node node1 itself" in problem


@pytest.mark.parametrize("name", ["a b", "-x", "node1\n", "ä", "a/b"])
def test_host_name_that_cannot_name_results_is_refused(site: Site, name: str) -> None:
    site.groups["gpu"].append(name)
    site.play_hosts.append(name)
    site.hostvars[name] = {"gdrcheck_profile": "lab"}
    (problem,) = site.problems()
    assert "is no usable name; expected letters" in problem


@pytest.mark.parametrize("name", ["fleet", "pairs"])
def test_host_name_of_a_part_of_the_results_is_refused(site: Site, name: str) -> None:
    site.groups["gpu"].append(name)
    site.play_hosts.append(name)
    site.hostvars[name] = {"gdrcheck_profile": "lab"}
    (problem,) = site.problems()
    assert f"host {name} has the name of a part of the results" in problem


def test_archive_must_be_named_and_exist(site: Site) -> None:
    site.everywhere({"gdrcheck_image_source": "archive"})
    (problem,) = site.problems()
    assert problem == (
        "inventory/group_vars/gpu.yml:2: gdrcheck_image_archive: missing; expected the path of "
        "the archive, because gdrcheck_image_source is archive"
    )
    site.everywhere({"gdrcheck_image_source": "archive", "gdrcheck_image_archive": "image.tar"})
    (problem,) = site.problems()
    assert "there is no file image.tar" in problem
    site.write("image.tar", "")
    site.judge()


def test_broken_inventory_file_is_named_with_its_line(site: Site) -> None:
    site.write("inventory/hosts.yml", "all:\n  hosts: [\n")
    site.groups = {"all": [], "ungrouped": []}
    (problem,) = site.problems()
    assert problem.startswith("inventory/hosts.yml:3: not valid YAML")


def test_inventory_that_does_not_exist_is_named(site: Site) -> None:
    (site.folder / "inventory/hosts.yml").unlink()
    (problem,) = site.problems()
    assert problem.startswith("inventory/hosts.yml: there is no such inventory; expected")


def test_run_without_any_inventory_says_how_to_start() -> None:
    with pytest.raises(InputError, match=r"cp -r inventory\.example inventory"):
        existing_sources(())


def test_list_of_hosts_is_no_file() -> None:
    assert existing_sources(("node1,node2",)) == ()


def test_ini_inventory_is_looked_through_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "hosts"
    file.write_text(
        "# gdrcheck_old=1\n[gpu]\nnode1 gdrcheck_prot=1 gdrcheck_leaf='a b'\n"
        "[gpu:vars]\ngdrcheck_profile = lab\n"
    )
    mentions = scan((file,), ()).mentions
    assert [(one.name, one.place, one.value) for one in mentions] == [
        ("gdrcheck_prot", "hosts:3", "1"),
        ("gdrcheck_leaf", "hosts:3", "a b"),
        ("gdrcheck_profile", "hosts:5", "lab"),
    ]


def test_names_of_hosts_and_groups_are_no_variables(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yml"
    file.write_text(
        "gdrcheck_lab:\n  hosts:\n    gdrcheck-port:\n      gdrcheck_port: 1\n"
        "  children:\n    gdrcheck_leaf:\n  vars:\n    secret: !vault |\n      x\n"
        "    other: {gdrcheck_rounds: 1}\n"
    )
    assert [one.name for one in scan((file,), ()).mentions] == ["gdrcheck_port"]


def test_encrypted_files_and_programs_are_left_alone(tmp_path: Path) -> None:
    vault = tmp_path / "group_vars" / "all.yml"
    vault.parent.mkdir()
    vault.write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    program = tmp_path / "hosts"
    program.write_text("#!/bin/sh\nx gdrcheck_port=1\n")
    program.chmod(0o755)
    found = scan((program,), ())
    assert (found.mentions, found.problems) == ((), ())


@pytest.mark.parametrize("name", ["gdrchek_port", "gdr_check_rounds", "grdcheck_profile"])
def test_names_that_look_like_ours_are_ours(name: str) -> None:
    assert is_ours(name)


@pytest.mark.parametrize("name", ["gpucheck_port", "gdr_check", "check_port", "ansible_port"])
def test_names_of_others_are_not_ours(name: str) -> None:
    assert not is_ours(name)


def test_table_of_variables_is_complete() -> None:
    assert len(VARIABLES_BY_NAME) == len(VARIABLES)
    for variable in VARIABLES:
        assert variable.name.startswith("gdrcheck_")
        assert variable.help
        assert variable.expected
