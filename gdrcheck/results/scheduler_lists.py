"""Which nodes of a run are good, which are bad, and which are neither. Pure.

Bad is a node that the evidence names: a finding at it that fails the run, or a rail of it that the
pairs point to. Good is a node all of whose results are there, about which nothing is open. All
others are neither: nobody may give them work, and nobody need repair them before they are measured.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gdrcheck.findings.model import Severity
from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.results.cases import FLEET, PAIRS
from gdrcheck.results.data import Data
from gdrcheck.results.summary import Summary, SummaryFinding

# Cases of the fleet that are about the node in their name, and no other.
OF_A_NODE = ("every_node_reported", "clocks_agree")
BAD_KINDS = frozenset({str(Outcome.ERROR), str(Outcome.BLOCKED), str(Outcome.FAILED)})
PASSED = str(Outcome.PASSED)
# The area of codes about how the run went: no repair of a node follows from them.
OF_THE_RUN = "RUN-"
_PLACE = re.compile(r"[^\s,\[\]]+")


@dataclass(frozen=True, slots=True)
class Sorted:
    """The nodes of a run, each in one of three lists. Why, one line each, for all but the good."""

    good: tuple[str, ...]
    bad: Mapping[str, tuple[str, ...]]
    unknown: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class _Pairs:
    """The partners with which something passed, failed, or is open, and why."""

    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)


def sort_nodes(summary: Summary, data: Data) -> Sorted:
    """The nodes of the run by what it found; in its order."""
    bad: defaultdict[str, list[str]] = defaultdict(list)
    unknown: defaultdict[str, list[str]] = defaultdict(list)
    for node, why in named(summary, data):
        bad[node].append(why)
    for node, why in _open(summary, data):
        unknown[node].append(why)
    for node, why in _open_pairs(data, bad, unknown):
        unknown[node].append(why)
    for node, why in _unnamed(summary, data, bad):
        unknown[node].append(why)
    good = tuple(name for name in summary.nodes if name not in bad and name not in unknown)
    if summary.verdict is not Verdict.PASS and len(good) == len(summary.nodes):
        why = f"the run is {summary.verdict}, and nothing in it says which node that is of"
        unknown, good = defaultdict(list, {name: [why] for name in good}), ()
    return Sorted(
        good=good,
        bad={name: _once(bad[name]) for name in summary.nodes if name in bad},
        unknown={
            name: _once(unknown[name])
            for name in summary.nodes
            if name in unknown and name not in bad
        },
    )


def _once(why: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(why))


def named(summary: Summary, data: Data) -> Iterator[tuple[str, str]]:
    """The nodes that findings name, and those of the rails that pairs point to."""
    for entry in failing(summary):
        where = entry.finding.where
        alone = (where.peer or where.node).partition("/")[0] == where.node
        of_run = entry.finding.code.startswith(OF_THE_RUN) or is_of_all(entry, data)
        if alone and where.node in summary.nodes and not of_run:
            yield where.node, f"{entry.finding.code} at {where.text()}"
    for suspect in summary.suspects:
        node = suspect.place[0].partition("/")[0]
        if len(suspect.place) == 1 and node in summary.nodes:
            yield node, f"{suspect.place[0]}: {suspect.reason}"


def _open(summary: Summary, data: Data) -> Iterator[tuple[str, str]]:
    """What is not known, or failed without a finding, of a node itself or of all of them."""
    yield from without_results(summary, data)
    for suite, by_kind in data.suites.items():
        for kind in sorted(BAD_KINDS & by_kind.keys()):
            for id_ in by_kind[kind]:
                for name in _nodes_of(suite, id_, kind, summary, data):
                    yield name, f"{kind}: {id_}"


def without_results(summary: Summary, data: Data) -> Iterator[tuple[str, str]]:
    """The nodes whose results are not whole, or tell of no measurement."""
    for name, node in summary.nodes.items():
        if node.state != "ok":
            yield name, f"{node.state}: {node.reason}" if node.reason else f"state {node.state}"
        elif not node.complete:
            yield name, "not all of its results are here"
        if not any(data.suites.get(name, {}).get(kind) for kind in (PASSED, str(Outcome.FAILED))):
            yield name, "nothing of it was measured"


def nodes_in(id_: str, summary: Summary) -> tuple[str, ...]:
    """The nodes of the run that the name of a case tells, in its order."""
    return tuple(
        dict.fromkeys(
            name
            for place in _PLACE.findall(id_.partition("[")[2])
            if (name := place.partition("/")[0]) in summary.nodes
        )
    )


def _nodes_of(suite: str, id_: str, kind: str, summary: Summary, data: Data) -> tuple[str, ...]:
    """The nodes that a case which is not good is held against."""
    if suite in summary.nodes:
        return (suite,)
    named_there = nodes_in(id_, summary)
    if suite == PAIRS:
        return named_there or tuple(summary.nodes)
    if suite == FLEET and id_.partition("[")[0] in OF_A_NODE:
        return named_there
    # A failed comparison names its nodes by its findings.
    if suite == FLEET and kind == Outcome.FAILED and data.findings.get(suite, {}).get(id_):
        return ()
    return tuple(summary.nodes)


def _open_pairs(
    data: Data, bad: Mapping[str, object], unknown: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    """The nodes with a pair that was not measured, unless that is the partner's doing, who is bad
    or not known itself, and the node was measured with others; and those that failed with all.
    """
    suspicious = set(bad) | set(unknown)
    for name, pairs in pairs_by_node(data).items():
        clean = pairs.passed - pairs.open.keys() - suspicious
        for partner, why in pairs.open.items():
            if partner not in suspicious or not clean:
                yield name, why
        if pairs.failed and not pairs.passed:
            yield name, f"passed with no partner; failed: {next(iter(pairs.failed.values()))}"


def pairs_by_node(data: Data) -> Mapping[str, _Pairs]:
    """By node. Failed pairs are not open: what they point to is said by suspects."""
    found: defaultdict[str, _Pairs] = defaultdict(_Pairs)
    for series in data.series:
        for row, digit in enumerate(series.kinds):
            kind = data.kinds[int(digit)]
            ends = [
                data.nodes[data.places[end].node].name
                for end in (series.source[row], series.sink[row])
            ]
            for one, other in (ends, ends[::-1]):
                if kind == PASSED:
                    found[one].passed.add(other)
                elif kind == Outcome.FAILED:
                    found[one].failed.setdefault(other, data.case_id(series, row))
                elif kind in (Outcome.ERROR, Outcome.BLOCKED):
                    found[one].open.setdefault(other, f"{kind}: {data.case_id(series, row)}")
    # Whatever is bad in a block is told in a series as well.
    for block in data.blocks:
        initiators, responders, outcome, _ = block.columns(len(data.nodes))
        passed = [str(data.kinds.index(PASSED)) in text for text in block.outcomes]
        for first, second, number in zip(initiators, responders, outcome, strict=True):
            if passed[number]:
                one, other = data.nodes[first].name, data.nodes[second].name
                found[one].passed.add(other)
                found[other].passed.add(one)
    return found


def _unnamed(summary: Summary, data: Data, bad: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Both nodes of what failed between two and that is of neither alone; all nodes for what fails
    the run and is of none.
    """
    for suspect in summary.suspects:
        nodes = {place.partition("/")[0] for place in suspect.place}
        if len(suspect.place) > 1:
            for node in sorted(nodes & summary.nodes.keys()):
                yield node, f"{' <-> '.join(suspect.place)}: {suspect.reason}"
    for entry in failing(summary):
        finding = entry.finding
        nodes = {finding.where.node, (finding.where.peer or "").partition("/")[0]}
        nodes &= summary.nodes.keys()
        if not nodes or is_of_all(entry, data):
            nodes = set(summary.nodes)
        elif nodes & bad.keys():
            continue
        for node in sorted(nodes):
            yield node, f"{finding.code} at {finding.where.text()}"


def failing(summary: Summary) -> Iterator[SummaryFinding]:
    """The findings that fail the run."""
    for entry in summary.findings:
        fails = entry.outcome is Outcome.FAILED and entry.finding.severity is Severity.FAIL
        if fails and entry.waived_until is None:
            yield entry


def is_of_all(entry: SummaryFinding, data: Data) -> bool:
    """Whether a comparison of nodes says that something is wrong, and not with which of them: the
    node that its finding stands at is the first of those that differ, or of a tie.
    """
    finding = entry.finding
    if entry.case not in data.findings.get(FLEET, {}):
        return False
    tie = "majority" in finding.evidence or "a tie" in finding.expected
    return tie or finding.code.startswith(OF_THE_RUN)
