"""Cables at the wrong leaf, swapped cables, ties: who is at fault is named, and no other."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.facts import Neighbour, Port, Unreadable
from gdrcheck.findings import catalogue
from gdrcheck.findings.model import Finding, Where
from gdrcheck.rails import Rail
from gdrcheck.rules.cable_ends import Cabling, End, end_of, neighbours
from gdrcheck.rules.cabling import Units, judge
from tests import facts as builders

GUID = 0xB83FD20300AA0001


def neighbour(switch: str = "e4:1d:2d:0a:0b:0c", name: str = "leaf-1") -> Neighbour:
    return Neighbour(switch=switch, switch_name=name, port="7", source="lldpd")


def end(node: str, rail: int, switch: str, label: str | None = None) -> End:
    return End(
        where=Where(node=node, nic=f"mlx5_{rail}"),
        rail=rail,
        label=label,
        switch=switch,
        leaf=f"leaf {switch}",
        port=node.removeprefix("n"),
    )


def planned(nodes: int = 4, count: int = 4, label: str | None = None, first: int = 0) -> list[End]:
    """Nodes that are cabled by rail: rail i at switch i."""
    return [
        end(f"n{node}", rail, f"{label or ''}s{rail}", label)
        for node in range(first, first + nodes)
        for rail in range(count)
    ]


def found(ends: Iterable[End], cabling: Cabling = "by_rail") -> list[tuple[str, str]]:
    findings = judge(Units.of(ends, cabling), cabling)
    assert all(catalogue.entry(one.code).severity == one.severity for one in findings)
    return [(one.code, one.where.text()) for one in findings]


def exchanged(ends: list[End], one: tuple[str, int], other: tuple[str, int]) -> list[End]:
    """The same with two cables swapped."""
    places = {(each.where.node, each.rail): each for each in ends}
    first, second = places[one], places[other]
    swapped = {
        one: end(*one, second.switch, first.label),
        other: end(*other, first.switch, second.label),
    }
    return [swapped.get((each.where.node, each.rail), each) for each in ends]


def moved(ends: list[End], node: str, rail: int, switch: str) -> list[End]:
    return [
        end(node, rail, switch, one.label) if (one.where.node, one.rail) == (node, rail) else one
        for one in ends
    ]


def test_a_fleet_that_is_cabled_by_rail_has_no_finding() -> None:
    assert found(planned()) == []
    assert found([*planned(label="a"), *planned(label="b", first=4)]) == []


def test_a_cable_at_a_leaf_of_nobody_is_named() -> None:
    ends = moved(planned(), "n2", 1, "spare")
    assert found(ends) == [("FABRIC-RAIL-LEAF", "n2/mlx5_1")]
    (finding,) = judge(Units.of(ends, "by_rail"), "by_rail")
    assert finding.observed == "rail 1 of n2/mlx5_1 at leaf spare, port 2"
    assert finding.expected == "at leaf s1, as n0/mlx5_1 and most others"


def test_two_cables_of_a_node_that_are_swapped_are_one_finding() -> None:
    ends = exchanged(planned(), ("n3", 0), ("n3", 2))
    (finding,) = judge(Units.of(ends, "by_rail"), "by_rail")
    assert (finding.code, finding.where.text()) == ("FABRIC-CABLES-SWAPPED", "n3/mlx5_0")
    assert "rail 0 of n3/mlx5_0 at leaf s2" in finding.observed
    assert "rail 2 of n3/mlx5_2 at leaf s0" in finding.observed
    assert finding.expected == "rail 0 of n3/mlx5_0 at leaf s0; rail 2 of n3/mlx5_2 at leaf s2"


def test_two_cables_of_two_nodes_that_are_swapped_are_one_finding() -> None:
    ends = exchanged(planned(), ("n0", 1), ("n2", 3))
    assert found(ends) == [("FABRIC-CABLES-SWAPPED", "n0/mlx5_1 (with n2)")]


def test_cables_of_two_leaf_groups_can_be_swapped_too() -> None:
    ends = [*planned(label="a"), *planned(label="b", first=4)]
    swapped = exchanged(ends, ("n1", 2), ("n6", 2))
    assert found(swapped) == [("FABRIC-CABLES-SWAPPED", "n1/mlx5_2 (with n6)")]


def test_a_swap_within_a_node_goes_before_one_with_another_node() -> None:
    ends = exchanged(planned(nodes=5), ("n4", 0), ("n4", 1))
    ends = exchanged(ends, ("n2", 0), ("n2", 1))
    assert found(ends) == [
        ("FABRIC-CABLES-SWAPPED", "n2/mlx5_0"),
        ("FABRIC-CABLES-SWAPPED", "n4/mlx5_0"),
    ]


def test_three_cables_in_a_circle_are_three_at_the_wrong_leaf() -> None:
    ends = planned()
    for rail in range(3):
        ends = moved(ends, "n1", rail, f"s{(rail + 1) % 3}")
    assert found(ends) == [("FABRIC-RAIL-LEAF", f"n1/mlx5_{rail}") for rail in range(3)]


def test_a_node_of_which_every_cable_is_elsewhere_is_one_finding() -> None:
    ends = planned(label="a")
    for rail in range(4):
        ends = moved(ends, "n1", rail, f"bs{rail}")
    assert found(ends) == [("FABRIC-RAIL-LEAF", "n1")]


def test_a_leaf_group_without_a_label_is_one_finding() -> None:
    ends = [*planned(nodes=5), *(end(f"n{n}", rail, f"t{rail}") for n in (7, 8) for rail in (0, 1))]
    assert found(ends) == [("FABRIC-RAIL-LEAF", "n7")]
    (finding,) = judge(Units.of(ends, "by_rail"), "by_rail")
    assert "alike at n7, n8" in finding.observed


def test_two_nodes_in_each_others_place_are_one_finding() -> None:
    ends = [*planned(label="A"), *planned(label="B", first=10)]
    for number in range(4):
        ends = exchanged(ends, ("n1", number), ("n12", number))
    assert found(ends) == [("FABRIC-CABLES-SWAPPED", "n1 (with n12)")]
    assert len(found(exchanged(ends, ("n1", 0), ("n12", 0)))) == 3


def test_two_nodes_that_are_mirrored_are_a_swap_and_a_tie() -> None:
    ends = exchanged(planned(nodes=2), ("n1", 0), ("n1", 1))
    (finding,) = judge(Units.of(ends, "by_rail"), "by_rail")
    assert (finding.code, finding.where.text()) == (
        "FABRIC-CABLES-SWAPPED",
        "n0/mlx5_0 (with n1)",
    )
    assert "it is a tie" in finding.expected


def test_half_and_half_is_a_tie_and_names_no_end_as_wrong() -> None:
    ends = moved(moved(planned(), "n2", 0, "x"), "n3", 0, "x")
    (finding,) = judge(Units.of(ends, "by_rail"), "by_rail")
    assert (finding.code, finding.where.text()) == ("FABRIC-RAIL-LEAF", "n0/mlx5_0 (with n2)")
    assert finding.expected.endswith("a tie")
    assert "leaf s0: rail 0 of n0/mlx5_0, rail 0 of n1/mlx5_0; leaf x:" in finding.observed


def test_two_nodes_that_are_cabled_by_node_are_no_swap() -> None:
    ends = [end(f"n{node}", rail, f"s{node}") for node in range(2) for rail in range(2)]
    (finding,) = judge(Units.of(ends, "by_rail"), "by_rail")
    assert finding.code == "FABRIC-RAIL-LEAF"
    assert finding.observed.endswith("; also in a tie: rail 1")
    assert found(ends, "by_node") == []


def test_by_node_a_rail_elsewhere_and_a_swap_are_named() -> None:
    ends = [end(f"n{node}", rail, f"s{node}") for node in range(3) for rail in range(4)]
    assert found(ends, "by_node") == []
    assert found(moved(ends, "n1", 2, "x"), "by_node") == [("FABRIC-RAIL-LEAF", "n1/mlx5_2")]
    assert found(exchanged(ends, ("n0", 1), ("n2", 3)), "by_node") == [
        ("FABRIC-CABLES-SWAPPED", "n0/mlx5_1 (with n2)")
    ]


def test_by_node_a_label_holds_its_nodes_together() -> None:
    ends = [end(f"n{node}", rail, "s0", "a") for node in range(3) for rail in range(2)]
    for rail in range(2):
        ends = moved(ends, "n2", rail, "s1")
    assert found(ends, "by_node") == [("FABRIC-RAIL-LEAF", "n2")]
    assert found([end("n0", 0, "s0"), end("n1", 0, "s1")], "by_node") == []


def test_an_end_alone_is_compared_with_nothing() -> None:
    units = Units.of([end("n0", 0, "s0"), end("n0", 1, "s1")], "by_rail")
    assert judge(units, "by_rail") == ()
    assert [one.rail for one in units.alone] == [0, 1]


@given(st.integers(0, 2**32), st.integers(0, 5))
def test_of_random_swaps_each_is_found_and_nothing_else(seed: int, swaps: int) -> None:
    """In a fleet where most ends are right: pairs of cables that share no end and no rail."""
    chance = random.Random(seed)
    ends = planned(nodes=12, count=10)
    nodes = chance.sample(range(12), 2 * swaps)
    rails = chance.sample(range(10), 2 * swaps)
    pairs = [
        ((f"n{nodes[i]}", rails[i]), (f"n{nodes[i + 1]}", rails[i + 1]))
        for i in range(0, 2 * swaps, 2)
    ]
    for one, other in pairs:
        ends = exchanged(ends, one, other)
    findings = judge(Units.of(ends, "by_rail"), "by_rail")
    assert {one.code for one in findings} <= {"FABRIC-CABLES-SWAPPED"}
    assert {frozenset((one.where.node, str(one.where.peer))) for one in findings} == {
        frozenset((one[0], other[0])) for one, other in pairs
    }


def rail(port: Port, *netdevs: object) -> Rail:
    device = builders.rdma_device("mlx5_0", ports=(port,), netdevs=netdevs)
    return Rail(id=0, node="n0", gpu=None, nic="mlx5_0", device=device)


ETHERNET = {"link_layer": "ethernet", "gids": ()}


def test_infiniband_is_known_by_the_lower_half_of_the_first_gid() -> None:
    port = builders.port()
    assert neighbours(rail(port), port, None) == ()
    assert neighbours(rail(port), port, {GUID: neighbour()}) == (neighbour(),)
    why = neighbours(rail(port), port, {1: neighbour()})
    assert isinstance(why, Unreadable)
    assert "0xb83fd20300aa0001" in why.unreadable
    bare = builders.port(gids=())
    assert isinstance(neighbours(rail(bare), bare, {GUID: neighbour()}), Unreadable)


def test_ethernet_is_known_by_the_interfaces_of_the_port() -> None:
    port = builders.port(**ETHERNET)
    asked = builders.netdev("eth2", neighbour=neighbour())
    assert neighbours(rail(port, builders.netdev("eth2")), port, None) == ()
    assert neighbours(rail(port, asked), port, {GUID: neighbour("other")}) == (neighbour(),)
    unknown = builders.netdev("eth2", neighbour=Unreadable(unreadable="no frame"))
    assert neighbours(rail(port, unknown), port, None) == Unreadable(unreadable="eth2: no frame")


@pytest.mark.parametrize("netdev", ["eth2", "eth3"])
def test_of_two_ports_each_has_the_interface_that_its_gids_name(netdev: str) -> None:
    gid = {"index": 0, "gid": "fe80::1", "type": "RoCE v2", "netdev": netdev}
    port = builders.port(**{**ETHERNET, "gids": (gid,)})
    ends = [builders.netdev(name, neighbour=neighbour(name)) for name in ("eth2", "eth3")]
    assert neighbours(rail(port, *ends), port, None) == (neighbour(netdev),)


def test_a_bond_is_at_both_of_its_leaves_in_any_order() -> None:
    gid = {"index": 0, "gid": "fe80::1", "type": "RoCE v2", "netdev": "bond0"}
    port = builders.port(**{**ETHERNET, "gids": (gid,)})
    one, two = (builders.netdev(f"eth{n}", neighbour=neighbour(f"s{n}")) for n in (1, 2))
    bond = builders.netdev("bond0")
    bonded = rail(port, one, two, bond)
    known = neighbours(bonded, port, None)
    assert isinstance(known, tuple)
    both = end_of(bonded, None, known)
    assert both.switch == "s1 + s2"
    assert end_of(bonded, None, known[::-1]).switch == both.switch


def test_findings_are_told_in_one_line() -> None:
    (finding,) = judge(Units.of(moved(planned(), "n2", 1, "x"), "by_rail"), "by_rail")
    assert isinstance(finding, Finding)
    assert "\n" not in finding.text()
