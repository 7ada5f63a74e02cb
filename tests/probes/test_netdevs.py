"""Network interfaces and their directly connected networks."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdrcheck.facts import Unreadable
from gdrcheck.probes.netdevs import read_netdev, read_subnets
from tests.probes import trees

NET = "sys/class/net/eth1"


def test_connected_networks_are_told_from_other_routes(tmp_path: Path) -> None:
    trees.write(
        tmp_path,
        trees.routes(
            "eth0 00000000 010200C0 0003 00000000",
            "eth0 000200C0 00000000 0001 00FFFFFF",
            "eth1 0000330A 00000000 0001 0000FFFF",
            "eth1 0000440A 0100330A 0003 0000FFFF",
            "eth1 0500330A 00000000 0005 FFFFFFFF",
            "eth1 006433C6 00000000 0001 FEFFFFFF",
            "* 0000550A 00000000 0200 0000FFFF",
        ),
    )
    assert read_subnets(tmp_path) == {
        "eth0": ("192.0.2.0/24",),
        "eth1": ("10.51.0.0/16", "198.51.100.0/31"),
    }


def test_a_capture_may_have_the_table_beside_the_process(tmp_path: Path) -> None:
    table = trees.routes("eth0 000200C0 00000000 0001 00FFFFFF")["proc/self/net/route"]
    trees.write(tmp_path, {"proc/net/route": table})
    assert read_subnets(tmp_path) == {"eth0": ("192.0.2.0/24",)}


def test_a_machine_without_routes_has_no_networks(tmp_path: Path) -> None:
    trees.write(tmp_path, trees.routes())
    assert read_subnets(tmp_path) == {}
    assert isinstance(read_subnets(tmp_path / "nowhere"), Unreadable)


@pytest.mark.parametrize(
    "line",
    [
        "eth1 0000330A 00000000 0001",
        "eth1 0000330A 0 0001 0 0 0 00FF00FF 0 0 0",
        "eth1 0100330A 0 0001 0 0 0 0000FFFF 0 0 0",
        "eth1 33 0 0001 0 0 0 0000FFFF 0 0 0",
        "eth1 0000330A 0 -1 0 0 0 0000FFFF 0 0 0",
    ],
)
def test_a_line_of_unknown_form_makes_the_table_unreadable(tmp_path: Path, line: str) -> None:
    trees.write(tmp_path, {"proc/self/net/route": f"{trees.ROUTES_TITLE}\n{line}\n"})
    found = read_subnets(tmp_path)
    assert isinstance(found, Unreadable)
    assert "line 2" in found.unreadable


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(data=st.binary(max_size=300), title=st.booleans())
def test_any_bytes_in_the_table_are_survived(tmp_path: Path, data: bytes, title: bool) -> None:
    path = tmp_path / "proc/self/net/route"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((trees.ROUTES_TITLE + "\n").encode() * title + data)
    found = read_subnets(tmp_path)
    assert isinstance(found, Unreadable) or title
    netdev = read_netdev(tmp_path / NET, found)
    assert type(netdev).model_validate_json(netdev.model_dump_json()) == netdev


@given(network=st.integers(1, 31), bits=st.integers(0, 2**32 - 1))
def test_a_network_is_read_as_the_kernel_writes_it(
    tmp_path_factory: pytest.TempPathFactory, network: int, bits: int
) -> None:
    root = tmp_path_factory.mktemp("tree")
    net = IPv4Network((bits, network), strict=False)
    words = [value.packed[::-1].hex().upper() for value in (net.network_address, net.netmask)]
    trees.write(root, trees.routes(f"eth1 {words[0]} 00000000 0001 {words[1]}"))
    assert read_subnets(root) == {"eth1": (str(net),)}


@pytest.mark.parametrize(
    ("state", "flags", "up"),
    [
        ("up", "0x1003", True),
        ("down", "0x1003", False),
        ("lowerlayerdown", "0x1003", False),
        ("unknown", "0x1003", True),
        ("unknown", "0x1002", False),
    ],
)
def test_up_means_a_carrier_or_where_none_is_told_switched_on(
    tmp_path: Path, state: str, flags: str, up: bool
) -> None:
    trees.write(tmp_path, trees.netdev_files(NET, operstate=state, flags=flags))
    netdev = read_netdev(tmp_path / NET, {"eth1": ("192.0.2.0/24",)})
    assert (netdev.up, netdev.mtu_bytes, netdev.subnets) == (up, 4200, ("192.0.2.0/24",))


@pytest.mark.parametrize("changes", [{"operstate": ""}, {"operstate": "unknown", "flags": "x"}])
def test_an_interface_of_which_nothing_is_known_is_not_down(
    tmp_path: Path, changes: dict[str, str]
) -> None:
    trees.write(tmp_path, trees.netdev_files(NET, **changes))
    assert isinstance(read_netdev(tmp_path / NET, {}).up, Unreadable)
