"""Pairs and rails that the schedule holds and nobody reported, and claims that nobody may make."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from gdrcheck.findings.model import Where
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.items import promises_gpus
from gdrcheck.pairing.schedule import Pair, rounds
from gdrcheck.profile import Profile
from gdrcheck.results.cases import PAIRS, CaseResult
from gdrcheck.results.incoming import NodeReport
from gdrcheck.results.owed_pairs import (
    TELLING,
    Ends,
    Owed,
    listed_rails,
    place_of,
    rail_count,
)
from gdrcheck.results.states import SeenState
from gdrcheck.run import RunSpec
from gdrcheck.transfer import Direction

# Cases of a node that explain why it measured less than it owes.
EXPLAINING = (
    *("node_locked[", "facts_read[", "supervisor_completed[", "checks_"),
    *("node_phase_", "rendezvous_", "pair_phase_"),
)
# <check>[<a>/gpu<N>/<nic> -> <b>/gpu<N>/<nic>, <mode>, <operation>]
NAME = re.compile(r"^(\w+)\[([^\s,\]]+) -> ([^\s,\]]+)(?:, ([a-z-]+), ([A-Z_]+))?\]")
# What takes both ends of a pair to promise it.
PROMISED_BY_BOTH: Mapping[str, Callable[[Profile], bool]] = {
    "atomics": lambda profile: profile.transfers.atomics,
    "beyond_2gib": lambda profile: promises_gpus(profile) and profile.transfers.beyond_2gib,
}

# A case that explains why others are missing, and what it says.
Explained = tuple[str, str]


def ends_of(case: CaseResult) -> Ends | None:
    """The ends that the case's name tells; None if it is not the name of a pair case."""
    match = NAME.match(case.id) if case.suite == PAIRS else None
    return Ends(*match.groups()) if match else None


def missing_pairs(
    spec: RunSpec,
    cases: Sequence[CaseResult],
    reports: Mapping[str, NodeReport],
    states: Mapping[str, SeenState],
) -> list[CaseResult]:
    """What is owed and nobody reported, as cases that say why.

    One for each direction of a scheduled pair without any case, or else for each rail of it that
    lacks one; one for each node that owes pairs and has no partner at all; one for each rail whose
    GPU has none; and one for what a node promises of its transfers and no partner does.
    """
    told: dict[tuple[str, str], dict[Ends, Outcome]] = defaultdict(dict)
    for case in cases:
        if ends := ends_of(case):
            told[ends.nodes][ends] = case.outcome
    pairs = scheduled(spec)
    missing = []
    for pair in pairs:
        blocked_by, why = _reason(pair, reports, states)
        owed = Owed.of(spec, pair, reports[pair.initiator])
        for direction, (source, sink) in _ways(pair):
            found = told[source, sink]
            if any(outcome in TELLING for outcome in found.values()):
                missing += [
                    _missing(one, other, blocked_by, ": ".join(filter(None, (text, why))))
                    for one, other, text in owed.lacking(direction, found)
                ]
                missing += _without_counterpart(spec, source, sink, owed)
            else:
                text = why or f"{pair.initiator} reported nothing about this pair, nor why"
                missing.append(_missing(source, sink, blocked_by, text))
    return [
        *missing,
        *_unpaired(spec, pairs),
        *_unpaired_gpus(spec, pairs, reports),
        *_unpaired_promises(spec, pairs),
    ]


def _ways(pair: Pair) -> tuple[tuple[Direction, tuple[str, str]], ...]:
    return ("out", (pair.initiator, pair.responder)), ("in", (pair.responder, pair.initiator))


def refused_claims(pairs: Sequence[Pair], report: NodeReport) -> dict[str, str]:
    """The pair cases that this node may not report, with the reason: only the initiator of a
    pair of the schedule tells of it, under a name that fits its place and the agreed rails.
    """
    initiated = {pair.responder: pair for pair in pairs if pair.initiator == report.node}
    refused = {}
    for case in report.cases:
        if case.suite == PAIRS and (why := _refusal(case, report, initiated)):
            refused[case.id] = why
    return refused


def _refusal(case: CaseResult, report: NodeReport, initiated: Mapping[str, Pair]) -> str:
    ends = ends_of(case)
    if ends is None:
        return "is not named after a pair"
    source, sink = ends.nodes
    alone = case.where.model_copy(update={"peer": None})
    if (case.where.node, case.where.peer, alone.text()) != (source, sink, ends.source):
        return f"is about {case.where.text()}, not about what its name says"
    pair = initiated.get(sink if source == report.node else source)
    if report.node not in ends.nodes or pair is None:
        return f"is of a pair that {report.node} does not initiate"
    if listed := listed_rails(report, pair):
        rails = {
            (place_of(source, rail), place_of(sink, listed[sink][id_]))
            for id_, rail in listed[source].items()
            if id_ in listed[sink]
        }
        if (ends.source, ends.sink) not in rails:
            return "is of no rail that both nodes said they have"
    return ""


def scheduled(spec: RunSpec) -> list[Pair]:
    """The pairs that the run promises to measure: both ends' profiles ask for pairs."""
    willing = set(nodes_with_pairs(spec))
    return [
        pair
        for one_round in rounds(spec.nodes, spec.rounds)
        for pair in one_round
        if willing.issuperset(pair)
    ]


