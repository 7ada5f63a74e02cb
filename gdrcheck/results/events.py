"""``events.jsonl``: what happens on a node, one JSON object a line, written while it happens.

Two processes append to the same file, the pytest process and its supervisor: each record is one
``write`` of a whole line to a descriptor opened with O_APPEND.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Outcome
from gdrcheck.results.files import read_start
from gdrcheck.results.pair_records import (
    ExpectationEvent,
    PairEvent,
    PairPlanEvent,
    TemplateEvent,
)
from gdrcheck.results.record import Model, Record

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_LINE_BYTES = 1024 * 1024
# A plan with more cases is written as several records, to stay below the limit of a line.
MAX_PLANNED = 500
MAX_MESSAGE_CHARS = 16_000
# More problems than these say nothing new about a broken file.
MAX_PROBLEMS = 20


class Case(Model):
    """One case as it is planned. ``id`` is its name in JUnit.

    ``of_node``: it belongs to the node's own suite, also when it is planned in the pair phase.
    """

    id: str = Field(min_length=1, max_length=1000)
    classname: str = Field(min_length=1, max_length=500)
    where: Where
    of_node: bool = False


class RunEvent(Record):
    """The first record: which run, node and software this is."""

    event: Literal["run"] = "run"
    run_id: str
    node: str
    gdrcheck_version: str
    image_id: str
    emulated: bool


class PlanEvent(Record):
    """The cases that a process is going to run."""

    event: Literal["plan"] = "plan"
    cases: tuple[Case, ...]


class StartEvent(Record):
    """A case begins."""

    event: Literal["start"] = "start"
    id: str


class StepEvent(Record):
    """What the running case is about to do."""

    event: Literal["step"] = "step"
    id: str
    text: str


class EndEvent(Record):
    """What became of a case. ``message`` is the reason in words; empty when it passed."""

    event: Literal["end"] = "end"
    id: str
    outcome: Outcome
    duration_s: float = Field(default=0, ge=0, allow_inf_nan=False)
    message: str = ""
    findings: tuple[Finding, ...] = ()
    blocked_by: str | None = None
    properties: dict[str, str] = Field(default_factory=dict)


class ExitEvent(Record):
    """A pytest process ended. ``reason`` is empty when it ended as it should."""

    event: Literal["exit"] = "exit"
    reason: str
    returncode: int | None


class NoteEvent(Record):
    """Something worth reading later that is no result."""

    event: Literal["note"] = "note"
    text: str


Event = Annotated[
    RunEvent
    | PlanEvent
    | StartEvent
    | StepEvent
    | EndEvent
    | ExitEvent
    | NoteEvent
    | TemplateEvent
    | ExpectationEvent
    | PairPlanEvent
    | PairEvent,
    Field(discriminator="event"),
]
# Without the layers of the adapter: a large run has millions of records.
_VALIDATOR = TypeAdapter[Event](Event).validator


class EventWriter:
    """Appends records to ``path``, which it creates with mode 0644. Close it, or use ``with``."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, record: Event) -> None:
        """Append one record; it is in the file when this returns.

        OSError if the disk is full, ValueError if the record is longer than readers accept.
        """
        self.write_all([record])

    def write_all(self, records: Iterable[Event]) -> None:
        """Append several records as one piece, so that a death leaves all of them or none.

        Raises as ``write`` does; of records that are too long nothing was written then.
        """
        lines = [record.model_dump_json().encode() + b"\n" for record in records]
        for line in lines:
            if len(line) > MAX_LINE_BYTES:
                raise ValueError(f"a record of {len(line)} bytes, the limit is {MAX_LINE_BYTES}")
        data = b"".join(lines)
        written = os.write(self._descriptor, data)
        while written < len(data):
            written += os.write(self._descriptor, data[written:])

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class EventLog:
    """What a file of events held. ``problems`` are its lines that were no events, in words;
    ``cut_bytes`` is the length of a last line that has no end.
    """

    events: Sequence[Event]
    problems: tuple[str, ...]
    cut_bytes: int = 0


def parse_line(line: bytes) -> Event:
    """The record in ``line``. ValueError, in one line of words, if it is none."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"{len(line)} bytes long, the limit is {MAX_LINE_BYTES}")
    try:
        event: Event = _VALIDATOR.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from error
    return event


def parse(data: bytes) -> EventLog:
    """All records in ``data``. A last line without its newline was cut by a death: left out.

    Any other line that is no record becomes a problem, and never disappears silently.
    """
    *lines, cut = data.split(b"\n")
    events: list[Event] = []
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            events.append(parse_line(line))
        except ValueError as error:
            problems.append(f"line {number} is not an event: {error}")
    if len(problems) > MAX_PROBLEMS:
        more = len(problems) - MAX_PROBLEMS
        problems = [*problems[:MAX_PROBLEMS], f"and {more} more lines that are not events"]
    return EventLog(events, tuple(problems), cut_bytes=len(cut))


def read(path: Path) -> EventLog:
    """The events in ``path``; what a file that is too large has left over is a problem.

    OSError if it cannot be opened, ValueError if it is no regular file.
    """
    data = read_start(path, MAX_FILE_BYTES + 1)
    if len(data) <= MAX_FILE_BYTES:
        return parse(data)
    whole, newline, _ = data[:MAX_FILE_BYTES].rpartition(b"\n")
    log = parse(whole + newline)
    problem = f"longer than {MAX_FILE_BYTES} bytes, the rest was not read"
    return EventLog(log.events, (*log.problems, problem))


def clip(text: str, limit: int = MAX_MESSAGE_CHARS) -> str:
    """``text`` as valid Unicode, its middle left out when it is longer than ``limit``."""
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
