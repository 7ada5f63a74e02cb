"""What the host collector learns of cables: LLDP frames, lldpd's answer, and real interfaces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck import probes
from gdrcheck.facts import Neighbour, Unreadable
from gdrcheck.host_collector import collect
from gdrcheck.host_collector.lldp import parse_frame, parse_lldpd
from gdrcheck.host_collector.neighbours import interfaces, listen, read_neighbours
from gdrcheck.probes import collected
from tests.probes import trees

HEAD = bytes.fromhex("0180c200000e 9e11d59765f2 88cc")
# Heard on a veth pair from lldpd 1.0.16, without the name of the kernel in its TLV 6.
FRAME = HEAD + bytes.fromhex(
    "0207049e11d59765f2 04050573777033 0602000c 0a066c6561662d31 0e04009c0080"
    "1018110 2fe800000000000009c11d5fffe9765f2020000000200 080473777033"
    "fe0900120f030100000000 fe0900120f010080000036 0000".replace(" ", "")
)
NEIGHBOUR = {
    "switch": "9e:11:d5:97:65:f2",
    "switch_name": "leaf-1",
    "port": "swp3",
    "source": "frames",
}
# The same neighbour, as lldpcli tells it.
ENTRY = {
    "name": "eth2",
    "via": "LLDP",
    "rid": "2",
    "age": "0 day, 00:00:09",
    "chassis": [
        {
            "id": [{"type": "mac", "value": "9e:11:d5:97:65:f2"}],
            "name": [{"value": "leaf-1"}],
            "capability": [{"type": "Bridge", "enabled": False}],
        }
    ],
    "port": [
        {"id": [{"type": "ifname", "value": "swp3"}], "descr": [{"value": "swp3"}], "ttl": []}
    ],
}


def tlv(kind: int, value: bytes) -> bytes:
    return (kind << 9 | len(value)).to_bytes(2, "big") + value


def frame(*values: bytes, life_s: int = 120, name: bytes = b"leaf-1") -> bytes:
    """A frame whose chassis and port are ``values``."""
    parts = [tlv(kind, value) for kind, value in enumerate(values, start=1)]
    end = tlv(3, life_s.to_bytes(2, "big")) + tlv(5, name) + tlv(0, b"")
    return HEAD + b"".join(parts) + end


class TestFrames:
    def test_a_real_frame(self) -> None:
        assert parse_frame(FRAME) == NEIGHBOUR

    @pytest.mark.parametrize(
        ("chassis", "expected"),
        [
            (b"\x04\xe4\x1d\x2d\x0a\x0b\x0c", "e4:1d:2d:0a:0b:0c"),
            (b"\x05\x01\x0a\x00\x00\x01", "10.0.0.1"),
            (b"\x07leaf-7", "leaf-7"),
            (b"\x07\xff\xfe", "fffe"),
            (b"\x04\x01\x02", "0102"),
        ],
    )
    def test_ids_are_written_as_lldpd_writes_them(self, chassis: bytes, expected: str) -> None:
        found = parse_frame(frame(chassis, b"\x05swp1"))
        assert found is not None
        assert found["switch"] == expected

    def test_a_goodbye_and_a_frame_for_farther_bridges_announce_no_neighbour(self) -> None:
        assert parse_frame(frame(b"\x07a", b"\x07b", life_s=0)) is None
        assert parse_frame(bytes.fromhex("0180c2000000") + FRAME[6:]) is None

    def test_no_control_character_gets_through(self) -> None:
        found = parse_frame(frame(b"\x07a\x1b[31m", b"\x07b\n", name=b"x\x1b]0;y\x07"))
        assert found is not None
        assert all(value.isprintable() for value in found.values())

    @pytest.mark.parametrize(
        ("bad", "why"),
        [
            (b"", "no LLDP frame"),
            (FRAME[:12] + b"\x08\x00" + FRAME[14:], "no LLDP frame"),
            (HEAD + tlv(2, b"\x05swp1"), "type 2 where type 1 belongs"),
            (frame(b"\x07a"), "type 3 where type 2 belongs"),
            (frame(b"\x07", b"\x05swp1"), "empty id"),
            (HEAD + tlv(1, b"\x07a") + tlv(2, b"\x07b") + tlv(3, b"") + tlv(0, b""), "time to"),
        ],
    )
    def test_a_broken_frame_is_told(self, bad: bytes, why: str) -> None:
        with pytest.raises(ValueError, match=why):
            parse_frame(bad)

    @given(st.integers(0, len(FRAME) - 3))
    def test_a_frame_that_ends_early_is_never_half_read(self, length: int) -> None:
        with pytest.raises(ValueError, match=r"ends within|no LLDP"):
            parse_frame(FRAME[:length])

    @given(st.binary(max_size=300))
    def test_any_bytes_are_a_neighbour_or_a_value_error(self, tail: bytes) -> None:
        try:
            found = parse_frame(HEAD + tail)
        except ValueError:
            return
        assert found is None or Neighbour.model_validate(found).switch


class TestLldpd:
    def told(self, *entries: Any) -> dict[str, Any]:
        return parse_lldpd(json.dumps({"lldp": [{"interface": list(entries)}]}))

    def test_both_sources_name_a_neighbour_alike(self) -> None:
        assert self.told(ENTRY) == {"eth2": {**NEIGHBOUR, "source": "lldpd"}}

    def test_without_neighbours_it_tells_of_none(self) -> None:
        assert parse_lldpd('{"lldp": [{}]}') == {}

    def test_other_protocols_are_forwarded_by_bridges_and_left_out(self) -> None:
        assert self.told({**ENTRY, "via": "CDPv2"}) == {}

    def test_two_neighbours_on_a_cable_are_no_neighbour(self) -> None:
        other = {**ENTRY, "port": [{"id": [{"type": "ifname", "value": "swp4"}]}]}
        why = self.told(ENTRY, other)["eth2"]["unreadable"]
        assert "leaf-1 swp3" in why
        assert "leaf-1 swp4" in why
        assert self.told(ENTRY, ENTRY)["eth2"]["port"] == "swp3"

    @pytest.mark.parametrize(
        "text",
        ["", "[]", "{}", '{"lldp": [{"interface": [{}]}]}', '{"lldp": [3]}', '{"lldp": {"a": 1}}',
         '{"lldp": [{"interface": [{"name": "e", "via": "LLDP", "chassis": [], "port": []}]}]}',
         json.dumps({"lldp": [{"interface": [{**ENTRY, "chassis": [{"id": [{"value": None}]}]}]}]}),
         "[" * 100_000],
    )  # fmt: skip
    def test_another_form_is_a_value_error(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"json0|Expecting"):
            parse_lldpd(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host with a NIC that has two interfaces, one IPoIB, and one rxe device."""
    net = "sys/class/net"
    trees.write(
        tmp_path,
        {
            f"{net}/eth2/type": "1\n",
            f"{net}/eth2/operstate": "up\n",
            f"{net}/ib0/type": "32\n",
            f"{net}/eth3/type": "1\n",
            f"{net}/eth3/operstate": "lowerlayerdown\n",
            f"{net}/eth9/type": "1\n",
            "sys/class/infiniband/mlx5_0/device/net/eth2/x": "",
            "sys/class/infiniband/mlx5_1/device/net/ib0/x": "",
            "sys/class/infiniband/rxe0/parent": "eth3\n",
        },
    )
    return tmp_path


