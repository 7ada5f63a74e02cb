"""Which end of failing pairs to suspect. Minimum rule: a rail, or else the pair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from gdrcheck.findings.model import Finding
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.evidence import ROLE_WORDS
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.folding import fold
from gdrcheck.results.wide_rails import WideRails

UNSTABLE = "PAIR-UNSTABLE"
# So many partners that pass elsewhere must fail with a rail before it is named alone.
MIN_PARTNERS = 2
# Findings about what an end itself did or has, whoever its partner was.
OF_ONE_END = frozenset({"PAIR-END-DEVIATES", "PAIR-SOURCE-CHANGED", "PAIR-READ-REFUSED"})

# Nearly no case has it, and what members of an enumeration take to be asked adds up.
FAILED = Outcome.FAILED

Edge = tuple[str, str]


class Suspect(BaseModel):
    """A place to look at first. ``place`` is one rail, or two for a pair; ``cases`` are why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    place: tuple[str, ...]
    reason: str
    cases: tuple[str, ...]


def suspects(cases: Sequence[CaseResult], wide: WideRails | None = None) -> tuple[Suspect, ...]:
    """The rails and pairs that the failed pair cases point to; empty when none failed.

    ``wide``: what other pair cases say, of which no case of ``cases`` tells.

    First the ends that findings name themselves, by the truth table of their pair; then rails that
    fail with several partners; then pairs.
    """
    edges: dict[Edge, list[CaseResult]] = defaultdict(list)
    # Both directions of an edge, found once and not for each of its many cases.
    directed: dict[Edge, list[CaseResult]] = {}
    for case in cases:
        if ends := case.ends:
            ends_of_edge = (ends.source, ends.sink)
            if ends_of_edge not in directed:
                first, second = sorted(ends_of_edge)
                directed[ends_of_edge] = edges[first, second]
            directed[ends_of_edge].append(case)
    beside = dict(wide.beside()) if wide else {}
    passing = {
        end
        for edge, found in edges.items()
        if _passes(found, beside.get(edge, set()))
        for end in edge
    }
    if wide:
        passing |= wide.passing()
    named = _named(edges, passing)
    failing = {
        edge: [
            case.id
            for case in found
            if case.outcome is FAILED and case.fails and not _is_located(case)
        ]
        for edge, found in edges.items()
    }
    failing = {edge: names for edge, names in failing.items() if names}
    unstable = {edge for edge in failing if _is_unstable(edges[edge])}
    rails = _rails({edge for edge in failing if edge not in unstable}, passing)
    found = [
        Suspect(
            place=(rail,),
            reason=_rail_reason(rail, partners, edges),
            cases=tuple(name for edge, names in failing.items() if rail in edge for name in names),
        )
        for rail, partners in rails.items()
    ]
    told = {end for suspect in named if len(suspect.place) == 1 for end in suspect.place}
    for edge, names in failing.items():
        if edge in unstable:
            reason = "repeats disagree, no end is named"
        elif any(end in rails or end in told for end in edge):
            continue
        else:
            reason = "fails; nothing tells the two ends apart"
        found.append(Suspect(place=edge, reason=reason, cases=tuple(names)))
    return (*named, *found)


def _named(edges: Mapping[Edge, Sequence[CaseResult]], passing: set[str]) -> list[Suspect]:
    """The ends that findings name; the pair where such an end passes with another partner."""
    found: dict[tuple[str, ...], list[tuple[CaseResult, Finding]]] = defaultdict(list)
    for edge, cases in edges.items():
        for case in cases:
            for finding in case.findings if case.findings and case.fails else ():
                if not _names_an_end(finding):
                    continue
                end = next((one for one in edge if one.split("/")[0] == finding.where.node), None)
                if end is not None:
                    found[edge if end in passing else (end,)].append((case, finding))
    return [
        Suspect(
            place=place,
            reason=_reason(place, [finding for _, finding in why]),
            cases=tuple(dict.fromkeys(case.id for case, _ in why)),
        )
        for place, why in found.items()
    ]


def _reason(place: tuple[str, ...], findings: Sequence[Finding]) -> str:
    codes = ", ".join(sorted({finding.code for finding in findings}))
    if len(place) == 1:
        partners = sorted({finding.where.peer for finding in findings if finding.where.peer})
        return (
            f"{codes} with {_counted(partners)}: the fault is at this end, not at theirs; "
            f"partners: {', '.join(fold(partners))}"
        )
    nodes = sorted({finding.where.node for finding in findings})
    return f"{codes} is of {', '.join(nodes)}, which passes with others: fails together only"


def _rail_reason(
    rail: str, partners: Sequence[str], edges: Mapping[Edge, Sequence[CaseResult]]
) -> str:
    codes = {
        finding.code
        for partner in partners
        for case in edges[min(rail, partner), max(rail, partner)]
        if case.outcome is FAILED and case.fails and not _is_located(case)
        for finding in case.findings
    }
    return (
        f"{', '.join(sorted(codes)) or 'fails'} with {_counted(partners)} that pass with others: "
        f"the fault is at this end; partners: {', '.join(fold(partners))}"
    )


def _counted(partners: Sequence[str]) -> str:
    return f"{len(partners)} partner{'' if len(partners) == 1 else 's'}"


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


def _passes(cases: Sequence[CaseResult], beside: set[Outcome]) -> bool:
    """Whether something passed and nothing speaks against the pair; a warning does not.

    ``beside``: outcomes of further cases of the pair.
    """
    outcomes = beside | {
        case.outcome for case in cases if case.outcome is not FAILED or not case.only_warns
    }
    return Outcome.PASSED in outcomes and outcomes <= {
        Outcome.PASSED,
        Outcome.SKIPPED,
        Outcome.NOT_JUDGED,
    }


def _is_located(case: CaseResult) -> bool:
    """Whether the findings say themselves which end it is, such as a port that went down."""
    return bool(case.findings) and all(
        finding.where.peer is None or _names_an_end(finding) for finding in case.findings
    )


def _names_an_end(finding: Finding) -> bool:
    """Whether it was found by comparison within its pair that this end is at fault."""
    if finding.where.peer is None:
        return False
    return finding.code in OF_ONE_END or finding.evidence.get("role") in ROLE_WORDS.values()


def _is_unstable(cases: Sequence[CaseResult]) -> bool:
    return any(finding.code == UNSTABLE for case in cases for finding in case.findings)
