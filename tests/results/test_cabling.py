"""Cables become cases of the fleet: judged where a profile promises a cabling, else shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrcheck.facts import Facts, Neighbour, Unreadable
from gdrcheck.outcome import InputError, Verdict
from gdrcheck.results.folder import IB_LINKS_FILE
from gdrcheck.run import NodeSpec
from tests import facts as builders
from tests.node.support import profile, run_spec
from tests.results.trees import Merged, two_nodes

LINK = '[1]({guid:x}) \t"S-{switch:016x}"[{port}]\t\t# lid 1 lmc 0 "leaf-{switch}" lid 3 4xNDR\n'


def at(switch: str) -> Neighbour:
    return Neighbour(switch=switch, switch_name="", port="3", source="frames")


def soft(node: str, *neighbours: Neighbour | Unreadable | None, **port: object) -> Facts:
    """A node with a Soft-RoCE device for each neighbour."""
    devices = tuple(
        builders.rdma_device(
            f"rxe{number}",
            software=True,
            board=None,
            firmware=None,
            ports=(builders.port(**{"link_layer": "ethernet", "gids": ()} | port),),
            netdevs=(builders.netdev(f"eth{number}", neighbour=one),),
        )
        for number, one in enumerate(neighbours)
    )
    return builders.facts(node=node, host=builders.host(), rdma_devices=devices)


def merged(
    root: Path, one: Facts, two: Facts, cabling: str | None = "by_rail", *, links: str = ""
) -> Merged:
    """The merge of two nodes with these facts, whose profile promises the rails of node1."""
    trees = two_nodes(root)
    assert isinstance(one.rdma_devices, tuple)
    rails = {
        "count": len(one.rdma_devices),
        "nics": [{"name": "rxe*"}],
        "port_rate_gbps": 10,
        "link_layer": "ethernet",
        "cabling": cabling,
    }
    spec = run_spec("node1", "node2", profiles={"soft": profile(rails=rails)})
    (root / "run.json").write_text(spec.model_dump_json())
    for tree, facts in zip(trees, (one, two), strict=True):
        tree.facts(facts)
    for number in range(1, len(one.rdma_devices)):
        trees[0].both_ways("node2", f"rxe{number}")
    if links:
        (root / IB_LINKS_FILE).write_text(links)
    return Merged(root)


def test_rails_at_one_leaf_pass_and_show_it(tmp_path: Path) -> None:
    found = merged(tmp_path, soft("node1", at("a"), at("b")), soft("node2", at("a"), at("b")))
    assert found.verdict is Verdict.PASS
    assert found.result("cabling[soft]") is None
    shown = {one.name: one.value for one in found.suites["fleet"].properties()}
    assert shown["cabling[soft]: leaves"] == (
        "a: rail 0 of node1/rxe0, rail 0 of node2/rxe0; "
        "b: rail 1 of node1/rxe1, rail 1 of node2/rxe1"
    )


def test_a_rail_at_another_leaf_fails_the_run(tmp_path: Path) -> None:
    found = merged(tmp_path, soft("node1", at("a")), soft("node2", at("b")))
    assert found.verdict is Verdict.FAIL
    assert found.cases["cabling[soft]"].result[0].type == "FABRIC-RAIL-LEAF"
    (entry,) = [one for one in found.summary.findings if one.finding.code.startswith("FABRIC")]
    assert entry.finding.where.text() == "node1/rxe0 (with node2)"
    assert entry.finding.expected.endswith("a tie")


def test_swapped_cables_are_one_finding_of_both_rails(tmp_path: Path) -> None:
    found = merged(tmp_path, soft("node1", at("a"), at("b")), soft("node2", at("b"), at("a")))
    (entry,) = [one for one in found.summary.findings if one.finding.code.startswith("FABRIC")]
    assert entry.finding.code == "FABRIC-CABLES-SWAPPED"
    assert "rail 0 of node1/rxe0" in entry.finding.observed
    assert "rail 1 of node1/rxe1" in entry.finding.observed


def test_a_switch_cannot_forge_a_line(tmp_path: Path) -> None:
    forged = at("b").model_copy(update={"switch_name": "leaf\nverdict: PASS\x1b[2J"})
    found = merged(tmp_path, soft("node1", at("a")), soft("node2", forged))
    case = found.cases["cabling[soft]"].result[0]
    assert "rail 0 of node2/rxe0" in str(case.message)
    assert r"leaf\nverdict: PASS\x1b[2J (b)" in str(case.message)
    assert not [line for line in str(case.text).splitlines() if line.startswith("verdict")]


@pytest.mark.parametrize("unknown", [None, Unreadable(unreadable="no LLDP frame came")])
def test_promised_and_unknown_is_an_error_with_the_remedy(
    tmp_path: Path, unknown: Unreadable | None
) -> None:
    found = merged(tmp_path, soft("node1", at("a")), soft("node2", unknown))
    kind, text = found.result("cabling[soft]") or ("", "")
    assert kind == "Error"
    assert "neighbour unknown of node2/rxe0" in text
    assert "gdrcheck_neighbours: lldp" in text
    assert found.verdict is Verdict.INCOMPLETE


def test_an_unknown_neighbour_does_not_hide_what_is_wrong(tmp_path: Path) -> None:
    unknown = Unreadable(unreadable="no LLDP frame came")
    one = soft("node1", at("a"), at("a"), unknown)
    found = merged(tmp_path, one, soft("node2", at("a"), at("b"), unknown))
    case = found.cases["cabling[soft]"].result[0]
    assert case.type == "FABRIC-RAIL-LEAF"
    assert "neighbour unknown of node1/rxe2" in str(case.message) + str(case.text)


def test_promised_and_no_port_to_look_at_is_no_pass(tmp_path: Path) -> None:
    down = {"state": "DOWN"}
    found = merged(tmp_path, soft("node1", at("a"), **down), soft("node2", at("a"), **down))
    assert found.result("cabling[soft]") == ("Error", "no rail has an active port to look at")


def test_what_nobody_promises_is_shown_and_not_judged(tmp_path: Path) -> None:
    found = merged(tmp_path, soft("node1", at("a")), soft("node2", at("b")), None)
    kind, text = found.result("cabling[soft]") or ("", "")
    assert kind == "Skipped"
    assert "a: rail 0 of node1/rxe0; b: rail 0 of node2/rxe0" in text
    assert found.verdict is Verdict.PASS


def test_what_nobody_asked_for_is_skipped(tmp_path: Path) -> None:
    found = merged(tmp_path, soft("node1", None), soft("node2", None), None)
    assert found.result("cabling[soft]") == (
        "Skipped",
        "nobody asked what the cables lead to: docs/cabling.md",
    )


def test_a_node_that_has_none_to_compare_with_is_not_judged(tmp_path: Path) -> None:
    one, two = soft("node1", at("a")), soft("node2", at("b"))
    trees = two_nodes(tmp_path)
    rails = {"count": 1, "nics": [{"name": "rxe*"}], "cabling": "by_rail"}
    nodes = tuple(
        NodeSpec(name=name, address="127.0.0.1", profile="soft", leaf=f"of-{name}")
        for name in ("node1", "node2")
    )
    spec = run_spec(nodes=nodes, profiles={"soft": profile(rails=rails)})
    (tmp_path / "run.json").write_text(spec.model_dump_json())
    for tree, facts in zip(trees, (one, two), strict=True):
        tree.facts(facts)
    kind, text = Merged(tmp_path).result("cabling[soft]") or ("", "")
    assert kind == "Skipped"
    assert text.startswith("not judged: nothing to compare with: rail 0 of node1/rxe0 at a")


def infiniband(node: str, number: int) -> Facts:
    gid = {"index": 0, "gid": f"fe80::b83f:d203:aa:{number}", "type": "IB", "netdev": ""}
    return soft(node, None, link_layer="infiniband", gids=(gid,))


def links(*switches: int) -> str:
    lines = [
        LINK.format(guid=0xB83FD20300AA0000 + number, switch=switch, port=number)
        for number, switch in enumerate(switches, start=1)
    ]
    return 'Ca\t1 "H-a088c20300aa0001"\t\t# "x"\n' + "".join(lines)


def test_infiniband_takes_the_imported_list(tmp_path: Path) -> None:
    one, two = infiniband("node1", 1), infiniband("node2", 2)
    assert merged(tmp_path / "alike", one, two, links=links(7, 7)).result("cabling[soft]") is None
    other = merged(tmp_path / "other", one, two, links=links(7, 8))
    assert other.cases["cabling[soft]"].result[0].type == "FABRIC-RAIL-LEAF"
    kind, text = merged(tmp_path / "less", one, two, links=links(7)).result("cabling[soft]") or (
        "",
        "",
    )
    assert kind == "Error"
    assert "node2/rxe0: no link of port GUID 0xb83fd20300aa0002 is in the list" in text


def test_a_damaged_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ib_links\.txt: names no port of an adapter"):
        merged(tmp_path, infiniband("node1", 1), infiniband("node2", 2), links="nothing\n")
