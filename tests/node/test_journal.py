"""The supervisor's view of a wide run: a file for each pair beside the file of events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gdrcheck.node.clock import Elapsed
from gdrcheck.node.record import Record
from gdrcheck.node.tail import JournalTail
from gdrcheck.outcome import Outcome
from gdrcheck.results import events
from gdrcheck.results.events import EndEvent, EventWriter, NoteEvent, StartEvent
from gdrcheck.results.pair_journal import PairJournal
from tests.results.test_pair_journal import cases, ended


def note(path: Path, text: str) -> None:
    with EventWriter(path) as writer:
        writer.write(NoteEvent(phase="pair", text=text))


def read(tail: JournalTail) -> list[tuple[bool, list[str]]]:
    return [
        (is_new, [event.text for event in found if isinstance(event, NoteEvent)])
        for is_new, found in tail.read()
    ]


def test_each_file_is_read_from_its_start_and_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pair.jsonl"
    tail = JournalTail(path)
    assert read(tail) == []
    note(path, "one")
    assert read(tail) == [(True, ["one"])]
    note(path, "two")
    path.unlink()
    # Longer than what was read of the file before.
    note(path, "three" * 100)
    assert read(tail) == [(False, ["two"]), (True, ["three" * 100])]
    path.unlink()
    assert read(tail) == [(False, [])]
    note(path, "f")
    assert read(tail) == [(False, []), (True, ["f"])]
    tail.close()


def test_a_record_that_its_writer_died_in_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "pair.jsonl"
    note(path, "one")
    with path.open("ab") as stream:
        stream.write(b'{"v":1,"ti')
    tail = JournalTail(path)
    assert read(tail) == [(True, ["one"])]
    assert tail.drop_partial() == 10
    note(path, "two")
    assert read(tail) == [(False, ["two"])]
    assert not events.read(path).problems
    tail.close()


class Wide:
    """A supervisor's record, and the checks that it watches."""

    def __init__(self, out: Path) -> None:
        self.journal_file = out / "pair.jsonl"
        self.writer = EventWriter(out / "events.jsonl")
        self.record = Record(out / "events.jsonl", "node1", Elapsed(), self.journal_file)
        self.checks = PairJournal("node1", out / "events.jsonl", self.writer)


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[Wide]:
    wide = Wide(tmp_path)
    yield wide
    wide.record.close()
    wide.checks.close()
    wide.writer.close()


def test_pairs_come_and_go(wide: Wide, capsys: pytest.CaptureFixture[str]) -> None:
    record, checks = wide.record, wide.checks
    checks.plan(["node2", "node3"], 6)
    before = record.progress
    for peer, other in (("node2", "node3"), ("node3", None)):
        planned = cases(peer)
        checks.open(peer)
        checks.begin(planned)
        checks.write(StartEvent(phase="pair", id=planned[0].id))
        assert record.follow()
        assert record.running("pair") == [planned[0].id]
        assert record.remaining("pair") == [case.id for case in planned]
        checks.write(ended(planned[0], Outcome.FAILED, "why"))
        assert record.follow()
        for case in planned[1:]:
            checks.write(ended(case))
        assert record.follow()
        assert record.remaining("pair") == []
        assert record.pairs_left == [*filter(None, [other])]
        assert record.progress > before
        before = record.progress
    shown = capsys.readouterr().out
    assert "pair with node3 is done (2 of 2)" in shown
    assert f"failed     {cases('node2')[0].id}" in shown
    assert cases("node2")[1].id not in shown


def test_the_end_of_one_pair_does_not_take_the_next_one_along(wide: Wide) -> None:
    """Both were written since the last look."""
    for peer in ("node2", "node3"):
        wide.checks.open(peer)
        wide.checks.begin(cases(peer))
        if peer == "node2":
            wide.record.follow()
            for case in cases(peer):
                wide.checks.write(ended(case))
    wide.record.follow()
    assert wide.record.remaining("pair") == [case.id for case in cases("node3")]
    assert wide.record.pairs_done == {"node2"}


def test_the_end_of_a_case_of_the_pair_goes_to_the_journal(wide: Wide) -> None:
    planned = cases("node2")
    wide.checks.open("node2")
    wide.checks.begin(planned)
    wide.record.follow()
    wide.record.end("pair", planned[0].id, Outcome.ERROR, "killed")
    wide.record.error("pair_phase_completed[node1]", "why")
    assert wide.record.remaining("pair") == [case.id for case in planned[1:]]
    in_journal = events.read(wide.journal_file).events
    assert [one.id for one in in_journal if isinstance(one, EndEvent)] == [planned[0].id]