def lldpcli(root: Path, body: str) -> None:
    path = root / "usr/sbin/lldpcli"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


class TestCollector:
    def test_only_ethernet_interfaces_of_rdma_devices_are_asked_about(self, root: Path) -> None:
        assert interfaces(root) == ["eth2", "eth3"]

    def test_lldpd_is_asked_where_it_answers(self, root: Path) -> None:
        lldpcli(root, f"echo '{json.dumps({'lldp': [{'interface': [ENTRY]}]})}'")
        found = read_neighbours(root, listen_s=0)
        assert found["eth2"] == {**NEIGHBOUR, "source": "lldpd"}
        assert found["eth3"] == {"unreadable": "lldpd knows no LLDP neighbour of it"}

    @pytest.mark.parametrize("known", [True, False])
    def test_a_bond_is_known_by_the_cables_of_all_its_interfaces(
        self, root: Path, known: bool
    ) -> None:
        # As of mlx5_bond_0: its PCI function has one of the two interfaces.
        trees.write(
            root,
            {
                "sys/class/net/bond0/bonding/slaves": "eth9 eth2\n",
                "sys/class/net/bond0/type": "1\n",
            },
        )
        (root / "sys/class/net/eth2/master").symlink_to("../bond0")
        chassis = [{"id": [{"type": "mac", "value": "02:00:00:00:00:01"}]}]
        other = {**ENTRY, "name": "eth9" if known else "eth8", "chassis": chassis}
        lldpcli(root, f"echo '{json.dumps({'lldp': [{'interface': [ENTRY, other]}]})}'")
        found = read_neighbours(root, listen_s=0)
        assert set(found) == {"eth2", "eth3"}
        assert found["eth2"] == (
            {
                "switch": "02:00:00:00:00:01 + 9e:11:d5:97:65:f2",
                "switch_name": "leaf-1",
                "port": "swp3 + swp3",
                "source": "lldpd",
            }
            if known
            else {"unreadable": "of its bond eth9: lldpd knows no LLDP neighbour of it"}
        )

    @pytest.mark.parametrize("body", ["exit 1", "echo nothing"])
    def test_where_lldpd_does_not_answer_the_interfaces_are_listened_to(
        self, root: Path, body: str
    ) -> None:
        lldpcli(root, body)
        found = read_neighbours(root, listen_s=0)
        assert found["eth3"] == {"unreadable": "the interface is down"}
        # There is none of this name here, or nobody may listen to it.
        assert set(found["eth2"]) == {"unreadable"}
        assert "lldpd" not in found["eth2"]["unreadable"]

    def test_nobody_is_asked_unless_somebody_wants_it(self, root: Path, tmp_path: Path) -> None:
        lldpcli(root, f"touch {tmp_path}/asked; exit 1")
        out = tmp_path / "out"
        assert "neighbours" not in collect(out, root)
        assert not (tmp_path / "asked").exists()
        values = collect(out, root, neighbours="lldp")
        assert (tmp_path / "asked").exists()
        assert "neighbours: eth3: the interface is down" in values["complaints"]

    def test_the_facts_hold_it_at_the_interface(self, root: Path) -> None:
        lldpcli(root, f"echo '{json.dumps({'lldp': [{'interface': [ENTRY]}]})}'")
        collect(root / collected.FOLDER, root, neighbours="lldp")
        devices = probes.collect("node1", root).rdma_devices
        assert isinstance(devices, tuple)
        by_name = {one.name: one for netdev in devices for one in netdev.netdevs}
        assert by_name["eth2"].neighbour == Neighbour.model_validate(
            {**NEIGHBOUR, "source": "lldpd"}
        )
        assert isinstance(by_name["eth3"].neighbour, Unreadable)
        assert by_name["ib0"].neighbour is None

    def test_without_being_asked_the_facts_hold_none(self, root: Path) -> None:
        collect(root / collected.FOLDER, root)
        devices = probes.collect("node1", root).rdma_devices
        assert isinstance(devices, tuple)
        assert {one.neighbour for device in devices for one in device.netdevs} == {None}

    @pytest.mark.parametrize("value", [[], {"eth2": 3}, {"eth2": {"switch": "a"}}])
    def test_a_host_file_of_another_form_is_unreadable(self, root: Path, value: object) -> None:
        folder = root / collected.FOLDER
        collect(folder, root)
        values = json.loads((folder / "host.json").read_text())
        (folder / "host.json").write_text(json.dumps({**values, "neighbours": value}))
        devices = probes.collect("node1", root).rdma_devices
        assert isinstance(devices, tuple)
        assert isinstance(devices[0].netdevs[0].neighbour, Unreadable)


