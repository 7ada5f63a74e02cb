"""What a run holds against each node itself, as an exit code for whoever ran that node. Pure.

The lists for schedulers are stricter: there a node is good only when it was measured with a partner
that is good as well. Here a node answers for itself alone: what its partner spoiled, and what is
wrong with the run as a whole, is not held against it. A partner spoils what it is itself in doubt
for: that one rail of it is bad explains nothing on another one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import FLEET, PAIRS
from gdrcheck.results.data import Data
from gdrcheck.results.scheduler_lists import (
    BAD_KINDS,
    OF_A_NODE,
    failing,
    is_of_all,
    named,
    nodes_in,
    without_results,
)
from gdrcheck.results.summary import Summary

# A node that is in doubt as a whole, and not for some of its devices.
WHOLE = ""
_PLACE = re.compile(r"[^\s,\[\]]+")
# The devices that each node is in doubt for.
Doubts = defaultdict[str, set[str]]


@dataclass(frozen=True, slots=True)
class OwnBlame:
    """``exit_code``: 0 nothing is held against the node, 1 the evidence names it, 2 something of it
    was not measured, or is wrong in a pair of which nothing tells the ends apart. ``why``: a line
    each."""

    exit_code: Literal[0, 1, 2]
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Edge:
    """Something that is open or wrong between two places, as ``node1/gpu0/mlx5_0``, or two nodes.

    ``spoiled``: whatever is wrong with an end explains it, and not only what is at its place.
    """

    ends: tuple[str, str]
    why: str
    spoiled: bool = False

    def is_explained(self, doubts: Doubts) -> bool:
        """Whether it follows from what an end is in doubt for."""
        return any(self._follows(end, doubts[_node(end)]) for end in self.ends)

    def _follows(self, end: str, doubted: set[str]) -> bool:
        anyhow = self.spoiled or WHOLE in doubted or not _devices(end)
        return bool(doubted if anyhow else doubted & _devices(end))


def own_blame(summary: Summary, data: Data) -> dict[str, OwnBlame]:
    """What is held against each node of the run."""
    bad: defaultdict[str, list[str]] = defaultdict(list)
    unknown: defaultdict[str, list[str]] = defaultdict(list)
    for node, why in named(summary, data):
        bad[node].append(why)
    doubts = _doubts_of(bad, summary)
    for place, why in _own(summary, data):
        unknown[_node(place)].append(why)
        doubts[_node(place)] |= _devices(place) or {WHOLE}
    for edge in _between(summary, data):
        if not edge.is_explained(doubts):
            for end in edge.ends:
                unknown[_node(end)].append(edge.why)
    return {
        name: OwnBlame(1, _once(bad[name]))
        if name in bad
        else OwnBlame(2, _once(unknown[name]))
        if name in unknown
        else OwnBlame(0, ())
        for name in summary.nodes
    }


def _node(place: str) -> str:
    return place.partition("/")[0]


def _devices(place: str) -> set[str]:
    return set(place.split("/")[1:])


def _doubts_of(bad: Mapping[str, object], summary: Summary) -> Doubts:
    """What the nodes that the evidence names are in doubt for."""
    doubts: Doubts = defaultdict(set)
    for entry in failing(summary):
        where = entry.finding.where
        if where.node in bad and _node(where.peer or where.node) == where.node:
            doubts[where.node] |= _devices(where.alone) or {WHOLE}
    for suspect in summary.suspects:
        if len(suspect.place) == 1:
            doubts[_node(suspect.place[0])] |= _devices(suspect.place[0]) or {WHOLE}
    return doubts


def _own(summary: Summary, data: Data) -> Iterator[tuple[str, str]]:
    """Where something of a node itself is not known, or failed without a finding, and why."""
    yield from without_results(summary, data)
    for suite, kind, id_ in _bad_cases(data):
        if suite in summary.nodes:
            told = [one for one in _PLACE.findall(id_) if _node(one) == suite] or [suite]
            yield from ((place, f"{kind}: {id_}") for place in told)
        elif suite == FLEET and id_.partition("[")[0] in OF_A_NODE:
            yield from ((name, f"{kind}: {id_}") for name in nodes_in(id_, summary))
        elif suite == PAIRS and len(alone := nodes_in(id_, summary)) == 1:
            yield alone[0], f"{kind}: {id_}"


def _between(summary: Summary, data: Data) -> Iterator[_Edge]:
    """What was not measured, or failed, between two nodes and is of neither alone."""
    for suite, kind, id_ in _bad_cases(data):
        if suite == PAIRS and len(nodes := nodes_in(id_, summary)) == 2:
            yield _Edge((nodes[0], nodes[1]), f"{kind}: {id_}")
    yield from _open_rows(data)
    for suspect in summary.suspects:
        if len(suspect.place) == 2:
            first, second = suspect.place
            yield _Edge((first, second), f"{first} <-> {second}: {suspect.reason}")
    for entry in failing(summary):
        where = entry.finding.where
        ends = where.alone, where.peer or where.alone
        if {_node(end) for end in ends} <= summary.nodes.keys() and not is_of_all(entry, data):
            yield _Edge(ends, f"{entry.finding.code} at {where.text()}")


def _open_rows(data: Data) -> Iterator[_Edge]:
    """The pair cases without a result, one for each two places and kind: they may be millions."""
    seen = set()
    for series in data.series:
        for row, digit in enumerate(series.kinds):
            kind, ends = data.kinds[int(digit)], (series.source[row], series.sink[row])
            if kind not in (Outcome.ERROR, Outcome.BLOCKED) or (kind, *ends) in seen:
                continue
            seen.add((kind, *ends))
            source, sink = (data.places[end].text for end in ends)
            why = f"{kind}: {data.case_id(series, row)}"
            # What a case waits for is named by that case, and need not be at this place.
            yield _Edge((source, sink), why, spoiled=kind == Outcome.BLOCKED)


def _bad_cases(data: Data) -> Iterator[tuple[str, str, str]]:
    for suite, by_kind in data.suites.items():
        for kind in sorted(BAD_KINDS & by_kind.keys()):
            for id_ in by_kind[kind]:
                yield suite, kind, id_


def _once(why: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(why))
