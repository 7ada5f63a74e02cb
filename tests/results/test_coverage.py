"""What the profiles promise of pairs is measured, or a case says that it was not."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.pairing.items import Item, items
from gdrcheck.pairing.messages import NodeState, RailInfo
from gdrcheck.pairing.schedule import Pair
from gdrcheck.profile import NicSelector, Profile, Rails
from gdrcheck.results.incoming import NodeReport
from gdrcheck.results.lists import Rendezvous
from gdrcheck.results.owed_pairs import Ends, Owed
from gdrcheck.run import NodeSpec, RunSpec
from gdrcheck.transfer import OPERATIONS, Direction
from tests.node.support import profile, run_spec
from tests.results.trees import Merged, NodeTree, two_nodes, write_run

NODES = ("node1", "node2")


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
        assert message(merged, id_).startswith(
            "no result of pingpong host-host SEND/SEND_WITH_IMM/WRITE/WRITE_WITH_IMM/READ, "
            "latency host-host SEND, bandwidth host-host WRITE, "
        )


def test_a_rail_that_the_agreed_list_leaves_out(tmp_path: Path) -> None:
    one, _two = trees(tmp_path, run_spec("node1", "node2", profiles={"soft": with_rails(2)}))
    one.rendezvous(["node1", "node2"], ["rxe0"])
    one.both_ways("node2", "rxe0")
    merged = Merged(tmp_path)
    assert "pair_measured[node1/rail1 -> node2/rail1]" in merged.cases
    assert merged.verdict is Verdict.INCOMPLETE


BOTH: tuple[Direction, ...] = ("out", "in")
ENDS = {"out": ("node1/rxe0", "node2/rxe0"), "in": ("node2/rxe0", "node1/rxe0")}
GPU_ENDS = {
    direction: tuple(end.replace("/", "/gpu0/") for end in ends) for direction, ends in ENDS.items()
}


def owed_of(promises: Profile, *, gpus: bool = False) -> list[tuple[Item, str]]:
    """Each case that a rail owes, with its direction."""
    owed = items(promises, promises, gpus=gpus)
    return [(item, direction) for item in owed for direction in item.directions]


def with_gpus(count: int = 1, rails: int = 1, **changes: object) -> Profile:
    """A profile with GPUs and rails."""
    return with_rails(rails, gpus={"count": count, "model": "NVIDIA H200"}, **changes)


@pytest.mark.parametrize("gpus", [False, True])
@pytest.mark.parametrize("listed", [True, False])
def test_no_case_of_a_rail_can_be_missing(gpus: bool, listed: bool) -> None:
    """Left out one at a time: each is missed, by its mode and operation, in its direction."""
    promises = with_gpus() if gpus else with_rails(1)
    spec = run_spec("node1", "node2", profiles={"soft": promises})
    ends = GPU_ENDS if gpus else ENDS
    every = [
        (item, *ends[direction], direction) for item, direction in owed_of(promises, gpus=gpus)
    ]
    rails = {0: RailInfo(id=0, nic="rxe0", gpu="gpu0" if gpus else None, methods=("dmabuf",))}
    nodes = {name: NodeState(state="ready", rails=tuple(rails.values())) for name in NODES}
    report = NodeReport("node1", rendezvous=Rendezvous(leader="node1", nodes=nodes))
    owed = Owed.of(spec, Pair(*NODES), report if listed else NodeReport("node1"))
    found = {
        way: {
            Ends(item.check, source, sink, item.mode, item.operation): Outcome.PASSED
            for item, source, sink, direction in every
            if direction == way
        }
        for way in BOTH
    }
    assert [lack for way in BOTH for lack in owed.lacking(way, found[way])] == []
    for item, source, sink, direction in every:
        rest = dict(found[direction])
        del rest[Ends(item.check, source, sink, item.mode, item.operation)]
        ((_, _, words),) = owed.lacking(direction, rest)
        assert words == f"no result of {item.check} {item.mode} {item.operation}"


@pytest.mark.parametrize(
    ("check", "outcome", "tells"),
    [
        ("pingpong", Outcome.FAILED, True),
        ("pingpong", Outcome.ERROR, True),
        ("pingpong", Outcome.BLOCKED, True),
        ("pingpong", Outcome.NOT_JUDGED, False),
        ("pingpong", Outcome.SKIPPED, False),
        ("latency", Outcome.NOT_JUDGED, True),
        ("latency", Outcome.SKIPPED, False),
        ("rdma_cm", Outcome.SKIPPED, False),
        ("pingpong_far", Outcome.NOT_JUDGED, True),
        ("pingpong_far", Outcome.SKIPPED, False),
    ],
)
def test_what_was_passed_over_is_not_measured(
    tmp_path: Path, check: str, outcome: Outcome, tells: bool
) -> None:
    """Numbers may go unjudged, with the reason. The proof of the data may not."""
    promises = with_gpus()
    one, _two = trees(tmp_path, run_spec("node1", "node2", profiles={"soft": promises}))
    for item, direction in owed_of(promises, gpus=True):
        one.pair(
            *GPU_ENDS[direction],
            outcome if item.check == check else Outcome.PASSED,
            check=item.check,
            mode=item.mode,
            operation=item.operation,
        )
    merged = Merged(tmp_path)
    assert any(name.startswith("pair_measured") for name in merged.cases) is not tells


def test_what_the_profile_leaves_out_may_be_skipped(tmp_path: Path) -> None:
    promises = with_gpus(transfers={"beyond_2gib": False})
    one, _two = trees(tmp_path, run_spec("node1", "node2", profiles={"soft": promises}))
    for item, direction in owed_of(promises, gpus=True):
        outcome = Outcome.SKIPPED if item.check == "pingpong_far" else Outcome.PASSED
        kinds = {"check": item.check, "mode": item.mode, "operation": item.operation}
        one.pair(*GPU_ENDS[direction], outcome, **kinds)
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.PASS


def test_a_node_cannot_talk_its_gpus_away(tmp_path: Path) -> None:
    """It lists a rail without a GPU; its profile promises one for every rail, or for one of two."""
    for count, rails in ((1, 1), (1, 2)):
        root = tmp_path / f"{count}-{rails}"
        promises = with_gpus(count, rails)
        one, _two = trees(root, run_spec("node1", "node2", profiles={"soft": promises}))
        one.rendezvous(NODES, [f"rxe{rail}" for rail in range(rails)])
        for rail in range(rails):
            one.both_ways("node2", f"rxe{rail}")
        merged = Merged(root)
        assert merged.verdict is Verdict.INCOMPLETE
        told = message(merged, "pair_measured[node1/rxe0 -> node2/rxe0]")
        assert "pingpong gpu-gpu SEND/SEND_WITH_IMM/WRITE/WRITE_WITH_IMM/READ" in told


def test_a_gpu_that_meets_no_other(tmp_path: Path) -> None:
    """Between a node with a GPU and one without host memory is measured, and the GPU nowhere."""
    spec = mixed(node1=with_gpus(), node2=with_rails(1))
    one, _two = trees(tmp_path, spec)
    for item, direction in owed_of(with_rails(1)):
        source, sink = (end.replace("node1/", "node1/gpu0/") for end in ENDS[direction])
        one.pair(source, sink, check=item.check, mode=item.mode, operation=item.operation)
    merged = Merged(tmp_path)
    told = message(merged, "gpu_measured[node1/rail0]")
    assert told.endswith("no partner in this run promises a GPU for that rail")
    assert not [name for name in merged.cases if name.startswith("pair_measured")]


@pytest.mark.parametrize("key", ["atomics", "beyond_2gib"])
def test_what_only_one_end_of_every_pair_promises(tmp_path: Path, key: str) -> None:
    """It is measured nowhere, and no case of a pair is missing."""
    one, other = (with_gpus(transfers={key: promised}) for promised in (True, False))
    tree, _two = trees(tmp_path, mixed(node1=one, node2=other))
    for item, direction in owed_of(with_gpus(transfers={key: False}), gpus=True):
        outcome = Outcome.PASSED if item.promised else Outcome.SKIPPED
        kinds = {"check": item.check, "mode": item.mode, "operation": item.operation}
        tree.pair(*GPU_ENDS[direction], outcome, **kinds)
    merged = Merged(tmp_path)
    assert "no partner in this run promises it" in message(
        merged, f"transfers_measured[node1, {key}]"
    )
    assert f"transfers_measured[node2, {key}]" not in merged.cases
    assert not [name for name in merged.cases if name.startswith("pair_measured")]


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
    for operation in OPERATIONS:
        one.pair("node1/rxe0", "node2/rxe1", operation=operation)
    merged = Merged(tmp_path)
    assert "pair_measured[node1/rail1 -> node2/rail1]" in merged.cases
