"""The file of events: what is written is read back, and no garbage disappears."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import Ledger
from gdrcheck.results.events import (
    MAX_LINE_BYTES,
    MAX_PROBLEMS,
    Case,
    EndEvent,
    Event,
    EventWriter,
    ExitEvent,
    NoteEvent,
    PlanEvent,
    StartEvent,
    StepEvent,
    clip,
    parse,
    parse_line,
    read,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
WHERE = st.builds(Where, node=TEXT, gpu=st.none() | TEXT, nic=st.none() | TEXT)
FINDING = st.builds(
    Finding, code=st.just("PORT-NOT-ACTIVE"), where=WHERE, observed=TEXT, expected=TEXT
)
CASE = st.builds(Case, id=TEXT.filter(bool), classname=TEXT.filter(bool), where=WHERE)
EVENT = st.one_of(
    st.builds(PlanEvent, phase=st.just("node"), cases=st.tuples(CASE)),
    st.builds(StartEvent, phase=st.just("node"), id=TEXT),
    st.builds(StepEvent, phase=st.just("pair"), id=TEXT, text=TEXT),
    st.builds(
        EndEvent,
        phase=st.just("node"),
        id=TEXT,
        outcome=st.sampled_from(Outcome),
        duration_s=st.floats(0, 1e6),
        message=TEXT,
        findings=st.tuples(FINDING),
        properties=st.dictionaries(TEXT, TEXT, max_size=2),
    ),
    st.builds(
        ExitEvent, phase=st.just("run"), reason=TEXT, returncode=st.none() | st.integers(-64, 255)
    ),
    st.builds(NoteEvent, phase=st.just("run"), text=TEXT),
)


def lines(events: list[Event]) -> list[bytes]:
    """The events as they stand in a file."""
    return [event.model_dump_json().encode() + b"\n" for event in events]


@given(st.lists(EVENT, max_size=4))
def test_what_is_written_is_read(events: list[Event]) -> None:
    log = parse(b"".join(lines(events)))
    assert list(log.events) == events
    assert log.problems == ()


@given(st.lists(EVENT, min_size=1, max_size=3), st.data())
def test_only_the_last_line_may_be_cut(events: list[Event], data: st.DataObject) -> None:
    written = lines(events)
    cut = data.draw(st.integers(0, len(written[-1]) - 1))
    log = parse(b"".join(written[:-1]) + written[-1][:cut])
    assert list(log.events) == events[:-1]
    assert log.problems == ()


@given(st.lists(EVENT, min_size=1, max_size=3), st.binary(max_size=40), st.data())
def test_every_line_is_an_event_or_a_problem(
    events: list[Event], garbage: bytes, data: st.DataObject
) -> None:
    written = lines(events)
    written.insert(data.draw(st.integers(0, len(written))), garbage + b"\n")
    log = parse(b"".join(written))
    assert len(log.events) + len(log.problems) == b"".join(written).count(b"\n")
    assert [event for event in log.events if event in events] == events


@given(st.binary(max_size=60))
def test_garbage_gives_one_line_about_it(garbage: bytes) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        parse_line(garbage)


@pytest.mark.parametrize(
    "line",
    [
        b'{"v": 2, "event": "note", "phase": "run", "time": "2026-01-02T00:00:00Z", "text": ""}',
        b'{"event": "note", "phase": "run", "text": "", "more": 1}',
        b'{"event": "end", "phase": "node", "id": "a", "outcome": "perfect"}',
        b'{"event": "end", "phase": "node", "id": "a", "outcome": "passed", "duration_s": -1}',
        b'{"event": "other", "phase": "node"}',
        b"[]",
        b"",
    ],
)
def test_what_is_no_event(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        parse_line(line)


def test_problems_are_bounded() -> None:
    log = parse(b"x\n" * 1000)
    assert len(log.problems) == MAX_PROBLEMS + 1
    assert "980 more" in log.problems[-1]


def test_two_writers_append_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventWriter(path) as one, EventWriter(path) as two:
        for number in range(50):
            (one, two)[number % 2].write(NoteEvent(phase="run", text=str(number)))
    assert [getattr(event, "text", "") for event in read(path).events] == [
        str(number) for number in range(50)
    ]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_record_that_no_reader_accepts_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventWriter(path) as writer, pytest.raises(ValueError, match="the limit is"):
        writer.write(NoteEvent(phase="run", text="x" * MAX_LINE_BYTES))
    assert path.read_bytes() == b""


@given(st.text(max_size=60), st.integers(2, 20))
def test_clip_gives_valid_text_and_keeps_both_ends(text: str, limit: int) -> None:
    clipped = clip(text, limit)
    clipped.encode()
    plain = text.encode("utf-8", "backslashreplace").decode()
    if len(plain) <= limit:
        assert clipped == plain
    else:
        assert clipped.startswith(plain[: limit // 2])
        assert clipped.endswith(plain[-(limit // 2) :])


def test_ledger_names_contradictions() -> None:
    ledger = Ledger()
    ledger.feed(
        [
            StartEvent(phase="node", id="unknown"),
            EndEvent(phase="node", id="unknown", outcome=Outcome.PASSED),
        ]
    )
    assert len(ledger.problems) == 2
    (case,) = ledger.results("node1", "died")
    assert (case.id, case.suite) == ("unknown", "node1")
