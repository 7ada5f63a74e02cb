"""A case with its outcome, and the ledger that makes cases out of events."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from gdrcheck.findings.catalogue import ENTRIES_BY_CODE
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.outcome import Outcome
from gdrcheck.profile import Waiver
from gdrcheck.results.ends import Ends, named
from gdrcheck.results.events import (
    Case,
    EndEvent,
    Event,
    PlanEvent,
    RunEvent,
    StartEvent,
    StepEvent,
)
from gdrcheck.results.record import Phase

FLEET = "fleet"
PAIRS = "pairs"


@dataclass(slots=True, kw_only=True)
class CaseResult:
    """One case and what became of it. ``waivers`` excuse all of its findings, or its blocker.

    ``stands_for``: of how many cases this is told, itself included; more than one in wide runs.

    No model of pydantic, and frozen for the type checker only: a run over 1,000 nodes has more than
    a million of these, and to make one takes three times as long if it is frozen.
    """

    suite: Final[str]
    id: Final[str]
    classname: Final[str]
    where: Final[Where]
    outcome: Final[Outcome]
    duration_s: Final[float] = 0
    message: Final[str] = ""
    findings: Final[tuple[Finding, ...]] = ()
    blocked_by: Final[str | None] = None
    properties: Final[dict[str, str]] = field(default_factory=dict)
    waivers: Final[tuple[Waiver, ...]] = ()
    # For results of other tools only: the type that they gave to a failure.
    foreign_type: Final[str | None] = None
    stands_for: Final[int] = 1
    # Found when first asked for, unless a reader process has. Every stage of a merge asks for those
    # of every pair case.
    _ends: Ends | Literal[False] | None = field(
        default=False, init=False, repr=False, compare=False
    )

    @property
    def ends(self) -> Ends | None:
        """The ends that the name of a pair case tells; None for any other."""
        if self._ends is False:
            self._ends = named(self.id) if self.suite == PAIRS else None
        return self._ends

    def know_ends(self, ends: Ends | None) -> None:
        """``ends`` are what ``self.ends`` would find: for who has found them already."""
        self._ends = ends

    @property
    def waived(self) -> bool:
        """Failed or blocked, and the owner accepts every finding of it, or what blocks it."""
        return bool(self.waivers)

    @property
    def only_warns(self) -> bool:
        """Failed, but each finding has the severity ``warn``."""
        return (
            self.outcome is Outcome.FAILED
            and bool(self.findings)
            and all(finding.severity is Severity.WARN for finding in self.findings)
        )

    @property
    def fails(self) -> bool:
        """Whether this case makes the verdict FAIL."""
        return self.outcome is Outcome.FAILED and not self.waived and not self.only_warns

    @property
    def unmeasured(self) -> bool:
        """Whether something that was required could not be judged."""
        return self.outcome in (Outcome.ERROR, Outcome.BLOCKED) and not self.waived


class Ledger:
    """What is known of the cases of one node so far. Fed with events, in their order.

    ``problems`` holds contradictions in the events: two results for a case, a result without a
    plan. When there are two, the worse one counts.
    """

    def __init__(self) -> None:
        self.run: RunEvent | None = None
        self.planned: dict[str, tuple[Phase, Case]] = {}
        self.ended: dict[str, EndEvent] = {}
        self.last_step: dict[str, str] = {}
        self.started: dict[str, datetime] = {}
        self.problems: list[str] = []
        self._places: dict[tuple[str | None, ...], Where] = {}
        self._properties: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}

    def feed(self, events: Iterable[Event]) -> None:
        """Take in further events."""
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case StartEvent():
                self._expect_planned(event.id, "started")
                self.started[event.id] = event.time
            case EndEvent():
                self._expect_planned(event.id, "ended")
                self._end(event)
            case StepEvent():
                self.last_step[event.id] = event.text
            case PlanEvent():
                for case in event.cases:
                    self.planned.setdefault(case.id, (event.phase, case))
            case RunEvent():
                if self.run is not None:
                    self.problems.append("two run records in one file")
                self.run = self.run or event
            case _:
                pass

    def _expect_planned(self, id_: str, what: str) -> None:
        if id_ not in self.planned:
            self.problems.append(f"case {id_} {what} without having been planned")

    def _end(self, event: EndEvent) -> None:
        earlier = self.ended.get(event.id)
        if earlier is not None:
            self.problems.append(f"two results for {event.id}")
        if earlier is None or _badness(event.outcome) > _badness(earlier.outcome):
            self.ended[event.id] = event

    def remaining(self, phase: Phase) -> list[str]:
        """The ids planned in ``phase`` that have no result yet, in plan order."""
        return [
            id_
            for id_, (planned_in, _) in self.planned.items()
            if planned_in == phase and id_ not in self.ended
        ]

    def running(self, phase: Phase) -> list[str]:
        """The ids of ``phase`` that started and have no result yet."""
        return [id_ for id_ in self.remaining(phase) if id_ in self.started]

    def results(self, node: str, death: str) -> list[CaseResult]:
        """Every planned case of ``node``; ``death`` says why some have no result."""
        return [self._result(node, phase, case, death) for phase, case in self.planned.values()] + [
            self._unplanned(node, event)
            for id_, event in self.ended.items()
            if id_ not in self.planned
        ]

    def _result(self, node: str, phase: Phase, case: Case, death: str) -> CaseResult:
        end = self.ended.get(case.id) or EndEvent(
            phase=phase, id=case.id, outcome=Outcome.ERROR, message=self._missing(case.id, death)
        )
        return self._join(PAIRS if phase == "pair" and not case.of_node else node, case, end)

    def _unplanned(self, node: str, end: EndEvent) -> CaseResult:
        case = Case(id=end.id, classname=class_name(node, "run"), where=Where(node=node))
        return self._join(node, case, end)

    def _join(self, suite: str, case: Case, end: EndEvent) -> CaseResult:
        """Both records as one. What many cases of a node have alike is kept once."""
        where = case.where
        place = (where.node, where.gpu, where.nic, where.peer)
        return CaseResult(
            suite=suite,
            id=case.id,
            classname=sys.intern(case.classname),
            where=self._places.setdefault(place, where),
            outcome=end.outcome,
            duration_s=end.duration_s,
            message=sys.intern(end.message),
            findings=tuple(map(_with_severity, end.findings)),
            blocked_by=end.blocked_by,
            properties=self._alike(end.properties),
        )

    def _alike(self, properties: dict[str, str]) -> dict[str, str]:
        key = tuple(properties.items())
        known = self._properties.get(key)
        if known is None:
            known = {sys.intern(name): sys.intern(text) for name, text in key}
            self._properties[key] = known
        return known

    def _missing(self, id_: str, death: str) -> str:
        if id_ not in self.started:
            return f"not run: {death}"
        step = self.last_step.get(id_)
        return f"{death}, while: {step}" if step else death


def class_name(node: str, area: str) -> str:
    """The JUnit class name of a node's cases: dots would read as package borders."""
    return f"{node.replace('.', '_')}.{area}"


def _with_severity(finding: Finding) -> Finding:
    """The catalogue says how bad a code is; what the node's file says counts for nothing."""
    entry = ENTRIES_BY_CODE.get(finding.code)
    severity = entry.severity if entry else Severity.FAIL
    return finding.model_copy(update={"severity": severity})


def _badness(outcome: Outcome) -> int:
    return (
        Outcome.PASSED,
        Outcome.NOT_JUDGED,
        Outcome.SKIPPED,
        Outcome.BLOCKED,
        Outcome.ERROR,
        Outcome.FAILED,
    ).index(outcome)
