"""Pairs and rails that the schedule holds and nobody reported."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from gdrcheck.findings.model import Where
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.items import promises_gpus
from gdrcheck.pairing.schedule import Pair, rounds
from gdrcheck.profile import Profile
from gdrcheck.results.cases import PAIRS, CaseResult
from gdrcheck.results.ends import Ends
from gdrcheck.results.incoming import NodeReport
from gdrcheck.results.owed_pairs import TELLING, Owed, rail_count
from gdrcheck.results.owed_wide import OwedOfAll
from gdrcheck.results.states import SeenState
from gdrcheck.results.wide import WidePairs
from gdrcheck.run import RunSpec
from gdrcheck.transfer import Direction

# Cases of a node that explain why it measured less than it owes.
EXPLAINING = (
    *("node_locked[", "facts_read[", "supervisor_completed[", "checks_"),
    *("node_phase_", "rendezvous_", "pair_phase_"),
)
# What takes both ends of a pair to promise it.
PROMISED_BY_BOTH: Mapping[str, Callable[[Profile], bool]] = {
    "atomics": lambda profile: profile.transfers.atomics,
    "beyond_2gib": lambda profile: promises_gpus(profile) and profile.transfers.beyond_2gib,
}

# Nearly all cases have it, and what members of an enumeration take to be asked adds up.
PASSED = Outcome.PASSED

# A case that explains why others are missing, and what it says.
Explained = tuple[str, str]


def missing_pairs(
    spec: RunSpec,
    cases: Sequence[CaseResult],
    reports: Mapping[str, NodeReport],
    states: Mapping[str, SeenState],
    wide: WidePairs,
) -> list[CaseResult]:
    """What is owed and nobody reported, as cases that say why.

    One for each direction of a scheduled pair without any case, or else for each rail of it that
    lacks one; one for each node that owes pairs and has no partner at all; one for each rail whose
    GPU has none; and one for what a node promises of its transfers and no partner does.
    """
    told = _told(cases)
    pairs = scheduled(spec)
    explained = {name: explanation(report) for name, report in reports.items()}
    owed_of_all = OwedOfAll(spec, reports, wide)
    missing = []
    for pair in pairs:
        if owed_of_all.is_whole(pair):
            continue
        blocked_by, why = _reason(pair, reports, states, explained)
        owed = owed_of_all.of(pair)
        for direction, (source, sink) in _ways(pair):
            found = owed_of_all.told(pair, direction) | told[source, sink]
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
        *_unpaired_gpus(pairs, owed_of_all),
        *_unpaired_promises(spec, pairs),
    ]


def _told(cases: Sequence[CaseResult]) -> defaultdict[tuple[str, str], dict[Ends, Outcome]]:
    """The outcomes of all pair cases, by the nodes that the data leaves and goes to."""
    told: defaultdict[tuple[str, str], dict[Ends, Outcome]] = defaultdict(dict)
    # The nodes of two rails are found once, not for each of the many cases between them.
    between: dict[tuple[str, str], dict[Ends, Outcome]] = {}
    for case in cases:
        ends = case.ends
        if ends is not None:
            rails = (ends.source, ends.sink)
            if rails not in between:
                between[rails] = told[ends.nodes]
            between[rails][ends] = case.outcome
    return told


def _ways(pair: Pair) -> tuple[tuple[Direction, tuple[str, str]], ...]:
    return ("out", (pair.initiator, pair.responder)), ("in", (pair.responder, pair.initiator))


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


def _unpaired_gpus(pairs: Sequence[Pair], owed: OwedOfAll) -> list[CaseResult]:
    """Rails whose GPU no pair measures, since no partner has a GPU there."""
    covered: dict[str, set[int]] = defaultdict(set)
    due: dict[str, set[int]] = defaultdict(set)
    for pair in pairs:
        both, *alone = owed.gpus(pair)
        for node, rails in zip(pair, alone, strict=True):
            covered[node] |= both
            due[node] |= rails
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
    pair: Pair,
    reports: Mapping[str, NodeReport],
    states: Mapping[str, SeenState],
    explained: Mapping[str, Explained | None],
) -> tuple[str | None, str]:
    """The case that explains why the pair was not measured, and the explanation if known.

    ``explained``: what each node itself says of why cases of it are missing.
    """
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
        if (cause := explained[node]) is not None:
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
        if case.outcome is not PASSED and case.unmeasured and case.id.startswith(EXPLAINING):
            return case.id, case.message.partition("\n")[0]
    return None
