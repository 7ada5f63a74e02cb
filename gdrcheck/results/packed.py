"""What a node told, as few bytes for the way from a reader process of ours to the merge.

Only our own processes make these bytes, and plain values are all that they hold.
"""

from __future__ import annotations

import marshal
from array import array
from datetime import datetime
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import PAIRS, CaseResult
from gdrcheck.results.ends import Ends
from gdrcheck.results.events import RunEvent
from gdrcheck.results.pair_records import MAX_TEMPLATES
from gdrcheck.results.pair_told import Expectation, Rows, Template, ToldPairs
from gdrcheck.results.told import Told

OUTCOMES = tuple(Outcome)
TEMPLATE: TypeAdapter[Template] = TypeAdapter(Template)


def pack(told: Told) -> bytes:
    """``told`` as bytes. What many of its cases have alike is in there once."""
    places: dict[int, int] = {}
    properties: dict[int, int] = {}
    rows = []
    for case in told.cases:
        rows.append(
            (
                case.suite == PAIRS,
                case.id,
                case.classname,
                places.setdefault(id(case.where), len(places)),
                OUTCOMES.index(case.outcome),
                case.duration_s,
                case.message,
                tuple(one.model_dump_json() for one in case.findings) if case.findings else (),
                case.blocked_by,
                properties.setdefault(id(case.properties), len(properties)),
                None if case.ends is None else tuple(case.ends),
                case.stands_for,
            )
        )
    # In the order of their numbers: each was numbered when it came first.
    first_where = {id(case.where): case.where for case in told.cases}
    first_properties = {id(case.properties): case.properties for case in told.cases}
    return marshal.dumps(
        (
            told.run.model_dump_json() if told.run else None,
            told.first.isoformat() if told.first else None,
            told.last.isoformat() if told.last else None,
            told.problems,
            told.cut_bytes,
            told.broken,
            [(one.node, one.gpu, one.nic, one.peer) for one in first_where.values()],
            list(first_properties.values()),
            rows,
            None if told.pairs is None else _pairs(told.pairs),
        )
    )


def unpack(data: bytes, node: str) -> Told:
    """What ``pack`` packed, of ``node``."""
    parts = marshal.loads(data)
    run, first, last, problems, cut_bytes, broken, places, properties, rows, pairs = parts
    where = [Where(node=one, gpu=gpu, nic=nic, peer=peer) for one, gpu, nic, peer in places]
    return Told(
        cases=tuple(_case(node, where, properties, *row) for row in rows),
        run=RunEvent.model_validate_json(run) if run else None,
        first=datetime.fromisoformat(first) if first else None,
        last=datetime.fromisoformat(last) if last else None,
        problems=problems,
        cut_bytes=cut_bytes,
        broken=broken,
        pairs=None if pairs is None else _told_pairs(*pairs),
    )


def _pairs(pairs: ToldPairs) -> tuple[Any, ...]:
    return (
        [TEMPLATE.dump_json(one) for one in pairs.templates],
        pairs.kinds,
        pairs.wanted,
        pairs.expectations,
        pairs.values,
        [
            (number, rows.responders, *(column.tobytes() for column in rows.columns))
            for number, rows in pairs.rows.items()
        ],
    )


def _told_pairs(
    templates: list[bytes],
    kinds: list[str],
    wanted: list[tuple[int, ...]],
    expectations: list[Expectation],
    values: list[float],
    rows: list[tuple[int, list[str], bytes, bytes, bytes]],
) -> ToldPairs:
    return ToldPairs(
        templates=[_template(text) for text in templates],
        kinds=kinds,
        wanted=wanted,
        expectations=expectations,
        values=values,
        rows={
            number: Rows(responders, *(array("I", column) for column in columns))
            for number, responders, *columns in rows
        },
    )


@lru_cache(MAX_TEMPLATES)
def _template(text: bytes) -> Template:
    """Nodes that are alike have the same: these are one object."""
    return TEMPLATE.validate_json(text)


def _case(
    node: str,
    where: list[Where],
    properties: list[dict[str, str]],
    of_pairs: bool,
    id_: str,
    classname: str,
    place: int,
    outcome: int,
    duration_s: float,
    message: str,
    findings: tuple[str, ...],
    blocked_by: str | None,
    told: int,
    ends: tuple[str, str, str, str | None, str | None] | None,
    stands_for: int,
) -> CaseResult:
    case = CaseResult(
        suite=PAIRS if of_pairs else node,
        id=id_,
        classname=classname,
        where=where[place],
        outcome=OUTCOMES[outcome],
        duration_s=duration_s,
        message=message,
        findings=tuple(Finding.model_validate_json(one) for one in findings) if findings else (),
        blocked_by=blocked_by,
        properties=properties[told],
        stands_for=stands_for,
    )
    case.know_ends(None if ends is None else Ends(*ends))
    return case
