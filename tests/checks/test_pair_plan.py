"""The cases of the pair phase are those that the merge misses, in an order that the walk can go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gdrcheck.node.process import PACKAGE_ROOT, CheckProcess, pytest_argv
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.messages import NodeState, RailInfo
from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.profile import Profile
from gdrcheck.results import events
from gdrcheck.results.cases import PAIRS, CaseResult
from gdrcheck.results.claims import refused_claims
from gdrcheck.results.events import Case, PlanEvent
from gdrcheck.results.incoming import NodeReport
from gdrcheck.results.lists import Rendezvous
from gdrcheck.results.owed_pairs import Owed
from gdrcheck.results.pairs import scheduled
from tests.node.support import facts, profile, run_spec

COLLECT_S = 60
NODES = ("node1", "node2", "node3")
RAILS = {"count": 2, "nics": [{"name": "rxe*"}], "port_rate_gbps": 10, "link_layer": "ethernet"}
GPUS = {"count": 2, "model": "NVIDIA H200"}
PROFILES = {
    "hosts": profile(rails=RAILS),
    "gpus": profile(rails=RAILS, gpus=GPUS),
    "everything": profile(rails=RAILS, gpus=GPUS, modes="all", transfers={"atomics": True}),
    "one GPU": profile(rails=RAILS, gpus={"count": 1, "model": "NVIDIA H200"}),
}


def told(promises: Profile) -> tuple[RailInfo, ...]:
    """What a node of this profile tells of its rails."""
    count = promises.gpus.count if promises.gpus else 0
    return tuple(
        RailInfo(
            id=number,
            nic=f"rxe{number}",
            gpu=f"gpu{number}" if number < count else None,
            methods=("dmabuf",) if number < count else (),
        )
        for number in range(2)
    )


def planned(promises: Profile, out: Path, node: str = "node1") -> Sequence[Case]:
    """The cases that the checks of the pair phase are about to run, in their order."""
    spec = run_spec(*NODES, profiles={"soft": promises})
    (out / "facts.json").write_text(facts(node).model_dump_json())
    (out / "run.json").write_text(spec.model_dump_json())
    state = NodeState(state="ready", rails=told(promises))
    listed = RendezvousResult(leader="node1", nodes=dict.fromkeys(NODES, state))
    listed.write(out / "rendezvous.json")
    options = [
        *("-p", "tests.results.without_pyverbs", "--collect-only"),
        *(f"--gdrcheck-node={node}", "--gdrcheck-phase=pair"),
        f"--gdrcheck-run={out / 'run.json'}",
        f"--gdrcheck-events={out / 'events.jsonl'}",
        f"--gdrcheck-out={out}",
    ]
    argv, log = pytest_argv(PACKAGE_ROOT / "checks", "pair", options), out / "pytest.log"
    with CheckProcess(argv, log, cwd=PACKAGE_ROOT) as process:
        assert process.wait(COLLECT_S) == 0, log.read_text()
    plans = [one for one in events.read(out / "events.jsonl").events if isinstance(one, PlanEvent)]
    return [case for plan in plans for case in plan.cases]


def _fields(case: Case) -> dict[str, object]:
    return {"id": case.id, "classname": case.classname, "where": case.where}


@pytest.mark.parametrize("name", PROFILES)
def test_the_cases_are_those_that_are_owed(name: str, tmp_path: Path) -> None:
    promises = PROFILES[name]
    spec = run_spec(*NODES, profiles={"soft": promises})
    cases = [case for case in planned(promises, tmp_path) if not case.of_node]
    listed = Rendezvous.model_validate_json((tmp_path / "rendezvous.json").read_bytes())
    report = NodeReport("node1", rendezvous=listed)
    results = [CaseResult(suite=PAIRS, outcome=Outcome.PASSED, **_fields(case)) for case in cases]
    found = {ends: Outcome.PASSED for one in results if (ends := one.ends)}
    assert len(found) == len(cases)
    owned = [pair for pair in scheduled(spec) if pair.initiator == "node1"]
    for pair in owned:
        owed = Owed.of(spec, pair, report)
        for direction, (source, sink) in (("out", pair), ("in", pair[::-1])):
            here = {one: outcome for one, outcome in found.items() if one.nodes == (source, sink)}
            assert list(owed.lacking(direction, here)) == []
            for one in here:
                rest = {other: outcome for other, outcome in here.items() if other != one}
                assert len(list(owed.lacking(direction, rest))) == 1, f"{one} is owed by nobody"
    claims = NodeReport("node1", cases=tuple(results), rendezvous=listed)
    assert refused_claims(scheduled(spec), claims) == {}


def test_the_walk_can_go_in_their_order(tmp_path: Path) -> None:
    """Round by round; the data before the numbers; one rail after the other; the node at last."""
    cases = planned(PROFILES["gpus"], tmp_path)
    of_node = [case.of_node for case in cases]
    assert of_node == sorted(of_node)
    assert [case.id for case in cases if case.of_node] == [
        *(f"port_counters[node1/rail{number}]" for number in range(2)),
        *(f"gpu_errors_grew[node1/gpu{number}]" for number in range(2)),
    ]
    peers = [case.where.peer if case.where.node == "node1" else case.where.node for case in cases]
    changes = [one for one, before in zip(peers, [None, *peers], strict=False) if one != before]
    assert len(changes) == len(set(changes))
    first = [case.id for case in cases if "node2" in case.id]
    stages = [one.partition("[")[0] for one in first]
    assert stages[: stages.index("latency")] == ["pingpong"] * 80 + ["pingpong_far"] * 4
    numbers = [one for one in first if one.startswith(("latency", "bandwidth[", "perftest"))]
    rails = ["rxe1" in one for one in numbers]
    assert rails == sorted(rails)
    assert stages[-1] == "rdma_cm"


def test_a_node_that_initiates_nothing_has_its_own_cases_alone(tmp_path: Path) -> None:
    spec = run_spec(*NODES, profiles={"soft": PROFILES["gpus"]})
    initiators = {pair.initiator for pair in scheduled(spec)}
    for node in NODES:
        out = tmp_path / node
        out.mkdir()
        cases = planned(PROFILES["gpus"], out, node)
        assert any(not case.of_node for case in cases) is (node in initiators)
