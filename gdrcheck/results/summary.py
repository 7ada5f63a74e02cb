"""``summary.json``: the verdict of a run and what a reader needs to trust it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from gdrcheck.findings.model import Finding
from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.profile import Waiver
from gdrcheck.results import plain
from gdrcheck.results.blame import Suspect
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.incoming import NodeReport
from gdrcheck.results.reproduce import Reproduction
from gdrcheck.results.states import SeenState
from gdrcheck.run import RunSpec

WAIVED = "waived"
WARNED = "warned"
# Of one node; the JUnit file has them all.
MAX_TROUBLES = 20
PASSED = Outcome.PASSED


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SummaryFinding(_Model):
    """A finding and the case that it belongs to. ``waived_until`` when the owner accepts it."""

    case: str
    outcome: Outcome
    finding: Finding
    waived_until: str | None = None


class SummaryFailure(_Model):
    """A case that failed without a finding, as those of other tools do; why, in one line."""

    suite: str
    case: str
    message: str


class SummaryCase(_Model):
    """A case that was not measured, and why, in one line.

    ``stands_for``: of how many cases this is told, itself included; absent when it is one.
    """

    case: str
    outcome: Outcome
    reason: str
    blocked_by: str | None = None
    stands_for: int = Field(default=1, ge=1)

    @model_serializer(mode="wrap")
    def _short(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        found: dict[str, object] = handler(self)
        if self.stands_for == 1:
            del found["stands_for"]
        return found


class NodeSummary(_Model):
    """One node. ``complete``: all of its results are here. ``troubles``: one line each."""

    state: str
    reason: str
    complete: bool
    troubles: tuple[str, ...]
    gdrcheck_version: str | None = None
    image_id: str | None = None
    emulated: bool = False
    software_rdma: bool = False
    versions: dict[str, str] = Field(default_factory=dict)
    duration_s: float | None = None


class Summary(_Model):
    """The run as a whole. ``counts`` is by outcome; ``waived`` and ``warned`` are not in failed."""

    schema_version: Literal[1] = 1
    run_id: str
    gdrcheck_version: str
    created: datetime
    verdict: Verdict
    reasons: tuple[str, ...]
    scope: Literal["functional"] = "functional"
    soak: Literal["not run"] = "not run"
    check_mode: bool
    limited_to: str | None
    emulated: bool
    software_rdma: bool
    image_id: str
    counts: dict[str, int]
    findings: tuple[SummaryFinding, ...]
    failed_without_finding: tuple[SummaryFailure, ...] = ()
    unmeasured: tuple[SummaryCase, ...]
    suspects: tuple[Suspect, ...]
    reproduce: tuple[Reproduction, ...] = ()
    waivers: tuple[Waiver, ...]
    nodes: dict[str, NodeSummary]
    duration_s: float | None


def kind_of(case: CaseResult) -> str:
    """What the summary counts the case as: its outcome, or waived, or warned."""
    # Nearly all, and what members of an enumeration take to be asked adds up.
    if case.outcome is PASSED and not case.waivers:
        return "passed"
    if case.waived:
        return WAIVED
    return WARNED if case.only_warns else case.outcome.value


def counts(
    cases: Sequence[CaseResult], wide: Mapping[Outcome, int] | None = None
) -> dict[str, int]:
    """How many cases there are of each kind; the sum is the number of cases.

    ``wide``: how many more there are of each outcome.
    """
    found = dict.fromkeys((*(str(outcome) for outcome in Outcome), WAIVED, WARNED), 0)
    for kind, count in Counter(map(kind_of, cases)).items():
        found[kind] = count
    for case in cases:
        if case.stands_for > 1:
            found[kind_of(case)] += case.stands_for - 1
    for outcome, count in (wide or {}).items():
        found[outcome.value] += count
    return found


def findings(cases: Sequence[CaseResult]) -> tuple[SummaryFinding, ...]:
    """Every finding once, with the first case that holds it."""
    found: dict[str, SummaryFinding] = {}
    for case in cases:
        until = max((waiver.until for waiver in case.waivers), default=None)
        for finding in case.findings:
            entry = SummaryFinding(
                case=case.id,
                outcome=case.outcome,
                finding=finding,
                waived_until=until.isoformat() if until else None,
            )
            found.setdefault(finding.model_dump_json(), entry)
    return tuple(found.values())


def failed_without_finding(cases: Sequence[CaseResult]) -> tuple[SummaryFailure, ...]:
    """Every case that fails the run and that no finding tells of."""
    return tuple(
        SummaryFailure(
            suite=case.suite,
            case=case.id,
            message=first_line(case) or case.foreign_type or "",
        )
        for case in cases
        if case.fails and not case.findings
    )


def unmeasured(cases: Sequence[CaseResult], *, wide: bool = False) -> tuple[SummaryCase, ...]:
    """Every case that is error or blocked; of a wide run, which may have a million of them, one for
    each reason and node.
    """
    found = [case for case in cases if case.unmeasured]
    alike: dict[tuple[object, ...], list[CaseResult]] = {}
    for number, case in enumerate(found):
        reason = case.where.node, case.outcome, first_line(case), case.blocked_by
        alike.setdefault(reason if wide else (number,), []).append(case)
    return tuple(
        SummaryCase(
            case=first.id,
            outcome=first.outcome,
            reason=first_line(first),
            blocked_by=first.blocked_by,
            stands_for=sum(case.stands_for for case in (first, *others)),
        )
        for first, *others in alike.values()
    )


def node_summaries(
    spec: RunSpec,
    cases: Sequence[CaseResult],
    reports: Mapping[str, NodeReport],
    states: Mapping[str, SeenState],
) -> dict[str, NodeSummary]:
    """One entry a node, in the run's order."""
    troubles = _troubles(cases)
    return {
        node.name: _node(troubles[node.name], reports[node.name], states[node.name])
        for node in spec.nodes
    }