def nodes_with_pairs(spec: RunSpec) -> tuple[str, ...]:
    """The nodes that have a pair phase, in the run's order; none when only one would."""
    names = tuple(
        node.name for node in spec.nodes if spec.profiles[node.profile].pairs == "required"
    )
    return names if len(names) > 1 else ()


def _without_counterpart(spec: RunSpec, source: str, sink: str, owed: Owed) -> Iterator[CaseResult]:
    counts = sorted((rail_count(spec, name), name) for name in (source, sink))
    (fewer, poor), (more, rich) = counts
    for rail in range(fewer, more):
        yield _missing(
            owed.place(source, rail),
            owed.place(sink, rail),
            None,
            f"rail {rail} of {rich} has no counterpart: {poor}'s profile "
            f"{spec.node(poor).profile} promises {fewer} rails",
        )


def _unpaired(spec: RunSpec, pairs: Sequence[Pair]) -> list[CaseResult]:
    paired = {name for pair in pairs for name in pair}
    return [
        CaseResult(
            suite=PAIRS,
            id=f"pair_measured[{node.name}]",
            classname=f"{PAIRS}.schedule",
            where=Where(node=node.name),
            outcome=Outcome.ERROR,
            message=f"measured no pair: nobody to pair with in this run (rounds: {spec.rounds}, "
            f"{len(spec.nodes)} nodes)",
        )
        for node in spec.nodes
        if node.name not in paired and spec.profile_of(node.name).pairs == "required"
    ]


def _unpaired_gpus(
    spec: RunSpec, pairs: Sequence[Pair], reports: Mapping[str, NodeReport]
) -> list[CaseResult]:
    """Rails whose GPU no pair measures, since no partner has a GPU there."""
    covered: dict[str, set[int]] = defaultdict(set)
    due: dict[str, set[int]] = defaultdict(set)
    for pair in pairs:
        owed = Owed.of(spec, pair, reports[pair.initiator])
        for node in pair:
            covered[node] |= owed.gpu_rails
            due[node] |= owed.gpus_of[node]
    return [
        CaseResult(
            suite=PAIRS,
            id=f"gpu_measured[{node}/rail{rail}]",
            classname=f"{PAIRS}.schedule",
            where=Where(node=node),
            outcome=Outcome.ERROR,
            message=f"memory of the GPU of rail {rail} is moved in no pair: no partner in this run "
            "promises a GPU for that rail",
        )
        for node, rails in due.items()
        for rail in sorted(rails - covered[node])
    ]


def _unpaired_promises(spec: RunSpec, pairs: Sequence[Pair]) -> list[CaseResult]:
    """What takes both ends to promise it, and only one end of every pair of a node does."""
    partners: dict[str, set[str]] = defaultdict(set)
    for pair in pairs:
        partners[pair.initiator].add(pair.responder)
        partners[pair.responder].add(pair.initiator)
    return [
        CaseResult(
            suite=PAIRS,
            id=f"transfers_measured[{node}, {key}]",
            classname=f"{PAIRS}.schedule",
            where=Where(node=node),
            outcome=Outcome.ERROR,
            message=f"transfers.{key} is measured in no pair: no partner in this run promises it",
        )
        for node, others in partners.items()
        for key, promised in PROMISED_BY_BOTH.items()
        if promised(spec.profile_of(node))
        and not any(promised(spec.profile_of(other)) for other in others)
    ]


def _missing(source: str, sink: str, blocked_by: str | None, why: str) -> CaseResult:
    """``source`` and ``sink`` are nodes, or the places of a rail on them."""
    return CaseResult(
        suite=PAIRS,
        id=f"pair_measured[{source} -> {sink}]",
        classname=f"{PAIRS}.schedule",
        where=Where(node=source.partition("/")[0], peer=sink.partition("/")[0]),
        outcome=Outcome.BLOCKED if blocked_by else Outcome.ERROR,
        message=f"blocked by {blocked_by}: {why}" if blocked_by else why,
        blocked_by=blocked_by,
    )


def _reason(
    pair: Pair, reports: Mapping[str, NodeReport], states: Mapping[str, SeenState]
) -> tuple[str | None, str]:
    """The case that explains why the pair was not measured, and the explanation if known."""
    for node in pair:
        if (cause := not_whole(reports[node], states[node])) is not None:
            return cause
    for node in pair:
        for report in (reports[pair.initiator], reports[pair.responder]):
            if report.rendezvous and node in report.rendezvous.nodes:
                seen = report.rendezvous.nodes[node]
                if seen.state != "ready":
                    why = f"{node} was {seen.state} at the rendezvous: {seen.reason}"
                    return f"rendezvous_completed[{node}]", why
    for node in pair:
        if (cause := explanation(reports[node])) is not None:
            return cause
    return None, ""


def not_whole(report: NodeReport, state: SeenState) -> Explained | None:
    """Why the results of a node are not whole; None when they are."""
    id_ = f"every_node_reported[{report.node}]"
    if state.state != "ok":
        return id_, f"{report.node}: {state.text()}"
    return (id_, f"{report.node}: {report.lacks}") if report.lacks else None


def explanation(report: NodeReport) -> Explained | None:
    """The case of a node, if any, that explains why others of it are missing."""
    for case in report.cases:
        if case.unmeasured and case.id.startswith(EXPLAINING):
            return case.id, case.message.partition("\n")[0]
    return None
