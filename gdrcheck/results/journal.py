"""What a node's journal adds to its events: the records of the pair that was being measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdrcheck.results.cases import PAIRS, CaseResult, Ledger
from gdrcheck.results.events import EndEvent, Event, PlanEvent, StartEvent, StepEvent
from gdrcheck.results.pair_ledger import PairLedger


def unfinished(journal: Sequence[Event], ledger: Ledger, pairs: PairLedger) -> Iterator[Event]:
    """The events of ``journal`` that its node has not told otherwise yet.

    A process may die when the records of a pair stand in the file of events, and before the journal
    is empty: what is there twice is left out. Where the two contradict each other, or the journal
    holds what has no place in it, that is a problem of ``pairs``.
    """
    settled: dict[str, str] = {}
    for event in journal:
        match event:
            case PlanEvent():
                for case in event.cases:
                    partner = pairs.partner(case.where)
                    if partner in pairs.responders:
                        settled[case.id] = partner
                if left := tuple(case for case in event.cases if case.id not in settled):
                    yield event.model_copy(update={"cases": left})
            case EndEvent() if event.id in settled:
                if pairs.outcomes(settled[event.id]).get(event.id) is not event.outcome:
                    pairs.problems.append(
                        f"case {event.id} is {event.outcome} in the journal, and its pair's record "
                        "says otherwise"
                    )
            case EndEvent():
                if ledger.ended.get(event.id) != event:
                    yield event
            case StartEvent() | StepEvent():
                if event.id not in settled:
                    yield event
            case _:
                pairs.problems.append(f"the journal holds a record of type {event.event}")


def told_twice(cases: Sequence[CaseResult], pairs: PairLedger) -> Iterator[str]:
    """Which ordinary cases are of a pair with a record that says that it tells of them itself."""
    for case in cases if pairs.responders else ():
        of_record = case.suite == PAIRS and pairs.partner(case.where) in pairs.responders
        if of_record and case.id not in pairs.apart:
            yield f"case {case.id} has records of its own, and its pair's record tells of it"
