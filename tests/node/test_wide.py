"""The pair phase of a wide run, with the real checks: records of whole pairs, and what is left of
one that ended otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gdrcheck.node.clock import Stop
from gdrcheck.outcome import Outcome
from gdrcheck.results.events import PlanEvent
from gdrcheck.results.incoming import read_node
from gdrcheck.results.pair_records import PairPlanEvent
from tests.node.pair_troubles import Trouble
from tests.node.support import RUN_ID
from tests.node.wide_machine import ALWAYS, NEVER, Done, run_pairs

TROUBLES = {
    "wrong data": (Trouble("node3", "wrong data", 1),),
    "slow and silent": (Trouble("node2", "slow"), Trouble("node4", "no answer", 1)),
    "a death": (Trouble("node3", "die", 1),),
}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A wide run of three pairs in which nothing is wrong."""
    return run_pairs(tmp_path_factory.mktemp("healthy"), ALWAYS)


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """One in which the second pair hangs; node1 meets node4, node3, node2."""
    trouble = Trouble("node3", "hang", 1)
    return run_pairs(tmp_path_factory.mktemp("hung"), ALWAYS, trouble, case_s=8)


@contextmanager
def stopping(stop: Stop, mark: Path) -> Iterator[None]:
    """Asks for a stop as soon as ``mark`` is there."""

    def wait() -> None:
        while not mark.exists() and not ended.wait(0.05):
            pass
        stop.request("stopped by the test")

    ended = threading.Event()
    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("name", TROUBLES)
def test_outcomes_are_those_of_ordinary_records(name: str, tmp_path: Path) -> None:
    ordinary = run_pairs(tmp_path / "ordinary", NEVER, *TROUBLES[name])
    wide = run_pairs(tmp_path / "wide", ALWAYS, *TROUBLES[name])
    assert wide.outcomes == ordinary.outcomes
    assert len(wide.outcomes) > 300
    assert sorted(wide.pairs) == ["node2", "node3", "node4"]
    assert not wide.journal.exists()
    sizes = [(done.out / "events.jsonl").stat().st_size for done in (wide, ordinary)]
    assert sizes[0] < sizes[1] / 4


def test_a_healthy_run_has_a_record_for_each_pair(healthy: Done) -> None:
    assert sorted(healthy.pairs) == ["node2", "node3", "node4"]
    bad = (Outcome.FAILED, Outcome.ERROR, Outcome.BLOCKED)
    assert not [id_ for id_, one in healthy.outcomes.items() if one in bad and "->" in id_]
    assert len(healthy.outcomes) == 3 * 128 + 4
    assert not healthy.journal.exists()


def test_a_hang_costs_its_case_and_the_same_device_in_later_pairs(
    hung: Done, tmp_path: Path
) -> None:
    ordinary = run_pairs(tmp_path, NEVER, Trouble("node3", "hang", 1), case_s=8)
    assert hung.outcomes == ordinary.outcomes
    (victim,) = [id_ for id_, outcome in hung.outcomes.items() if outcome is Outcome.ERROR]
    assert victim == "latency[node1/gpu1/mlx5_1 -> node3/gpu1/mlx5_1, host-host, SEND]"
    blocked = [id_ for id_, outcome in hung.outcomes.items() if outcome is Outcome.BLOCKED]
    assert "latency[node1/gpu1/mlx5_1 -> node2/gpu1/mlx5_1, host-host, SEND]" in blocked
    assert all("[node1/gpu1/mlx5_1 -> " in id_ for id_ in blocked if "->" in id_)
    assert not any("node4" in id_ for id_ in blocked)


def test_what_a_hang_was_doing_is_told(hung: Done) -> None:
    report = read_node(hung.out, "node1", RUN_ID, "died")
    (case,) = [one for one in report.cases if one.outcome is Outcome.ERROR]
    assert "killed after 8 s without a result on node1/gpu1/mlx5_1" in case.message
    assert "while: latency with node3" in case.message
    assert not report.problems


@pytest.mark.parametrize(("peer", "left"), [("node3", 2), ("node4", 3)])
def test_pairs_that_nobody_comes_to_any_more_are_said_to_be_left(
    peer: str, left: int, tmp_path: Path
) -> None:
    stop = Stop()
    with stopping(stop, tmp_path / "out" / f"hang-{peer}-0"):
        wide = run_pairs(tmp_path, ALWAYS, Trouble(peer, "hang"), stop=stop)
    report = read_node(wide.out, "node1", RUN_ID, "died")
    (why,) = [case for case in report.cases if case.id == "pair_phase_completed[node1]"]
    assert why.message == f"stopped by the test: {left} of 3 pairs were not measured"
    assert wide.pairs == ["node4"][: 3 - left]
    # Of the pair that was being measured each case has its result, in the journal.
    of_pair = {id_: one for id_, one in wide.outcomes.items() if peer in id_}
    assert len(of_pair) == 128
    told = {case.id: case for case in report.cases if peer in case.id}
    assert set(told) == set(of_pair)
    running = [case for case in told.values() if "while: latency with" in case.message]
    assert len(running) == 1
    assert not any(case.outcome is Outcome.PASSED for case in told.values() if "cm[" in case.id)


def test_a_process_that_dies_again_and_again_goes_on_where_it_was(tmp_path: Path) -> None:
    troubles = [Trouble(peer, "die", rail) for peer in ("node4", "node2") for rail in (0, 1)]
    wide = run_pairs(tmp_path, ALWAYS, *troubles)
    errors = [id_ for id_, outcome in wide.outcomes.items() if outcome is Outcome.ERROR]
    assert len(errors) == len(troubles)
    assert len(wide.outcomes) == 3 * 128 + 4
    assert sorted(wide.pairs) == ["node2", "node3", "node4"]
    assert not read_node(wide.out, "node1", RUN_ID, "died").problems


def test_the_plan_is_one_short_record(healthy: Done) -> None:
    (plan,) = [event for event in healthy.events if isinstance(event, PairPlanEvent)]
    assert (sorted(plan.responders), plan.cases) == (["node2", "node3", "node4"], 3 * 128)
    plans = [event for event in healthy.events if isinstance(event, PlanEvent)]
    assert not [case.id for plan in plans for case in plan.cases if not case.of_node]


def test_the_log_has_no_line_for_each_case(healthy: Done) -> None:
    assert (healthy.out / "pytest-pair.log").stat().st_size < 1000
