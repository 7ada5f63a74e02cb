"""Makes the records of a wide run's pairs of cases that have ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gdrcheck.outcome import Outcome
from gdrcheck.pairing.plan import BANDWIDTH_SIZES_BYTES
from gdrcheck.results import data
from gdrcheck.results.ends import Ends, are_whole_name, named
from gdrcheck.results.events import MAX_PLANNED, Case, EndEvent, Event, PlanEvent
from gdrcheck.results.measured import Numbers
from gdrcheck.results.pair_records import (
    APART,
    DIGITS,
    EXPECTATIONS,
    MAX_CASES,
    MAX_TEMPLATES,
    MAX_TROUBLE_CHARS,
    NONE,
    TROUBLES,
    ExpectationEvent,
    PairEvent,
    RailPlace,
    TemplateCase,
    TemplateEvent,
    Trouble,
)

# What the maps of the page and the comparison of two runs show of a case.
KEPT: dict[str, tuple[str, ...]] = {
    "latency": (data.P50_US,),
    "bandwidth": (f"gbps_{max(BANDWIDTH_SIZES_BYTES)}",),
    "bandwidth_all_rails": (data.GBPS,),
}
Ended = tuple[Case, EndEvent]


class PairRecords:
    """The records of the pairs of one file, in the order in which they are asked for.

    ``written``: the records that the file has already, from a process that was there before.
    """

    def __init__(self, written: Iterable[Event] = ()) -> None:
        self._templates: dict[tuple[TemplateCase, ...], int] = {}
        self._expectations: dict[tuple[float, str], int] = {}
        for event in written:
            if isinstance(event, TemplateEvent):
                self._templates[event.cases] = event.number
            elif isinstance(event, ExpectationEvent):
                self._expectations[event.gbps, event.limited_by] = event.number
        self._numbers = Numbers()

    def of(self, initiator: str, responder: str, cases: Sequence[Ended]) -> list[Event]:
        """The records of a pair, to be appended in this order. ``cases``: all that it owes.

        Ordinary ones, plan and end, of what has findings; and of all where no template fits.
        """
        told = [_template_case(case, initiator, responder) for case, _ in cases]
        template = tuple(one for one in told if one is not None)
        if len(template) < len(told) or not 0 < len(told) <= MAX_CASES or self._is_full(template):
            return list(_ordinary(cases))
        made: list[Event] = []
        if template not in self._templates:
            self._templates[template] = len(self._templates)
            number = self._templates[template]
            made.append(TemplateEvent(phase="pair", number=number, cases=template))
        kinds, wanted = [], []
        numbers: list[float | None] = []
        troubles: dict[Trouble, str] = {}
        for one, (case, end) in zip(template, cases, strict=True):
            kind = _kind(end, troubles)
            found, limited_by = self._numbers.read(end.properties, case.where.node)
            gbps = None if kind == APART else found.get(data.EXPECTED_GBPS)
            kinds.append(kind)
            wanted.append(NONE if gbps is None else self._wanted(gbps, limited_by, made))
            numbers += [None if kind == APART else found.get(column) for column in one.columns]
        apart = [one for one, kind in zip(cases, kinds, strict=True) if kind == APART]
        return [
            *made,
            *_ordinary(apart),
            PairEvent(
                phase="pair",
                initiator=initiator,
                responder=responder,
                template=self._templates[template],
                kinds="".join(kinds),
                wanted="".join(wanted),
                numbers=tuple(numbers),
                troubles=tuple(troubles),
            ),
        ]

    def _is_full(self, template: tuple[TemplateCase, ...]) -> bool:
        return template not in self._templates and len(self._templates) >= MAX_TEMPLATES

    def _wanted(self, gbps: float, limited_by: str, made: list[Event]) -> str:
        known = gbps, limited_by
        if known not in self._expectations:
            number = len(self._expectations)
            # What is measured counts without it: only the page has a number less to show.
            if number >= len(EXPECTATIONS):
                return NONE
            self._expectations[known] = number
            made.append(
                ExpectationEvent(phase="pair", number=number, gbps=gbps, limited_by=limited_by)
            )
        return EXPECTATIONS[self._expectations[known]]


def _kind(end: EndEvent, troubles: dict[Trouble, str]) -> str:
    """The character of a case; a trouble that is new is added."""
    if end.findings or len(end.message) > MAX_TROUBLE_CHARS:
        return APART
    if end.outcome in DIGITS:
        return DIGITS[end.outcome]
    assert end.outcome in (Outcome.FAILED, Outcome.ERROR, Outcome.BLOCKED)
    trouble = Trouble(outcome=end.outcome, message=end.message, blocked_by=end.blocked_by)
    if trouble not in troubles:
        if len(troubles) == len(TROUBLES):
            return APART
        troubles[trouble] = TROUBLES[len(troubles)]
    return troubles[trouble]


def _ordinary(cases: Sequence[Ended]) -> Iterator[Event]:
    for first in range(0, len(cases), MAX_PLANNED):
        part = cases[first : first + MAX_PLANNED]
        yield PlanEvent(phase="pair", cases=tuple(case for case, _ in part))
    yield from (end for _, end in cases)


def _template_case(case: Case, initiator: str, responder: str) -> TemplateCase | None:
    """None for a case that is of no rail between the two."""
    ends = named(case.id) if are_whole_name(case.id) else None
    if ends is None or ends.mode is None or ends.operation is None:
        return None
    if ends.nodes not in ((initiator, responder), (responder, initiator)):
        return None
    source, sink = _place(ends.source), _place(ends.sink)
    if source is None or sink is None or not _fits(case, ends):
        return None
    return TemplateCase(
        check=ends.check,
        mode=ends.mode,
        operation=ends.operation,
        direction="out" if ends.nodes[0] == initiator else "in",
        source=source,
        sink=sink,
        classname=case.classname,
        columns=KEPT.get(ends.check, ()),
    )


def _fits(case: Case, ends: Ends) -> bool:
    """Whether the place of the case is what a reader of its name would say."""
    return (case.where.alone, case.where.peer) == (ends.source, ends.nodes[1]) and not case.of_node


def _place(text: str) -> RailPlace | None:
    _, *devices = text.split("/")
    match devices:
        case [nic]:
            return RailPlace(nic=nic)
        case [gpu, nic]:
            return RailPlace(gpu=gpu, nic=nic)
        case _:
            return None
