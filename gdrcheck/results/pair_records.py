"""The records of a wide run: one line for a whole pair, with a character for each of its cases.

A wide run has so many cases that a record of each is more than a merge reads of a node. What the
cases of a pair are is told once, by a template, for all pairs that are alike; what became of them
is a character each, and the few numbers of them that are shown. Cases that are failed, error or
blocked for one reason are a letter, and the reason is told once. A case with a finding has its
ordinary records beside (plan and end), and ``APART`` as its character.

The order in a file: a template and an expectation stand before the first pair that uses them; the
ordinary records of a pair's cases stand before the record of the pair.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gdrcheck.outcome import Outcome
from gdrcheck.results.record import Model, Record
from gdrcheck.transfer import Direction

# The pair that is being measured, as ordinary records, until its record stands in events.jsonl.
JOURNAL_FILE = "pair.jsonl"

# The outcomes that a digit may stand for; the digits are those of ``data.KINDS``.
DIGITS = {Outcome.PASSED: "0", Outcome.SKIPPED: "4", Outcome.NOT_JUDGED: "5"}
OUTCOMES = {digit: outcome for outcome, digit in DIGITS.items()}
# The case has records of its own.
APART = "-"
# A letter stands for the trouble whose number is its place here.
TROUBLES = "abcdefghijklmnopqrstuvwxyz"
# Of ``wanted``: no expected rate.
NONE = "-"
# A character stands for the expectation whose number is its place here.
EXPECTATIONS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

# A rail has up to 100 cases, and no node has more than 16.
MAX_CASES = 4096
# Pairs of nodes that are alike have one. Beyond these a node writes ordinary records.
MAX_TEMPLATES = 64
# Far more than any measurement tells of.
MAX_COLUMNS = 8
MAX_NUMBERS = 2 * MAX_CASES
MAX_RESPONDERS = 100_000
# All troubles of a pair must fit a line; a case with more to say has records of its own.
MAX_TROUBLE_CHARS = 4000
Name = Annotated[str, Field(min_length=1, max_length=253)]
Device = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\s/,\[\]]+$")]
Word = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^\w+$")]
Number = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class RailPlace(Model):
    """One end of a rail, without its node."""

    gpu: Device | None = None
    nic: Device

    def of(self, node: str) -> str:
        """The place as names of cases have it: ``node1/gpu0/mlx5_0``."""
        return f"{node}/{self.gpu}/{self.nic}" if self.gpu else f"{node}/{self.nic}"


class TemplateCase(Model):
    """One case of a pair, without the names of its nodes.

    ``direction``: ``out`` is the data that leaves the initiator. ``columns``: its numbers, by the
    names that ``data.Series`` has for them.
    """

    check: Word
    mode: Annotated[str, Field(pattern=r"^[a-z-]{1,64}$")]
    operation: Annotated[str, Field(pattern=r"^[A-Z_]{1,64}$")]
    direction: Direction
    source: RailPlace
    sink: RailPlace
    classname: Annotated[str, Field(min_length=1, max_length=500)]
    columns: Annotated[tuple[Word, ...], Field(max_length=MAX_COLUMNS)] = ()

    def id(self, initiator: str, responder: str) -> str:
        """The name of the case of this pair."""
        nodes = (initiator, responder) if self.direction == "out" else (responder, initiator)
        source, sink = self.source.of(nodes[0]), self.sink.of(nodes[1])
        return f"{self.check}[{source} -> {sink}, {self.mode}, {self.operation}]"


class TemplateEvent(Record):
    """What the cases of a pair are, in the order of the digits of its record."""

    event: Literal["template"] = "template"
    number: int = Field(ge=0, lt=MAX_TEMPLATES)
    cases: Annotated[tuple[TemplateCase, ...], Field(min_length=1, max_length=MAX_CASES)]

    @model_validator(mode="after")
    def _no_case_twice(self) -> TemplateEvent:
        if len({case.id("a", "b") for case in self.cases}) < len(self.cases):
            raise ValueError("a case stands in it twice")
        return self


class ExpectationEvent(Record):
    """A rate that is expected of cases, and what limits it."""

    event: Literal["expectation"] = "expectation"
    number: int = Field(ge=0, lt=len(EXPECTATIONS))
    gbps: Number
    limited_by: Annotated[str, Field(max_length=500)] = ""


class PairPlanEvent(Record):
    """The pairs that a process is going to measure, and how many cases they have altogether."""

    event: Literal["pair_plan"] = "pair_plan"
    responders: Annotated[tuple[Name, ...], Field(max_length=MAX_RESPONDERS)]
    cases: int = Field(ge=0)


class Trouble(Model):
    """What some cases of a rail of a pair have in common that did not do well.

    ``message`` and ``blocked_by`` are those of their records.
    """

    outcome: Literal[Outcome.FAILED, Outcome.ERROR, Outcome.BLOCKED]
    message: Annotated[str, Field(max_length=MAX_TROUBLE_CHARS)] = ""
    blocked_by: Annotated[str, Field(max_length=1000)] | None = None


class PairEvent(Record):
    """What became of a pair, all of whose cases have ended.

    ``kinds`` has a character a case: its digit, the letter of its trouble, or APART. ``wanted`` has
    one a case as well: which expectation, or NONE. ``numbers`` are the columns of the template's
    cases, one case after the other; None where there is none, or the case has records of its own.
    """

    event: Literal["pair"] = "pair"
    initiator: Name
    responder: Name
    template: int = Field(ge=0, lt=MAX_TEMPLATES)
    kinds: Annotated[str, Field(pattern=r"^[045a-z-]+$", max_length=MAX_CASES)]
    wanted: Annotated[str, Field(pattern=r"^[0-9A-Za-z-]+$", max_length=MAX_CASES)]
    numbers: Annotated[tuple[Number | None, ...], Field(max_length=MAX_NUMBERS)] = ()
    troubles: Annotated[tuple[Trouble, ...], Field(max_length=len(TROUBLES))] = ()
