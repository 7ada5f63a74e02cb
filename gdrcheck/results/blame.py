"""Which end of failing pairs to suspect. Minimum rule: a rail, or else the pair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.pairs import ends_of

UNSTABLE = "PAIR-UNSTABLE"
# So many partners that pass elsewhere must fail with a rail before it is named alone.
MIN_PARTNERS = 2

Edge = tuple[str, str]


class Suspect(BaseModel):
    """A place to look at first. ``place`` is one rail, or two for a pair; ``cases`` are why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    place: tuple[str, ...]
    reason: str
    cases: tuple[str, ...]


def suspects(cases: Sequence[CaseResult]) -> tuple[Suspect, ...]:
    """The rails and pairs that the failed pair cases point to; empty when none failed."""
    edges: dict[Edge, list[CaseResult]] = defaultdict(list)
    for case in cases:
        if ends := ends_of(case):
            first, second = sorted((ends.source, ends.sink))
            edges[first, second].append(case)
    failing = {
        edge: [case.id for case in found if case.fails and not _is_located(case)]
        for edge, found in edges.items()
    }
    failing = {edge: names for edge, names in failing.items() if names}
    unstable = {edge for edge in failing if _is_unstable(edges[edge])}
    passing = {end for edge, found in edges.items() if _passes(found) for end in edge}
    rails = _rails({edge for edge in failing if edge not in unstable}, passing)
    found = [
        Suspect(
            place=(rail,),
            reason=f"fails with {', '.join(partners)}, which pass elsewhere",
            cases=tuple(name for edge, names in failing.items() if rail in edge for name in names),
        )
        for rail, partners in rails.items()
    ]
    for edge, names in failing.items():
        if edge in unstable:
            reason = "repeats disagree, no end is named"
        elif any(end in rails for end in edge):
            continue
        else:
            reason = "fails; nothing tells the two ends apart"
        found.append(Suspect(place=edge, reason=reason, cases=tuple(names)))
    return tuple(found)


def _rails(failing: set[Edge], passing: set[str]) -> dict[str, list[str]]:
    """The rails that fail with enough partners which pass elsewhere, with those partners."""
    partners: dict[str, set[str]] = defaultdict(set)
    for first, second in failing:
        partners[first].add(second)
        partners[second].add(first)
    return {
        rail: sorted(others & passing)
        for rail, others in sorted(partners.items())
        if len(others & passing) >= MIN_PARTNERS
    }


def _passes(cases: Sequence[CaseResult]) -> bool:
    outcomes = {case.outcome for case in cases}
    return Outcome.PASSED in outcomes and outcomes <= {
        Outcome.PASSED,
        Outcome.SKIPPED,
        Outcome.NOT_JUDGED,
    }


def _is_located(case: CaseResult) -> bool:
    """Whether the findings say themselves which end it is, such as a port that went down."""
    return bool(case.findings) and all(finding.where.peer is None for finding in case.findings)


def _is_unstable(cases: Sequence[CaseResult]) -> bool:
    return any(finding.code == UNSTABLE for case in cases for finding in case.findings)
