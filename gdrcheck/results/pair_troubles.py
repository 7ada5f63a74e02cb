"""The cases of a pair's record that did not do well, or that have records of their own. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gdrcheck.findings.model import Where
from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import PAIRS, CaseResult
from gdrcheck.results.ends import Ends
from gdrcheck.results.pair_records import (
    APART,
    TROUBLES,
    PairEvent,
    TemplateCase,
    Trouble,
)
from gdrcheck.results.pair_told import (
    APART_JUDGES_NOT,
    APART_SKIPS,
    APART_TELLS,
    GOOD_DIGITS,
    OUTCOME_DIGITS,
)


class PairTroubles:
    """A record with cases that did not do well, or that have records of their own."""

    def __init__(self, event: PairEvent, template: Sequence[TemplateCase]) -> None:
        self._event = event
        self._template = template
        self._ids = {
            at: template[at].id(event.initiator, event.responder)
            for at, kind in enumerate(event.kinds)
            if kind not in GOOD_DIGITS
        }
        self._alike: dict[tuple[str, str, str], list[int]] = {}
        for at in self._ids:
            kind, case = event.kinds[at], template[at]
            if kind != APART:
                self._alike.setdefault((kind, case.direction, case.source.nic), []).append(at)
        self._firsts = {places[0] for places in self._alike.values()}

    @property
    def apart(self) -> Iterator[str]:
        """The names of the cases that have records of their own."""
        return (id_ for at, id_ in self._ids.items() if self._event.kinds[at] == APART)

    def refusal(self, apart: Mapping[str, Outcome]) -> str:
        """Why the record is not believed."""
        event = self._event
        for at, id_ in self._ids.items():
            kind = event.kinds[at]
            if kind != APART and TROUBLES.index(kind) >= len(event.troubles):
                return f"has the trouble {kind}, which it does not tell"
            if kind == APART and id_ not in apart:
                return f"says that {id_} has records of its own, and there are none"
            if kind != APART and id_ in apart:
                return f"tells of {id_}, which has records of its own"
        return ""

    def kinds(self, apart: Mapping[str, Outcome]) -> str:
        """The outcomes as columns have them."""
        return "".join(
            self._kind(at, kind, apart) if kind not in GOOD_DIGITS else kind
            for at, kind in enumerate(self._event.kinds)
        )

    def _kind(self, at: int, kind: str, apart: Mapping[str, Outcome]) -> str:
        if at in self._firsts:
            return APART_TELLS
        if kind != APART:
            return OUTCOME_DIGITS[self._event.troubles[TROUBLES.index(kind)].outcome]
        outcome = apart[self._ids[at]]
        special = {Outcome.SKIPPED: APART_SKIPS, Outcome.NOT_JUDGED: APART_JUDGES_NOT}
        return special.get(outcome, APART_TELLS)

    def troubles(self) -> Iterator[CaseResult]:
        """One case for each trouble of two rails, in each direction: the first of them."""
        for (kind, *_), places in self._alike.items():
            trouble = self._event.troubles[TROUBLES.index(kind)]
            yield self._case(places[0], trouble, len(places))

    def _case(self, at: int, trouble: Trouble, count: int) -> CaseResult:
        event, case = self._event, self._template[at]
        source, sink = event.initiator, event.responder
        if case.direction == "in":
            source, sink = sink, source
        found = CaseResult(
            suite=PAIRS,
            id=self._ids[at],
            classname=case.classname,
            where=Where(node=source, gpu=case.source.gpu, nic=case.source.nic, peer=sink),
            outcome=trouble.outcome,
            message=trouble.message,
            blocked_by=trouble.blocked_by,
            stands_for=count,
        )
        ends = Ends(
            case.check, case.source.of(source), case.sink.of(sink), case.mode, case.operation
        )
        found.know_ends(ends)
        return found
