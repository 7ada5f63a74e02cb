"""RDMA devices and GPUs in lines: all that is there, in the order in which people count."""

from __future__ import annotations

from gdrcheck.facts import Neighbour, Unreadable
from gdrcheck.show import devices
from gdrcheck.show.words import Gaps
from tests import facts as build


def shown(*rdma_devices: object) -> list[str]:
    return devices.rdma(build.facts(rdma_devices=rdma_devices), Gaps())


def port_line(start: str, **changes: object) -> str:
    lines = shown(build.rdma_device(ports=(build.port(**changes),)))
    return next(line.strip() for line in lines if line.strip().startswith(start))


def test_devices_are_in_the_order_of_their_numbers() -> None:
    names = ("mlx5_10", "mlx5_2", "mlx5_1")
    lines = shown(*(build.rdma_device(name) for name in names))
    heads = [line.split(",")[0].strip() for line in lines if line[2] != " "]
    assert heads == ["mlx5_1", "mlx5_2", "mlx5_10"]


def test_gid_that_stands_for_an_ipv4_address_shows_it() -> None:
    gid = {"index": 3, "type": "RoCE v2", "netdev": "ens1"}
    mapped = gid | {"gid": "0000:0000:0000:0000:0000:ffff:0a4d:0201"}
    assert port_line("GID", gids=(mapped,)) == (
        "GID 3: 0000:0000:0000:0000:0000:ffff:0a4d:0201 (10.77.2.1) RoCE v2 ens1"
    )
    assert port_line("GID", gids=(gid | {"gid": "fe80::1"},)) == "GID 3: fe80::1 RoCE v2 ens1"
    assert port_line("GID", gids=(gid | {"gid": "odd"},)) == "GID 3: odd RoCE v2 ens1"


def test_what_a_cable_leads_to_is_told_or_why_not() -> None:
    neighbour = Neighbour(switch="e4:1d", switch_name="leaf-1", port="swp3", source="lldpd")
    gaps = Gaps()
    netdevs = (
        build.netdev("eth2", neighbour=neighbour),
        build.netdev("eth3", neighbour=Unreadable(unreadable="no LLDP frame came")),
        build.netdev("eth4"),
    )
    facts = build.facts(rdma_devices=(build.rdma_device(netdevs=netdevs),))
    lines = [line.strip() for line in devices.rdma(facts, gaps)]
    assert "cable to port swp3 of leaf-1 (e4:1d)" in lines
    assert sum(line.startswith("cable to") for line in lines) == 2
    assert any("no LLDP frame came" in line for line in gaps.lines())


def test_counters_that_are_not_zero_are_told() -> None:
    counters = {"symbol_error": 3, "link_downed": 0, "rx_icrc_encapsulated": 1}
    assert port_line("counters", counters=counters) == (
        "counters: rx_icrc_encapsulated 1, symbol_error 3"
    )
    assert port_line("counters", counters={"link_downed": 0}) == "counters: all 1 are zero"
    assert port_line("counters", counters={}) == "counters: none"


def test_counters_that_were_not_read_are_not_zero() -> None:
    gaps = Gaps()
    why = Unreadable(unreadable="counters: Permission denied")
    ports = (
        build.port(counters=why),
        build.port(number=2, unreadable_counters={"link_downed": "link_downed: Invalid argument"}),
    )
    lines = devices.rdma(build.facts(rdma_devices=(build.rdma_device(ports=ports),)), gaps)
    assert len([line for line in lines if "counters: " in line]) == 1
    assert gaps.lines() == [
        "not read:",
        "  counters: Permission denied: counters",
        "  link_downed: Invalid argument: counter link_downed",
    ]


def test_nics_and_gpus_say_how_they_talk_on_pci_express() -> None:
    facts = build.facts()
    for lines in (devices.rdma(facts, Gaps()), devices.gpus(facts, Gaps())):
        assert lines[[line[2] != " " for line in lines].index(True)] == lines[0]
        assert any(line.startswith("    PCIe: payload 256 of 512 bytes") for line in lines)
