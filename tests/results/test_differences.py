"""Differences between nodes become cases of the fleet, whatever the nodes sent."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

from gdrcheck.facts import Facts, VerbsDevice, VerbsPort
from gdrcheck.outcome import Verdict
from gdrcheck.pairing.messages import ClockOffset
from gdrcheck.profile import Waiver
from gdrcheck.run import NodeSpec
from tests import facts as builders
from tests.node.support import profile, run_spec
from tests.results.trees import Merged, NodeTree, two_nodes, write_run

CLOCK = ClockOffset(offset_s=0.25, error_s=0.01)


def soft(node: str, mtu_bytes: int = 4096, **host: object) -> Facts:
    """A node with one Soft-RoCE device."""
    verbs = VerbsDevice(
        name="rxe0",
        error=None,
        error_number=None,
        ports=(VerbsPort(number=1, active_mtu_bytes=mtu_bytes, max_mtu_bytes=4096),),
    )
    device = builders.rdma_device("rxe0", software=True, board=None, firmware=None, verbs=verbs)
    return builders.facts(node=node, host=builders.host(**host), rdma_devices=(device,))


def fleet(root: Path, two: Facts) -> tuple[NodeTree, NodeTree]:
    """Two nodes on which all checks passed; node1's facts are the usual ones."""
    trees = two_nodes(root)
    trees[0].facts(soft("node1"))
    trees[1].facts(two)
    trees[0].rendezvous(["node1", "node2"], ["rxe0"], {"node2": CLOCK})
    return trees


def test_nodes_that_are_alike_pass(tmp_path: Path) -> None:
    fleet(tmp_path, soft("node2"))
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.PASS
    # No node has these.
    assert merged.uncompared == {
        "cabling[soft]",
        "firmware_agrees[fleet]",
        "software_agrees[confidential-computing]",
        "software_agrees[traffic-class]",
    }
    assert {"mtu_agrees[rail0]", "software_agrees[kernel]", "clocks_agree[node2]"} <= set(
        merged.cases
    )
    assert "clocks_agree[node1]" not in merged.cases


def test_an_mtu_that_differs_fails_the_run_though_all_transfers_passed(tmp_path: Path) -> None:
    fleet(tmp_path, soft("node2", 1024))
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.FAIL
    assert merged.cases["mtu_agrees[rail0]"].result[0].type == "PORT-MTU-DIFFERS"
    (entry,) = merged.summary.findings
    assert entry.finding.where.text() == "node1/rxe0 (with node2)"
    assert merged.summary.suspects == ()


def test_a_difference_can_be_waived(tmp_path: Path) -> None:
    fleet(tmp_path, soft("node2", 1024))
    waiver = Waiver(
        code="PORT-MTU-DIFFERS", where="node1/*", reason="old switch", until=date(2026, 2, 1)
    )
    spec = run_spec("node1", "node2", profiles={"soft": profile(waivers=(waiver,))})
    (tmp_path / "run.json").write_text(spec.model_dump_json())
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.PASS
    assert merged.summary.counts["waived"] == 1


def test_drift_and_clocks_warn_and_fail_nothing(tmp_path: Path) -> None:
    one, _two = fleet(tmp_path, soft("node2", kernel="5.15.0"))
    late = ClockOffset(offset_s=120, error_s=0.01)
    one.rendezvous(["node1", "node2"], ["rxe0"], {"node2": late})
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.PASS
    assert {entry.finding.code for entry in merged.summary.findings} == {
        "HOST-DRIFT",
        "HOST-CLOCK-OFFSET",
    }
    kind, text = merged.result("clocks_agree[node2]") or ("", "")
    assert kind == "Skipped"
    assert "120 s behind node1" in text
    assert merged.summary.counts["warned"] == 2


def test_nodes_of_different_profiles_may_differ(tmp_path: Path) -> None:
    fleet(tmp_path, soft("node2", 1024, kernel="5.15.0"))
    spec = run_spec(
        nodes=tuple(
            NodeSpec(name=name, address="127.0.0.1", profile=name) for name in ("node1", "node2")
        ),
        profiles={"node1": profile(), "node2": profile()},
    )
    (tmp_path / "run.json").write_text(spec.model_dump_json())
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.PASS
    assert merged.result("mtu_agrees[rail0]") == (
        "Skipped",
        "node1 is the only node of its profile in this run; "
        "node2 is the only node of its profile in this run",
    )


