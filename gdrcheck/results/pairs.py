"""Pairs and rails that the schedule holds and nobody reported, and claims that nobody may make."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gdrcheck.findings.model import Where
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.schedule import Pair, rounds
from gdrcheck.results.cases import PAIRS, CaseResult
from gdrcheck.results.incoming import NodeReport
from gdrcheck.results.states import SeenState
from gdrcheck.run import RunSpec

# Cases of a node that explain why it measured less than it owes.
EXPLAINING = (
    *("node_locked[", "facts_read[", "supervisor_completed[", "checks_"),
    *("node_phase_", "rendezvous_", "pair_phase_"),
)
# <check>[<a>/gpu<N>/<nic> -> <b>/gpu<N>/<nic>, <mode>, <operation>]
NAME = re.compile(r"^\w+\[([^\s,\]]+) -> ([^\s,\]]+)(?:, [^,\]]+, ([A-Z_]+))?\]")
# What each rail owes in each direction, as gdrcheck.verbs.protocol names it.
OPERATIONS = ("SEND", "WRITE_WITH_IMM", "READ")
# Only these say what became of a promised exchange: passed over is not measured.
TELLING = (Outcome.PASSED, Outcome.FAILED, Outcome.ERROR, Outcome.BLOCKED)

# A case that explains why others are missing, and what it says.
Explained = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of a pair case, as places: ``node1/gpu0/mlx5_0``. The data goes source to sink."""

    source: str
    sink: str
    operation: str | None = None

    @property
    def nodes(self) -> tuple[str, str]:
        """The names of the two nodes, source first."""
        return self.source.partition("/")[0], self.sink.partition("/")[0]


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
    lacks an operation; and one for each node that owes pairs and has no partner at all.
    """
    reported: dict[tuple[str, str], set[Ends]] = defaultdict(set)
    for case in cases:
        if (ends := ends_of(case)) and case.outcome in TELLING:
            reported[ends.nodes].add(ends)
    pairs = scheduled(spec)
    missing = []
    for pair in pairs:
        blocked_by, why = _reason(pair, reports, states)
        for source, sink in (pair, (pair.responder, pair.initiator)):
            if found := reported[source, sink]:
                places = rail_places(reports[pair.initiator], pair)
                lacking = _lacking(spec, source, sink, found, places)
                missing += [
                    _missing(one, other, blocked_by, ": ".join(filter(None, (text, why))))
                    for one, other, text in lacking
                ]
                missing += _without_counterpart(spec, source, sink, places)
            else:
                text = why or f"{pair.initiator} reported nothing about this pair, nor why"
                missing.append(_missing(source, sink, blocked_by, text))
    return missing + _unpaired(spec, pairs)


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
    if places := rail_places(report, pair):
        rails = {(place, places[sink].get(id_)) for id_, place in places[source].items()}
        if (ends.source, ends.sink) not in rails:
            return "is of no rail that both nodes said they have"
    return ""


def rail_places(report: NodeReport, pair: Pair) -> dict[str, dict[int, str]]:
    """For both nodes of ``pair`` the place of each rail, by id, as the rendezvous that ``report``
    holds says; empty when it does not."""
    nodes = report.rendezvous.nodes if report.rendezvous else {}
    places = {
        name: {
            rail.id: Where(node=name, gpu=rail.gpu, nic=rail.nic).text()
            for rail in nodes[name].rails
        }
        for name in pair
        if name in nodes
    }
    return places if len(places) == len(pair) and all(places.values()) else {}


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


def _lacking(
    spec: RunSpec,
    source: str,
    sink: str,
    found: set[Ends],
    places: Mapping[str, Mapping[int, str]],
) -> Iterator[tuple[str, str, str]]:
    """Both places of each rail that lacks an operation, and the words for it.

    Without the rendezvous's list nobody knows which rail a name means: then they are counted.
    """
    count = {
        operation: min(len({one.source for one in ends}), len({one.sink for one in ends}))
        for operation in OPERATIONS
        for ends in [[one for one in found if one.operation == operation]]
    }
    for rail in range(min(rail_count(spec, source), rail_count(spec, sink))):
        one, other = _place(places, source, rail), _place(places, sink, rail)
        lacking = [
            operation
            for operation in OPERATIONS
            if (Ends(one, other, operation) not in found if places else count[operation] <= rail)
        ]
        if lacking:
            yield one, other, f"no result of {', '.join(lacking)}"


def _without_counterpart(
    spec: RunSpec, source: str, sink: str, places: Mapping[str, Mapping[int, str]]
) -> Iterator[CaseResult]:
    counts = sorted((rail_count(spec, name), name) for name in (source, sink))
    (fewer, poor), (more, rich) = counts
    for rail in range(fewer, more):
        yield _missing(
            _place(places, source, rail),
            _place(places, sink, rail),
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


def rail_count(spec: RunSpec, node: str) -> int:
    """How many rails the node's profile promises."""
    rails = spec.profile_of(node).rails
    return rails.count if rails else 0


def _place(places: Mapping[str, Mapping[int, str]], node: str, rail: int) -> str:
    return places.get(node, {}).get(rail, f"{node}/rail{rail}")


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
