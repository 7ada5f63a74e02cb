"""What the profiles promise of pairs is measured, or a case says that it was not."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.profile import NicSelector, Profile, Rails
from gdrcheck.results import pairs
from gdrcheck.run import NodeSpec, RunSpec
from gdrcheck.verbs import protocol
from tests.node.support import profile, run_spec
from tests.results.trees import Merged, NodeTree, two_nodes, write_run


def test_every_operation_that_is_measured_is_owed() -> None:
    assert pairs.OPERATIONS == protocol.OPERATIONS


def with_rails(count: int, **changes: object) -> Profile:
    """A profile of ``count`` rails."""
    rails = Rails(
        count=count, nics=(NicSelector(name="rxe*"),), port_rate_gbps=10, link_layer="ethernet"
    )
    return profile(rails=rails, **changes)


def mixed(**profiles: Profile) -> RunSpec:
    """A run in which each node has a profile of its own."""
    nodes = tuple(NodeSpec(name=name, address="127.0.0.1", profile=name) for name in profiles)
    return run_spec(nodes=nodes, profiles=profiles)


def trees(root: Path, spec: RunSpec) -> list[NodeTree]:
    """A node tree for each node, each with a passed case."""
    write_run(root, spec)
    made = [NodeTree(root, node.name) for node in spec.nodes]
    for tree in made:
        tree.case(f"port[{tree.node}]")
    return made


def message(merged: Merged, id_: str) -> str:
    """What an error case says."""
    kind, text = merged.result(id_) or ("", "")
    assert kind == "Error"
    return text


@pytest.mark.parametrize("listed", [True, False])
def test_two_rails_with_everything_pass(tmp_path: Path, listed: bool) -> None:
    one, _two = trees(tmp_path, run_spec("node1", "node2", profiles={"soft": with_rails(2)}))
    if listed:
        one.rendezvous(["node1", "node2"], ["rxe0", "rxe1"])
    one.both_ways("node2", "rxe0")
    one.both_ways("node2", "rxe1")
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.PASS
    assert merged.summary.counts["passed"] == len(merged.cases) - len(merged.uncompared)


@pytest.mark.parametrize(("listed", "place"), [(True, "rxe1"), (False, "rail1")])
def test_a_rail_that_is_in_no_pair(tmp_path: Path, listed: bool, place: str) -> None:
    one, _two = trees(tmp_path, run_spec("node1", "node2", profiles={"soft": with_rails(2)}))
    if listed:
        one.rendezvous(["node1", "node2"], ["rxe0", "rxe1"])
    one.both_ways("node2", "rxe0")
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.INCOMPLETE
    for source, sink in (("node1", "node2"), ("node2", "node1")):
        id_ = f"pair_measured[{source}/{place} -> {sink}/{place}]"
        assert message(merged, id_) == "no result of SEND, WRITE_WITH_IMM, READ"


def test_a_rail_that_the_agreed_list_leaves_out(tmp_path: Path) -> None:
    one, _two = trees(tmp_path, run_spec("node1", "node2", profiles={"soft": with_rails(2)}))
    one.rendezvous(["node1", "node2"], ["rxe0"])
    one.both_ways("node2", "rxe0")
    merged = Merged(tmp_path)
    assert "pair_measured[node1/rail1 -> node2/rail1]" in merged.cases
    assert merged.verdict is Verdict.INCOMPLETE


def test_an_operation_that_is_missing_in_one_direction(tmp_path: Path) -> None:
    one, _two = trees(tmp_path, run_spec("node1", "node2"))
    one.rendezvous(["node1", "node2"], ["rxe0"])
    for operation in ("SEND", "WRITE_WITH_IMM", "READ"):
        one.pair("node1/rxe0", "node2/rxe0", operation=operation)
        # What was passed over is not measured.
        outcome = Outcome.SKIPPED if operation == "READ" else Outcome.BLOCKED
        one.pair("node2/rxe0", "node1/rxe0", outcome, operation=operation)
    merged = Merged(tmp_path)
    missing = [name for name in merged.cases if name.startswith("pair_measured")]
    assert missing == ["pair_measured[node2/rxe0 -> node1/rxe0]"]
    assert message(merged, missing[0]) == "no result of READ"


def test_a_rail_without_counterpart(tmp_path: Path) -> None:
    one, _two = trees(tmp_path, mixed(node1=with_rails(2), node2=with_rails(1)))
    one.both_ways("node2")
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.INCOMPLETE
    expected = "rail 1 of node1 has no counterpart: node2's profile node2 promises 1 rails"
    assert message(merged, "pair_measured[node1/rail1 -> node2/rail1]") == expected
    assert message(merged, "pair_measured[node2/rail1 -> node1/rail1]") == expected


def test_a_node_that_rests_in_every_round(tmp_path: Path) -> None:
    made = trees(tmp_path, run_spec("node1", "node2", "node3", rounds=1))
    made[1].both_ways("node3")
    merged = Merged(tmp_path)
    (unpaired,) = [name for name in merged.cases if name.startswith("pair_measured")]
    resting = unpaired.removeprefix("pair_measured[").removesuffix("]")
    assert message(merged, unpaired).startswith("measured no pair")
    assert resting in {"node1", "node2", "node3"}
    assert merged.verdict is Verdict.INCOMPLETE


def test_a_node_whose_partners_owe_no_pairs(tmp_path: Path) -> None:
    trees(tmp_path, mixed(node1=profile(), node2=profile(pairs="none")))
    merged = Merged(tmp_path)
    assert message(merged, "pair_measured[node1]").startswith("measured no pair")
    assert "pair_measured[node2]" not in merged.cases
    assert "pair_measured[node1 -> node2]" not in merged.cases


def test_nodes_without_pairs_are_not_missed(tmp_path: Path) -> None:
    spec = mixed(node1=profile(), node2=profile(), node3=profile(pairs="none"))
    one, _two, _three = trees(tmp_path, spec)
    one.both_ways("node2")
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.PASS
    assert not [name for name in merged.cases if name.startswith("pair_measured")]


def test_one_rail_named_twice_is_not_two(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    spec = run_spec("node1", "node2", profiles={"soft": with_rails(2)})
    (tmp_path / "run.json").write_text(spec.model_dump_json())
    for operation in ("SEND", "WRITE_WITH_IMM", "READ"):
        one.pair("node1/rxe0", "node2/rxe1", operation=operation)
    merged = Merged(tmp_path)
    assert "pair_measured[node1/rail1 -> node2/rail1]" in merged.cases