def test_one_node_alone_has_nothing_to_differ_from(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", profiles={"soft": profile(pairs="none")}))
    NodeTree(tmp_path, "node1").case("port[node1]")
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.PASS
    assert merged.result("clocks_agree[fleet]") == ("Skipped", "there is one node only")
    for name in ("mtu_agrees[rail0]", "software_agrees[kernel]"):
        kind, text = merged.result(name) or ("", "")
        assert kind == "Skipped"
        assert "the only node" in text


def test_a_node_without_facts_leaves_the_others_compared(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", "node2", "node3"))
    for name, mtu_bytes in (("node1", 4096), ("node2", 1024)):
        tree = NodeTree(tmp_path, name)
        tree.case(f"port[{name}]")
        tree.facts(soft(name, mtu_bytes))
    merged = Merged(tmp_path)
    assert merged.cases["mtu_agrees[rail0]"].result[0].type == "PORT-MTU-DIFFERS"
    (tmp_path / "nodes/node2/facts.json").unlink()
    kind, text = Merged(tmp_path).result("mtu_agrees[rail0]") or ("", "")
    assert (kind, text) == (
        "Skipped",
        "not judged: too few nodes sent their facts; missing: node2, node3",
    )


def clock(merged: Merged, node: str = "node2") -> str:
    """Why the clock of the node was not judged."""
    kind, text = merged.result(f"clocks_agree[{node}]") or ("", "")
    assert kind == "Skipped"
    return text


def test_results_of_before_clocks_were_compared_merge_and_say_so(tmp_path: Path) -> None:
    one, _two = fleet(tmp_path, soft("node2"))
    path = one.directory / "rendezvous.json"
    old = json.loads(path.read_text())
    for state in old["nodes"].values():
        del state["clock"]
    path.write_text(json.dumps(old))
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.PASS
    assert clock(merged) == "not judged: ready at the rendezvous: its list holds no clocks"
    path.unlink()
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.PASS
    assert clock(merged) == "not judged: no list of the rendezvous tells of it"


def test_a_node_that_was_not_at_the_rendezvous_has_no_clock(tmp_path: Path) -> None:
    one, _two = fleet(tmp_path, soft("node2"))
    one.rendezvous(["node1"], ["rxe0"], node2="lost")
    assert clock(Merged(tmp_path)) == "not judged: lost at the rendezvous: no sign of life"


def test_a_node_tells_of_its_own_clock_before_others_do(tmp_path: Path) -> None:
    one, two = fleet(tmp_path, soft("node2"))
    late = ClockOffset(offset_s=120, error_s=0.01)
    two.rendezvous(["node1", "node2"], ["rxe0"], {"node2": CLOCK})
    text = (
        (two.directory / "rendezvous.json")
        .read_text()
        .replace('"leader": "node2"', '"leader": "node1"')
    )
    (two.directory / "rendezvous.json").write_text(text)
    one.rendezvous(["node1", "node2"], ["rxe0"], {"node2": late})
    merged = Merged(tmp_path)
    assert merged.result("clocks_agree[node2]") is None


def test_a_board_id_cannot_forge_a_line(tmp_path: Path) -> None:
    one, two = fleet(tmp_path, soft("node2"))
    for tree, version in ((one, "1"), (two, "2\nverdict: PASS")):
        device = builders.rdma_device("rxe0", board="x\n" + "y" * 500, firmware=version)
        tree.facts(builders.facts(node=tree.node, rdma_devices=(device,)))
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.PASS
    (name,) = [name for name in merged.cases if name.startswith("firmware_agrees[")]
    assert "\n" not in name
    assert len(name) < 200
    texts = [line for text in merged.cases[name]._elem.itertext() for line in text.splitlines()]
    assert any(r"2\nverdict: PASS at node2" in line for line in texts)
    assert not [line for line in texts if line.startswith("verdict")]
