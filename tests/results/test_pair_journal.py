"""The journal of a wide run's pair: what it leaves at each moment at which its process may die."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.findings.model import Where
from gdrcheck.outcome import Outcome
from gdrcheck.results import events
from gdrcheck.results.events import Case, EndEvent, Event, EventWriter, PlanEvent, StartEvent
from gdrcheck.results.hung import Hung
from gdrcheck.results.pair_journal import PairJournal
from gdrcheck.results.pair_records import PairEvent, PairPlanEvent, TemplateEvent

MODES = ("host-host", "host-gpu", "gpu-gpu")


def cases(peer: str) -> list[Case]:
    """Three cases of one rail between node1 and ``peer``."""
    where = Where(node="node1", gpu="gpu0", nic="mlx5_0", peer=peer)
    return [
        Case(
            id=f"pingpong[node1/gpu0/mlx5_0 -> {peer}/gpu0/mlx5_0, {mode}, SEND]",
            classname="pairs.pingpong",
            where=where,
        )
        for mode in MODES
    ]


def ended(case: Case, outcome: Outcome = Outcome.PASSED, message: str = "") -> EndEvent:
    return EndEvent(phase="pair", id=case.id, outcome=outcome, message=message)


class Node:
    """node1's files; each ``process`` goes on with what the one before left."""

    def __init__(self, out: Path) -> None:
        self.file, self.journal_file = out / "events.jsonl", out / "pair.jsonl"
        self._writers: list[EventWriter] = []

    def process(self, *hung: Hung) -> PairJournal:
        writer = EventWriter(self.file)
        self._writers.append(writer)
        return PairJournal("node1", self.file, writer, hung)

    def told(self, kind: type[Event]) -> list[Event]:  # type: ignore[valid-type]
        log = events.read(self.file)
        assert not log.problems
        return [event for event in log.events if isinstance(event, kind)]

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.close()


def test_a_pair_is_in_the_journal_until_it_is_done(node: Node) -> None:
    journal = node.process()
    journal.open("node2")
    planned = cases("node2")
    assert journal.begin(planned) == {case.id for case in planned}
    for case in planned:
        assert node.journal_file.exists()
        assert node.file.read_bytes() == b""
        journal.write(StartEvent(phase="pair", id=case.id))
        journal.write(ended(case))
    assert not node.journal_file.exists()
    assert journal.done == {"node2"}
    (record,) = node.told(PairEvent)
    assert (record.initiator, record.responder, record.kinds) == ("node1", "node2", "000")


def test_pairs_that_are_alike_share_a_template_over_processes(node: Node) -> None:
    for peer in ("node2", "node3", "node4"):
        journal = node.process()
        journal.open(peer)
        journal.begin(cases(peer))
        for case in cases(peer):
            journal.write(ended(case))
        journal.close()
    assert len(node.told(TemplateEvent)) == 1
    assert [one.responder for one in node.told(PairEvent)] == ["node2", "node3", "node4"]
    assert node.process().done == {"node2", "node3", "node4"}


def test_a_process_that_takes_over_runs_what_has_no_result(node: Node) -> None:
    first = node.process()
    first.open("node2")
    planned = cases("node2")
    first.begin(planned)
    first.write(ended(planned[0], Outcome.NOT_JUDGED, "12 Gb/s"))
    first.write(StartEvent(phase="pair", id=planned[1].id))
    # Its process died; the supervisor ends the case.
    with EventWriter(node.journal_file) as supervisor:
        supervisor.write(ended(planned[1], Outcome.ERROR, "killed by SIGSEGV"))
    second = node.process()
    assert second.done == set()
    second.open("node2")
    assert second.begin(planned) == {planned[2].id}
    second.write(ended(planned[2]))
    (record,) = node.told(PairEvent)
    assert (record.kinds[0], record.kinds[2]) == ("5", "0")
    assert record.kinds[1] not in "045"


def test_a_pair_whose_last_case_killed_the_process_is_done_by_the_next_one(node: Node) -> None:
    first = node.process()
    first.open("node2")
    planned = cases("node2")
    first.begin(planned)
    for case in planned[:2]:
        first.write(ended(case))
    with EventWriter(node.journal_file) as supervisor:
        supervisor.write(ended(planned[2], Outcome.ERROR, "killed"))
    second = node.process()
    second.open("node2")
    assert second.begin(planned) == frozenset()
    assert second.done == {"node2"}
    assert len(node.told(PairEvent)) == 1
    assert not node.journal_file.exists()


