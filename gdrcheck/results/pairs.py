"""Pairs that the schedule holds and nobody reported, and what a pair case's name says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gdrcheck.findings.model import Where
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.schedule import Pair, rounds
from gdrcheck.results.cases import PAIRS, CaseResult
from gdrcheck.results.incoming import NodeReport
from gdrcheck.results.states import SeenState
from gdrcheck.run import RunSpec

# Cases of a node that explain why it measured no pair.
EXPLAINING = ("node_locked[", "rendezvous_", "pair_phase_", "checks_")
# <check>[<a>/gpu<N>/<nic> -> <b>/gpu<N>/<nic>, <mode>, <operation>]
NAME = re.compile(r"^\w+\[([^\s,\]]+) -> ([^\s,\]]+)")


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of a pair case, as places: ``node1/gpu0/mlx5_0``. The data goes source to sink."""

    source: str
    sink: str

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
    """For each direction of each scheduled pair without any case: one that says why."""
    reported = {ends.nodes for case in cases if (ends := ends_of(case))}
    return [
        _missing(source, sink, pair, reports, states)
        for pair in scheduled(spec)
        for source, sink in ((pair.initiator, pair.responder), (pair.responder, pair.initiator))
        if (source, sink) not in reported
    ]


def scheduled(spec: RunSpec) -> list[Pair]:
    """The pairs that the run promises to measure: both ends' profiles ask for pairs."""
    return [
        pair
        for one_round in rounds(spec.nodes, spec.rounds)
        for pair in one_round
        if all(spec.profile_of(node).pairs == "required" for node in pair)
    ]


def _missing(
    source: str,
    sink: str,
    pair: Pair,
    reports: Mapping[str, NodeReport],
    states: Mapping[str, SeenState],
) -> CaseResult:
    blocked_by, why = _reason(pair, reports, states)
    return CaseResult(
        suite=PAIRS,
        id=f"pair_measured[{source} -> {sink}]",
        classname=f"{PAIRS}.schedule",
        where=Where(node=source, peer=sink),
        outcome=Outcome.BLOCKED if blocked_by else Outcome.ERROR,
        message=f"blocked by {blocked_by}: {why}" if blocked_by else why,
        blocked_by=blocked_by,
    )


def _reason(
    pair: Pair, reports: Mapping[str, NodeReport], states: Mapping[str, SeenState]
) -> tuple[str | None, str]:
    """The case that explains why the pair was not measured, and the explanation."""
    for node in pair:
        report, state = reports[node], states[node]
        if state.state != "ok":
            return f"every_node_reported[{node}]", f"{node}: {state.text()}"
        if not report.complete:
            return f"every_node_reported[{node}]", f"{node} did not report to its end"
    for node in pair:
        for report in (reports[pair.initiator], reports[pair.responder]):
            if report.rendezvous and node in report.rendezvous.nodes:
                seen = report.rendezvous.nodes[node]
                if seen.state != "ready":
                    why = f"{node} was {seen.state} at the rendezvous: {seen.reason}"
                    return f"rendezvous_completed[{node}]", why
    for node in pair:
        for case in reports[node].cases:
            if case.unmeasured and case.id.startswith(EXPLAINING):
                return case.id, case.message.partition("\n")[0]
    return None, f"{pair.initiator} reported nothing about this pair, and no reason is known"
