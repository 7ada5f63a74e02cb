"""The records of pairs that one node wrote, as columns. Nothing in there is trusted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gdrcheck.findings.model import Where
from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.events import Event
from gdrcheck.results.pair_records import (
    EXPECTATIONS,
    NONE,
    ExpectationEvent,
    PairEvent,
    TemplateEvent,
)
from gdrcheck.results.pair_told import (
    DIGIT_OUTCOMES,
    GOOD_DIGITS,
    Expectation,
    Rows,
    Template,
    ToldPairs,
)
from gdrcheck.results.pair_troubles import PairTroubles


class PairLedger:
    """Takes in the events of a node's file. ``problems``: what in its pair records cannot be right.

    ``cases``: one for each trouble of a rail, which stands for all cases that it is of.
    ``responders``: those of the pairs that have a record; ``apart``: their cases with records of
    their own, by name.
    """

    def __init__(self, node: str) -> None:
        self.problems: list[str] = []
        self.cases: list[CaseResult] = []
        self.responders: set[str] = set()
        self.apart: set[str] = set()
        self._node = node
        self._told = ToldPairs()
        self._templates: dict[int, int] = {}
        self._known: dict[Template, int] = {}
        self._widths: list[int] = []
        self._expectations: dict[int, Expectation] = {}
        self._numbers: dict[Expectation, int] = {}
        self._kinds: dict[str, int] = {}
        self._wanted: dict[str, int] = {}
        self._codes: dict[float | None, int] = {None: 0}
        self._apart: Mapping[str, Outcome] = {}
        self._outcomes: dict[str, dict[str, Outcome]] = {}

    def feed(self, events: Iterable[Event], apart: Mapping[str, Outcome]) -> None:
        """Take in all events of the file. ``apart``: the outcomes of cases with their own records,
        by name."""
        self._apart = apart
        for event in events:
            match event:
                case PairEvent():
                    self._pair(event)
                case TemplateEvent():
                    self._template(event)
                case ExpectationEvent():
                    self._expectation(event)
                case _:
                    pass

    def partner(self, where: Where) -> str:
        """The other node of the pair that a case at ``where`` is of; empty if it is of none."""
        return (where.peer if where.node == self._node else where.node) or ""

    def outcomes(self, responder: str) -> Mapping[str, Outcome]:
        """What the record of the pair with ``responder`` says of its cases, by name."""
        if responder not in self._outcomes:
            told = dict(self._told_of(responder))
            self._outcomes[responder] = told | {case.id: case.outcome for case in self.cases}
        return self._outcomes[responder]

    def _told_of(self, responder: str) -> Iterator[tuple[str, Outcome]]:
        for number, rows in self._told.rows.items():
            if responder in rows.responders:
                kinds = self._told.kinds[rows.kinds[rows.responders.index(responder)]]
                for case, kind in zip(self._told.templates[number], kinds, strict=True):
                    id_ = case.id(self._node, responder)
                    outcome = DIGIT_OUTCOMES.get(kind) or self._apart.get(id_)
                    if outcome is not None:
                        yield id_, outcome

    @property
    def told(self) -> ToldPairs | None:
        """The columns; None when there was no record of a pair."""
        return self._told if self.responders else None

    def _template(self, event: TemplateEvent) -> None:
        told = self._told
        number = self._known.setdefault(event.cases, len(told.templates))
        if number == len(told.templates):
            told.templates.append(event.cases)
            self._widths.append(sum(len(case.columns) for case in event.cases))
        if self._templates.setdefault(event.number, number) != number:
            self.problems.append(f"two different templates have the number {event.number}")

    def _expectation(self, event: ExpectationEvent) -> None:
        one = event.gbps, event.limited_by
        if self._expectations.setdefault(event.number, one) != one:
            self.problems.append(f"two different expectations have the number {event.number}")

    def _pair(self, event: PairEvent) -> None:
        why = self._refusal(event)
        if not why:
            why = self._take(event, self._templates[event.template])
        if why:
            self.problems.append(f"the record of the pair with {event.responder} {why}")

    def _refusal(self, event: PairEvent) -> str:
        """Why the record is not believed; empty when it may be."""
        if event.initiator != self._node or event.responder == self._node:
            return f"is of {event.initiator}, and the file of {self._node}"
        if event.responder in self.responders:
            return "is there twice"
        number = self._templates.get(event.template)
        if number is None:
            return f"is of template {event.template}, which was not told"
        length, width = len(self._told.templates[number]), self._widths[number]
        if (len(event.kinds), len(event.wanted)) != (length, length):
            return (
                f"has {len(event.kinds)} outcomes and {len(event.wanted)} expectations, "
                f"and its template has {length} cases"
            )
        if len(event.numbers) != width:
            return f"has {len(event.numbers)} numbers, and its template {width}"
        return ""

    def _take(self, event: PairEvent, number: int) -> str:
        """Append the row. Why it is not believed; empty when it is."""
        template = self._told.templates[number]
        wanted = self._wanted_of(event.wanted)
        if wanted is None:
            return "has an expectation that was not told"
        kinds = event.kinds
        troubles: list[CaseResult] = []
        if kinds.strip(GOOD_DIGITS):
            cases = PairTroubles(event, template)
            why = cases.refusal(self._apart)
            if why:
                return why
            kinds, troubles = cases.kinds(self._apart), list(cases.troubles())
            self.apart.update(cases.apart)
        rows = self._told.rows.setdefault(number, Rows())
        self.responders.add(event.responder)
        self.cases += troubles
        rows.responders.append(event.responder)
        rows.kinds.append(self._kind(kinds))
        rows.wanted.append(wanted)
        rows.codes.extend(self._coded(event.numbers))
        return ""

    def _kind(self, kinds: str) -> int:
        number = self._kinds.setdefault(kinds, len(self._told.kinds))
        if number == len(self._told.kinds):
            self._told.kinds.append(kinds)
        return number

    def _wanted_of(self, text: str) -> int | None:
        known = self._wanted.get(text)
        if known is not None:
            return known
        found: dict[str, int] = {NONE: -1}
        for character in set(text) - {NONE}:
            one = self._expectations.get(EXPECTATIONS.index(character))
            if one is None:
                return None
            number = self._numbers.setdefault(one, len(self._told.expectations))
            if number == len(self._told.expectations):
                self._told.expectations.append(one)
            found[character] = number
        known = self._wanted[text] = len(self._told.wanted)
        self._told.wanted.append(tuple(found[character] for character in text))
        return known

    def _coded(self, numbers: Sequence[float | None]) -> list[int]:
        codes = self._codes
        try:
            return [codes[number] for number in numbers]
        except KeyError:
            for number in numbers:
                if number is not None and number not in codes:
                    self._told.values.append(number)
                    codes[number] = len(self._told.values)
            return [codes[number] for number in numbers]