def test_a_journal_of_a_pair_that_is_done_already_is_not_told_again(node: Node) -> None:
    first = node.process()
    first.open("node2")
    first.begin(cases("node2"))
    left = node.journal_file.read_bytes()
    for case in cases("node2"):
        first.write(ended(case))
    # It died between the record and the end of the journal.
    node.journal_file.write_bytes(left)
    second = node.process()
    assert second.done == {"node2"}
    second.open("node3")
    assert len(second.begin(cases("node3"))) == 3
    planned = [one for one in events.read(node.journal_file).events if isinstance(one, PlanEvent)]
    assert {case.where.peer for plan in planned for case in plan.cases} == {"node3"}


def test_what_is_no_result_in_the_journal_is_none(node: Node) -> None:
    first = node.process()
    first.open("node2")
    planned = cases("node2")
    first.begin(planned)
    first.write(ended(planned[0]))
    first.close()
    node.journal_file.write_bytes(node.journal_file.read_bytes()[:-20] + b"\n")
    second = node.process()
    second.open("node2")
    assert second.begin(planned) == {case.id for case in planned}


def test_the_worse_of_two_results_counts(node: Node) -> None:
    journal = node.process()
    journal.open("node2")
    planned = cases("node2")
    journal.begin(planned)
    journal.write(ended(planned[0]))
    journal.write(ended(planned[0], Outcome.ERROR, "killed"))
    for case in planned[1:]:
        journal.write(ended(case))
    (record,) = node.told(PairEvent)
    assert record.kinds[0] not in "045"


def test_what_hung_blocks_the_same_device_in_every_later_pair(node: Node) -> None:
    where = Where(node="node1", gpu="gpu0", nic="mlx5_0", peer="node9")
    hung = Hung(id="latency[x]", why="which hung on the same device", where=where)
    other = hung.model_copy(update={"where": where.model_copy(update={"node": "node9"})})
    journal = node.process(other)
    journal.open("node2")
    assert len(journal.begin(cases("node2"))) == 3
    journal.close()
    journal = node.process(other, hung)
    journal.open("node2")
    assert journal.begin(cases("node2")) == frozenset()
    (record,) = node.told(PairEvent)
    (trouble,) = record.troubles
    assert (trouble.outcome, trouble.blocked_by) == (Outcome.BLOCKED, "latency[x]")
    assert trouble.message == "blocked by latency[x], which hung on the same device"


def test_a_pair_without_cases_is_not_done(node: Node) -> None:
    journal = node.process()
    journal.open("node2")
    assert journal.begin([]) == frozenset()
    assert journal.done == set()
    assert node.told(PairEvent) == []


def test_cases_that_fit_no_template_keep_their_records_and_are_done(node: Node) -> None:
    odd = [case.model_copy(update={"id": f"data[{case.where.text()}]"}) for case in cases("node2")]
    journal = node.process()
    journal.open("node2")
    journal.begin(odd[:1])
    journal.write(ended(odd[0]))
    assert [one.id for one in node.told(EndEvent)] == [odd[0].id]
    assert node.process().done == {"node2"}


def test_the_plan_is_told_once(node: Node) -> None:
    node.process().plan(["node2", "node3"], 6)
    node.process().plan(["node2", "node3"], 6)
    assert len(node.told(PairPlanEvent)) == 1


@given(
    st.lists(st.sampled_from([*Outcome]), min_size=3, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_nothing_passes_that_did_not(
    tmp_path_factory: pytest.TempPathFactory, outcomes: list[Outcome], restarts: list[bool]
) -> None:
    node = Node(tmp_path_factory.mktemp("node"))
    journal = node.process()
    journal.open("node2")
    planned = cases("node2")
    left = journal.begin(planned)
    for case, outcome, restart in zip(planned, outcomes, restarts, strict=True):
        assert case.id in left
        journal.write(ended(case, outcome, "why"))
        if restart and case is not planned[-1]:
            journal = node.process()
            journal.open("node2")
            left = journal.begin(planned)
    node.close()
    (record,) = node.told(PairEvent)
    passed = [kind == "0" for kind in record.kinds]
    assert passed == [outcome is Outcome.PASSED for outcome in outcomes]
