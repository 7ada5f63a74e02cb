"""What made-up nodes tell of their pairs in a wide run: records of whole pairs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from benchmarks.made_up_cases import PAIR_PHASE_TIME, End, Planned, Sickness, pairs_told
from gdrcheck.pairing.schedule import Pair
from gdrcheck.results import data
from gdrcheck.results.events import Case, EndEvent, Event
from gdrcheck.results.pair_builder import PairRecords
from gdrcheck.results.pair_records import PairEvent, TemplateCase, TemplateEvent
from gdrcheck.run import RunSpec

TIME = datetime.fromisoformat(PAIR_PHASE_TIME)
# Of these no pair case tells.
WELL_IN_PAIRS = (None, "ecc", "died")


def wide_pair_phase(
    spec: RunSpec, pairs: Sequence[Pair], sick: Mapping[str, Sickness]
) -> Iterator[str]:
    """All that an initiator tells of its pairs, by the same maker of records as nodes use.

    To make up each case takes an hour for the largest runs: of pairs that are well the first is
    made so, and of the others only the name and the numbers.
    """
    records = PairRecords()
    first: PairEvent | None = None
    template: tuple[TemplateCase, ...] = ()
    for pair in pairs:
        well = all(sick.get(node) in WELL_IN_PAIRS for node in pair)
        if well and first is not None:
            yield _line(_like(first, template, pair))
            continue
        for _, cases in pairs_told(spec, [pair], sick):
            for event in records.of(*pair, [_ended(*case) for case in cases]):
                yield _line(event)
                if isinstance(event, TemplateEvent):
                    template = event.cases
                if isinstance(event, PairEvent) and well:
                    first = event


def _line(event: Event) -> str:
    return event.model_copy(update={"time": TIME}).model_dump_json() + "\n"


def _ended(planned: Planned, end: End) -> tuple[Case, EndEvent]:
    (id_, classname, where), (ended, duration_s, properties) = planned, end
    return Case(id=id_, classname=classname, where=where), EndEvent(
        phase="pair",
        time=TIME,
        id=id_,
        outcome=ended.outcome,
        duration_s=duration_s,
        message=ended.message,
        findings=ended.findings,
        blocked_by=ended.blocked_by,
        properties=properties,
    )


def _like(first: PairEvent, template: Sequence[TemplateCase], pair: Pair) -> PairEvent:
    scatter = random.Random(f"{pair.initiator} {pair.responder}")
    numbers = tuple(_number(case, column, scatter) for case in template for column in case.columns)
    return first.model_copy(update={"responder": pair.responder, "numbers": numbers})


def _number(case: TemplateCase, column: str, scatter: random.Random) -> float:
    if column == data.P50_US:
        return round(scatter.gauss(1.9 if case.mode == "host-host" else 2.4, 0.05), 2)
    return float(f"{scatter.gauss(388, 1.5):.3g}")
