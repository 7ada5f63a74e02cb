"""What the owner accepts: a waiver excuses findings at the nodes of its own profile, no other.

``where`` of a waiver is a pattern over the finding's place, or two, for the place and for the rest
of the case's name: ``node1/*``, or ``node1, gdrdrv`` for ``module_loaded[node1, gdrdrv]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from gdrcheck.findings.model import Finding, Severity
from gdrcheck.outcome import Outcome
from gdrcheck.profile import Waiver
from gdrcheck.results.cases import CaseResult
from gdrcheck.run import RunSpec

SEPARATOR = ", "
FAILED = Outcome.FAILED


def apply(spec: RunSpec, cases: Iterable[CaseResult]) -> list[CaseResult]:
    """``cases`` with the unexpired waivers that excuse them.

    A failed case is excused if all of its findings are, each by the profile of the finding's
    node. A blocked one if what blocks it is an excused finding of a NIC or a GPU, and a waiver of
    that code covers the case's own NIC or GPU as well: whoever accepts that a node lacks something
    has not accepted that all that stands on it is left unmeasured.
    """
    judged = [_failed(spec, case) if case.outcome is FAILED else case for case in cases]
    excused: dict[str, Finding] = {}
    for case in judged:
        if case.waivers:
            excused |= {_blocker(finding): finding for finding in case.findings if _fails(finding)}
    if not excused:
        return judged
    for case in judged:
        if case.fails:
            for finding in case.findings:
                excused.pop(_blocker(finding), None)
    return [_blocked(spec, case, excused) for case in judged]


def _blocker(finding: Finding) -> str:
    """How cases that a finding blocks name it."""
    return f"{finding.code} at {finding.where.text()}"


def _fails(finding: Finding) -> bool:
    return finding.severity is not Severity.WARN


def _failed(spec: RunSpec, case: CaseResult) -> CaseResult:
    applied: list[Waiver] = []
    for finding in filter(_fails, case.findings):
        current = _current(spec, finding)
        match = next((one for one in current if _covers(one, finding, case)), None)
        if match is None:
            return case
        applied.append(match)
    return replace(case, waivers=tuple(dict.fromkeys(applied)))


def _current(spec: RunSpec, finding: Finding) -> Sequence[Waiver]:
    """The unexpired waivers of the finding's code, at its node."""
    try:
        profile = spec.profile_of(finding.where.node)
    except KeyError:
        return ()
    today = spec.created.date()
    return [
        waiver
        for waiver in profile.waivers
        if waiver.until >= today and waiver.code == finding.code
    ]


def _covers(waiver: Waiver, finding: Finding, case: CaseResult) -> bool:
    """The place may be written with or without the partner of a pair.

    What a node has several of, such as modules, must be named: a waiver of the place alone would
    accept them all. What belongs to a NIC or a GPU is named by that already.
    """
    place, separator, subject = waiver.where.partition(SEPARATOR)
    alone = finding.where.model_copy(update={"peer": None})
    if not any(fnmatchcase(one.text(), place) for one in (finding.where, alone)):
        return False
    own = case.id.partition("[")[2].removesuffix("]").partition(SEPARATOR)[2]
    if separator:
        return fnmatchcase(own, subject)
    return not own or finding.where.text() != finding.where.node


def _blocked(spec: RunSpec, case: CaseResult, excused: dict[str, Finding]) -> CaseResult:
    """A blocked case names its blocker as ``CODE at place``."""
    finding = excused.get(case.blocked_by or "")
    if case.outcome is not Outcome.BLOCKED or finding is None:
        return case
    if finding.where.nic is None and finding.where.gpu is None:
        return case
    places = _places(case, finding.where.node)
    applied = tuple(
        waiver
        for waiver in _current(spec, finding)
        if any(fnmatchcase(one, waiver.where.partition(SEPARATOR)[0]) for one in places)
    )
    return replace(case, waivers=applied)


def _places(case: CaseResult, node: str) -> set[str]:
    """The NICs and GPUs of ``node`` that the case is about, alone and as a rail; none if it is
    about the node as a whole."""
    ends = case.ends
    own = case.where.alone
    # Of two GPUs of a node the peer is the other one; else it is a node.
    both = (own, case.where.peer) if case.where.peer else (own,)
    places: set[str] = set()
    for place in (ends.source, ends.sink) if ends else both:
        name, *parts = place.split("/")
        if name == node and parts:
            places |= {place, *(f"{node}/{part}" for part in parts)}
    return places