# In a network of its own: two cables, of which one has a sender at its end, whose first frame is
# cut off, and one whose sender is this end itself.
PLAY = """
import json, socket, subprocess, sys, threading
from pathlib import Path
from gdrcheck.host_collector.neighbours import listen
for one, other in (("eth2", "swp3"), ("eth3", "swp4")):
    subprocess.run(["ip", "link", "add", one, "type", "veth", "peer", "name", other], check=True)
    for name in (one, other):
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
frame = bytes.fromhex(sys.argv[1])
def send():
    for name in ("swp3", "eth3"):
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
            sender.bind((name, 0))
            sender.send(frame[:40])
            sender.send(frame)
threading.Timer(0.5, send).start()
print(json.dumps(listen(Path("/"), ["eth2", "eth3"], 4)))
"""


def test_frames_are_heard_on_real_interfaces_and_our_own_are_not() -> None:
    try:
        done = subprocess.run(
            ["unshare", "--user", "--map-root-user", "--net", sys.executable, "-c", PLAY,
             FRAME.hex()],
            capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("there is no unshare(1)")
    if "unshare failed" in done.stderr:
        pytest.skip(f"no network namespace for this user: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "eth2": NEIGHBOUR,
        "eth3": {"unreadable": "no LLDP frame came within 4 s"},
    }


def test_an_interface_that_is_not_there_is_told(tmp_path: Path) -> None:
    (found,) = listen(tmp_path, ["no-such-if"], 0).values()
    assert found["unreadable"].startswith("cannot be listened to: ")
