"""The lab's pure parts: command lines, configuration, state, archives. No guest is started."""

from __future__ import annotations

import dataclasses
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lab import access, cli, guest_files, initramfs, inventory, machine, paths, state, status
from lab.errors import LabError
from lab.process import Process
from lab.state import LabState, NodeState

NOBODY = Process(pid=2**22 + 1, start_ticks=1)


def a_guest(number: int = 1, store: Path | None = None) -> machine.Guest:
    return machine.Guest(
        number=number,
        accelerator="tcg",
        memory_mib=2048,
        cpus=1,
        ssh_port=22001,
        kernel=Path("/k"),
        initramfs=Path("/i"),
        run_directory=Path("/run/x"),
        store_disk=store,
    )


def a_lab(count: int = 2, **changes: object) -> LabState:
    lab = LabState(
        name="demo",
        accelerator="tcg",
        memory_mib=4096,
        cpus=1,
        kernel="/k",
        initramfs="/i",
        root_disk="/r",
        store_disk=None,
        image=None,
        run_directory="/run/x",
        hubs={"control": NOBODY, "data": NOBODY},
        nodes=tuple(NodeState(n, 22000 + n, NOBODY) for n in range(1, count + 1)),
    )
    return dataclasses.replace(lab, **changes)  # type: ignore[arg-type]


def devices(command: list[str]) -> dict[str, dict[str, str]]:
    """The -device options of a QEMU command line, by id or else by driver and bus."""
    found = {}
    for flag, text in pairwise(command):
        if flag == "-device":
            driver, *options = text.split(",")
            named = dict(option.split("=", 1) for option in options)
            found[named.get("id", f"{driver}@{named['bus']}")] = {"driver": driver, **named}
    return found


def members_of(archive: bytes) -> dict[str, tuple[int, bytes]]:
    """Name to (mode, content) of a newc archive, read by the format's description alone."""
    found, place = {}, 0
    while True:
        assert archive[place : place + 6] == b"070701"
        field = [int(archive[place + 6 + 8 * i : place + 14 + 8 * i], 16) for i in range(13)]
        mode, size, name_size = field[1], field[6], field[11]
        name = archive[place + 110 : place + 110 + name_size - 1].decode()
        start = place + (110 + name_size + 3) // 4 * 4
        place = start + (size + 3) // 4 * 4
        if name == "TRAILER!!!":
            return found
        found[name] = (mode, archive[start : start + size])


def test_data_nic_and_an_accelerator_share_a_switch_and_others_are_further_away() -> None:
    found = devices(machine.node_command("qemu", a_guest()))
    assert found[machine.DATA_NIC_ID]["bus"] == "switch-port0"
    assert found[machine.DATA_NIC_ID]["host_mtu"] == "4200"
    assert {found[p]["bus"] for p in ("switch-port0", "switch-port1")} == {"switch"}
    assert found["switch"]["bus"] == "near-port0"
    assert {found[p]["bus"] for p in ("near-port0", "near-port1")} == {"near"}
    accelerators = {d["bus"] for d in found.values() if d["driver"] == "edu"}
    assert accelerators == {"switch-port1", "near-port1", "far-port0"}
    assert (found["near"]["numa_node"], found["far"]["numa_node"]) == ("0", "1")


def test_memory_is_two_numa_nodes_of_half_the_size_each() -> None:
    command = " ".join(machine.node_command("qemu", a_guest()))
    assert "-numa node,nodeid=0,memdev=memory0,cpus=0" in command
    assert "-numa node,nodeid=1,memdev=memory1" in command
    assert command.count("size=1024M") == 2


def test_nothing_listens_beyond_the_host_and_guests_have_no_way_out() -> None:
    node = " ".join(machine.node_command("qemu", a_guest()))
    hub = " ".join(machine.hub_command("qemu", Path("/run/x"), "data", 3))
    assert "hostfwd=tcp:127.0.0.1:22001-:22" in node
    assert node.count("hostfwd") == 1
    # The one thing that a guest can ask of the host: the time, by which it sets its clock.
    assert node.count("guestfwd") == 1
    assert "guestfwd=tcp:10.0.2.100:37-cmd:date +%s.%N" in node
    assert "restrict=on" in node
    assert "addr.type=inet" not in node + hub
    assert "-nodefaults" in node
    assert "-nodefaults" in hub


def test_a_hub_has_a_server_for_each_node_and_nodes_are_clients_of_their_own() -> None:
    hub = machine.hub_command("qemu", Path("/run/x"), "data", 3)
    for number in (1, 2, 3):
        socket = f"addr.path=/run/x/data-{number}.sock"
        assert any("server=on" in word and socket in word for word in hub)
        node = machine.node_command("qemu", a_guest(number))
        assert any("server=off" in word and socket in word for word in node)


def test_a_store_disk_is_attached_read_only_and_announced_to_the_initramfs() -> None:
    command = machine.node_command("qemu", a_guest(store=Path("/cache/a,b.ext4")))
    disk = next(word for word in command if word.startswith("id=store"))
    assert "readonly=on" in disk
    assert "file=/cache/a,,b.ext4," in disk, "QEMU reads a doubled comma as one"
    assert "gdrcheck_lab.store" in command[command.index("-append") + 1]
    bare = machine.node_command("qemu", a_guest())
    assert "gdrcheck_lab.store" not in bare[bare.index("-append") + 1]


def test_every_nic_of_every_node_has_its_own_address() -> None:
    addresses = [machine.mac_address(nic, n) for nic in machine.INTERFACES for n in range(1, 9)]
    assert len(set(addresses)) == len(addresses)