def _troubles(cases: Sequence[CaseResult]) -> defaultdict[str, list[str]]:
    """What fails or was not measured, by node: by the findings' places where there are any."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for case in cases:
        if case.fails or case.unmeasured:
            places = [finding.where for finding in case.findings] or [case.where]
            for node in dict.fromkeys(place.node for place in places):
                found[node].append(f"{case.outcome}: {case.id}: {first_line(case)}")
    return found


def _node(troubles: Sequence[str], report: NodeReport, state: SeenState) -> NodeSummary:
    facts, run = report.facts, report.run
    return NodeSummary(
        state=state.state,
        reason=state.reason,
        complete=report.complete,
        troubles=tuple(troubles[:MAX_TROUBLES]),
        gdrcheck_version=run.gdrcheck_version if run else None,
        image_id=run.image_id if run else None,
        emulated=is_emulated(report),
        software_rdma=has_software_rdma(report),
        versions=dict(facts.versions) if facts else {},
        duration_s=_seconds(report.first, report.last),
    )


def is_emulated(report: NodeReport) -> bool:
    """Whether anything that the node sent says EMULATED."""
    return bool((report.run and report.run.emulated) or (report.facts and report.facts.emulated))


def has_software_rdma(report: NodeReport) -> bool:
    """Whether the node has an RDMA device without silicon, such as Soft-RoCE."""
    devices = report.facts.rdma_devices if report.facts else ()
    return isinstance(devices, tuple) and any(device.software for device in devices)


def duration_s(reports: Mapping[str, NodeReport]) -> float | None:
    """From the first event of any node to the last, by their clocks; None without events."""
    first = [report.first for report in reports.values() if report.first]
    last = [report.last for report in reports.values() if report.last]
    return _seconds(min(first), max(last)) if first and last else None


def first_line(case: CaseResult) -> str:
    """The first line of what the case says."""
    return plain.first_line(case.message)


def _seconds(first: datetime | None, last: datetime | None) -> float | None:
    if first is None or last is None:
        return None
    return max(0.0, round((last - first).total_seconds(), 3))
