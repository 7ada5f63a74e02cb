"""What the owner accepts: a waiver excuses findings at the nodes of its own profile, no other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from gdrcheck.findings.model import Finding, Severity
from gdrcheck.outcome import Outcome
from gdrcheck.profile import Waiver
from gdrcheck.results.cases import CaseResult
from gdrcheck.run import RunSpec

Excused = dict[str, tuple[str, tuple[Waiver, ...]]]


def apply(spec: RunSpec, cases: Iterable[CaseResult]) -> list[CaseResult]:
    """``cases`` with the unexpired waivers that excuse them.

    A failed case is excused if all of its findings are, each by the profile of the finding's
    node; a blocked one if an excused finding is what blocks it.
    """
    judged = [_failed(spec, case) for case in cases]
    excused: Excused = {
        f"{finding.code} at {finding.where.text()}": (finding.where.node, case.waivers)
        for case in judged
        if case.waived
        for finding in case.findings
    }
    return [_blocked(case, excused) for case in judged]


def _failed(spec: RunSpec, case: CaseResult) -> CaseResult:
    if case.outcome is not Outcome.FAILED:
        return case
    applied: list[Waiver] = []
    for finding in case.findings:
        if finding.severity is Severity.WARN:
            continue
        match = next((one for one in _current(spec, finding) if _covers(one, finding)), None)
        if match is None:
            return case
        applied.append(match)
    return case.model_copy(update={"waivers": tuple(dict.fromkeys(applied))})


def _current(spec: RunSpec, finding: Finding) -> Sequence[Waiver]:
    if all(node.name != finding.where.node for node in spec.nodes):
        return ()
    today = spec.created.date()
    return [
        waiver for waiver in spec.profile_of(finding.where.node).waivers if waiver.until >= today
    ]


def _covers(waiver: Waiver, finding: Finding) -> bool:
    """``where`` may be written with or without the partner of a pair."""
    alone = finding.where.model_copy(update={"peer": None})
    return waiver.code == finding.code and any(
        fnmatchcase(place.text(), waiver.where) for place in (finding.where, alone)
    )


def _blocked(case: CaseResult, excused: Excused) -> CaseResult:
    """A blocked case names its blocker as ``CODE at place``; the blocker must be at its own end."""
    if case.outcome is not Outcome.BLOCKED or case.blocked_by not in excused:
        return case
    node, waivers = excused[case.blocked_by]
    if node not in (case.where.node, case.where.peer):
        return case
    return case.model_copy(update={"waivers": waivers})