def test_ssh_reads_the_configuration_as_strict_and_for_this_lab_only(tmp_path: Path) -> None:
    home = tmp_path / "with space"
    config = tmp_path / "config"
    config.write_text(access.ssh_config(home, Path("/run/x"), {"node1": 22001, "node2": 22002}))
    done = subprocess.run(
        ["ssh", "-G", "-F", str(config), "node2"], capture_output=True, text=True, check=True
    )
    read = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert (read["hostname"], read["port"], read["user"]) == ("127.0.0.1", "22002", "gdr")
    assert read["stricthostkeychecking"] in ("true", "yes")
    assert read["userknownhostsfile"].strip('"') == f"{home}/known_hosts"
    assert read["identitiesonly"] == "yes"
    assert read["passwordauthentication"] == "no"


def test_known_hosts_names_address_and_port() -> None:
    line = access.known_host_line(22001, "ssh-ed25519 AAAA node1")
    assert line == "[127.0.0.1]:22001 ssh-ed25519 AAAA\n"


def test_inventory_reaches_each_node_with_its_key_and_known_host(tmp_path: Path) -> None:
    home = tmp_path / 'quote" and space'
    read = yaml.safe_load(inventory.hosts_yaml(home, a_lab(3)))
    shared, hosts = read["gpu"]["vars"], read["gpu"]["hosts"]
    assert list(hosts) == ["node1", "node2", "node3"]
    assert hosts["node3"] == {"ansible_port": 22003, "gdrcheck_address": "10.77.1.3"}
    assert shared["ansible_ssh_private_key_file"] == f"{home}/id_ed25519"
    assert "StrictHostKeyChecking=yes" in shared["ansible_ssh_common_args"]
    assert f"UserKnownHostsFile='{home}/known_hosts'" in shared["ansible_ssh_common_args"]


def test_state_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    lab = a_lab(image="localhost/x:y", store_disk="/s")
    assert state.load(tmp_path) is None
    state.save(tmp_path, lab)
    assert state.load(tmp_path) == lab


@pytest.mark.parametrize("content", ['{"version": 0}', '{"name": "demo"', ""])
def test_a_state_file_of_another_version_or_half_a_one_is_named(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / state.FILE).write_text(content)
    with pytest.raises(LabError, match=r"lab\.json"):
        state.load(tmp_path)


def test_a_replaced_node_keeps_its_place() -> None:
    lab = a_lab(3).with_node(NodeState(2, 29999, NOBODY))
    assert [(n.number, n.ssh_port) for n in lab.nodes] == [(1, 22001), (2, 29999), (3, 22003)]


def test_a_lab_with_a_dead_process_is_not_up() -> None:
    now = status.describe(a_lab())
    assert not now.up
    assert "node1: DEAD" in now.as_text()


@pytest.mark.parametrize("name", ["", "-a", "../x", "A", "a" * 32, "a/b"])
def test_a_name_that_is_no_plain_word_is_refused(name: str) -> None:
    with pytest.raises(LabError, match="lab name"):
        paths.state_directory(name)


def test_a_node_gets_its_identity_before_it_boots() -> None:
    archive = guest_files.archive(
        2,
        lab_name="demo",
        numbers=(1, 2),
        user_key="ssh-ed25519 USER",
        host_key="SECRET",
        host_key_public="ssh-ed25519 HOST",
        has_store=False,
    )
    found = members_of(archive)
    assert found["node/etc/hostname"][1] == b"node2\n"
    assert found["node/etc/ssh/ssh_host_ed25519_key"] == (0o100600, b"SECRET")
    assert found["node/etc/ssh/authorized_keys/gdr"][1] == b"ssh-ed25519 USER\n"
    assert (
        machine.mac_address("data0", 2).encode()
        in (found["node/etc/systemd/network/10-data0.link"][1])
    )
    assert b"10.77.1.1 node1\n" in found["node/etc/hosts"][1]
    assert "node/etc/containers/storage.conf" not in found


@given(st.dictionaries(st.from_regex(r"\A[a-z]{1,9}\Z"), st.binary(max_size=50), max_size=6))
def test_archives_hold_what_was_put_in_and_may_follow_each_other(files: dict[str, bytes]) -> None:
    archive = initramfs.pack([initramfs.file(f"top/{n}", c) for n, c in files.items()])
    found = members_of(archive)
    assert {n: c for n, (_, c) in found.items() if n != "top"} == {
        f"top/{n}": c for n, c in files.items()
    }
    assert list(found)[:1] == (["top"] if files else []), "a directory precedes what is in it"
    assert len(archive) % 4 == 0


def test_modules_load_after_what_they_need_and_once() -> None:
    listed = "k/a.ko.xz: k/b-x.ko.xz k/c.ko.xz\nk/b-x.ko.xz: k/c.ko.xz\nk/c.ko.xz:\nk/d.ko.xz:\n"
    order = initramfs.load_order(listed, ["a", "b_x", "c"])
    assert order == ["k/c.ko.xz", "k/b-x.ko.xz", "k/a.ko.xz"]
    with pytest.raises(KeyError):
        initramfs.load_order(listed, ["absent"])


def test_commands_for_a_lab_that_is_not_up_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert cli.main(["status"]) == 1
    assert cli.main(["run", "--", "true"]) == 1
    assert cli.main(["inventory"]) == 1
    assert cli.main(["down"]) == 0, "down of nothing is done already"
    said = capsys.readouterr()
    assert said.err.count("is not up: run `python3 -m lab up") == 2


@pytest.mark.parametrize("count", ["0", "9"])
def test_a_wrong_number_of_nodes_is_refused_before_anything_is_built(
    count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["up", "--nodes", count]) == 1
    assert "a lab has 1 to 8 nodes" in capsys.readouterr().err
