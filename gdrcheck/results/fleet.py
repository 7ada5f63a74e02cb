"""The cases that are about the run as a whole. Pure: everything comes in as arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Outcome
from gdrcheck.profile import Factors, Profile
from gdrcheck.results.cases import FLEET, PAIRS, CaseResult, class_name
from gdrcheck.results.incoming import NodeReport
from gdrcheck.results.states import SeenState
from gdrcheck.run import RunSpec

Reports = Mapping[str, NodeReport]
States = Mapping[str, SeenState]


def fleet_case(
    id_: str, outcome: Outcome, message: str = "", findings: tuple[Finding, ...] = ()
) -> CaseResult:
    """A case of the suite ``fleet``."""
    return CaseResult(
        suite=FLEET,
        id=id_,
        classname=f"{FLEET}.run",
        where=findings[0].where if findings else Where(node=FLEET),
        outcome=outcome,
        message=message,
        findings=findings,
    )


def no_result(node: str, state: SeenState) -> CaseResult:
    """Stands in the suite of a node that sent nothing."""
    return CaseResult(
        suite=node,
        id=f"node_reported[{node}]",
        classname=class_name(node, "run"),
        where=Where(node=node),
        outcome=Outcome.ERROR,
        message=state.no_result(),
        findings=(_no_result_finding(node, state.no_result()), *state.findings),
    )


def every_node_reported(reports: Reports, states: States) -> list[CaseResult]:
    """One case a node: it passed when the node's results are whole."""
    cases = []
    for node, report in reports.items():
        id_ = f"every_node_reported[{node}]"
        if report.complete and states[node].state == "ok":
            cases.append(fleet_case(id_, Outcome.PASSED))
            continue
        why = _why_incomplete(report, states[node])
        finding = _no_result_finding(node, why)
        cases.append(fleet_case(id_, Outcome.ERROR, why, (finding,)))
    return cases


def _why_incomplete(report: NodeReport, state: SeenState) -> str:
    if state.state != "ok":
        return state.text() if report.cases else state.no_result()
    return report.lacks


def _no_result_finding(node: str, observed: str) -> Finding:
    return Finding(
        code="RUN-NO-RESULT",
        where=Where(node=node),
        observed=observed,
        expected="all results of this node",
    )


def profiles_promise_enough(spec: RunSpec) -> list[CaseResult]:
    """One case a profile: an error when its mandatory core is not complete."""
    cases = []
    for name, profile in _used(spec).items():
        id_ = f"profile_promises_enough[{name}]"
        missing = ", ".join(profile.missing_core())
        if not missing:
            cases.append(fleet_case(id_, Outcome.PASSED))
            continue
        finding = Finding(
            code="RUN-PROFILE-LITTLE",
            where=Where(node=FLEET),
            observed=f"profile {name} leaves out {missing}",
            expected="gpus, rails, rails.port_rate_gbps, rails.link_layer",
        )
        message = f"profile promises too little: {missing}"
        cases.append(fleet_case(id_, Outcome.ERROR, message, (finding,)))
    return cases


def promises_measured(spec: RunSpec) -> list[CaseResult]:
    """One case a profile: an error when it promises what is not, or cannot be, measured."""
    cases = []
    for name, profile in _used(spec).items():
        unmeasured = _unmeasured(profile)
        cases.append(
            fleet_case(
                f"promises_measured[{name}]",
                Outcome.ERROR if unmeasured else Outcome.PASSED,
                "; ".join(unmeasured),
            )
        )
    return cases


def _unmeasured(profile: Profile) -> list[str]:
    unmeasured = []
    between = _between_nodes(profile)
    if profile.gpus is None or not profile.gpus.count:
        promised = [
            *([f"registration: {profile.registration}"] if profile.registration != "any" else ()),
            *([f"matrix: {profile.matrix}"] if profile.matrix != "rails" else ()),
            *([f"modes: {profile.modes}"] if profile.modes != "default" else ()),
        ]
        if promised:
            unmeasured.append(
                "no GPU is promised whose memory could be registered or moved "
                f"({', '.join(promised)})"
            )
    if profile.pairs == "none" and between:
        unmeasured.append(f"pairs: none, so nothing is moved between nodes ({', '.join(between)})")
    if profile.cross_rail != "optional":
        unmeasured.append(
            f"this release measures no traffic across rails (cross_rail: {profile.cross_rail})"
        )
    return unmeasured


def _between_nodes(profile: Profile) -> list[str]:
    """The keys that promise something of the traffic between nodes."""
    keys = {
        "latency_limit_us": profile.latency_limit_us is not None,
        "factors": profile.factors != Factors(),
        "transfers.atomics": profile.transfers.atomics,
    }
    return [key for key, promised in keys.items() if promised]


def same_image(spec: RunSpec, reports: Reports) -> CaseResult:
    """All nodes ran one image, the one that the run names."""
    id_ = "same_image[fleet]"
    ids = {node: _digest(report.run.image_id) for node, report in reports.items() if report.run}
    if not ids:
        return fleet_case(id_, Outcome.BLOCKED, "no node reported which image it runs")
    expected = _digest(spec.image_id) or next(filter(None, ids.values()), "")
    others = {node: image for node, image in ids.items() if image and image != expected}
    if not others and not all(ids.values()):
        return fleet_case(id_, Outcome.NOT_JUDGED, "the image id is not known on every node")
    if not others:
        return fleet_case(id_, Outcome.PASSED)
    finding = Finding(
        code="RUN-IMAGE-DIFFERS",
        where=Where(node=next(iter(others))),
        observed=", ".join(f"{node}: {image}" for node, image in others.items()),
        expected=expected,
    )
    return fleet_case(id_, Outcome.FAILED, finding.text(), (finding,))


def _digest(image_id: str) -> str:
    """One engine writes ids with the name of the hash, another without."""
    return image_id.removeprefix("sha256:")


def pairs_measured(
    spec: RunSpec, cases: Sequence[CaseResult], *, pairs_passed: bool = False
) -> CaseResult:
    """At least one pair was measured, unless no profile asks for pairs.

    ``pairs_passed``: cases of pairs passed that are not among ``cases``.
    """
    id_ = "pairs_measured[fleet]"
    if all(profile.pairs == "none" for profile in _used(spec).values()):
        return fleet_case(id_, Outcome.SKIPPED, "the profile says pairs: none")
    measured = (Outcome.PASSED, Outcome.FAILED)
    if pairs_passed or any(case.suite == PAIRS and case.outcome in measured for case in cases):
        return fleet_case(id_, Outcome.PASSED)
    return fleet_case(id_, Outcome.ERROR, "measured no pair")


def waivers_current(spec: RunSpec) -> list[CaseResult]:
    """One case a waiver: an error when its last day was before the run."""
    cases = []
    for name, profile in _used(spec).items():
        for waiver in profile.waivers:
            id_ = f"waiver_current[{name}, {waiver.code}, {waiver.where}]"
            if waiver.until >= spec.created.date():
                cases.append(fleet_case(id_, Outcome.PASSED))
                continue
            finding = Finding(
                code="RUN-WAIVER-EXPIRED",
                where=Where(node=FLEET),
                observed=f"waiver for {waiver.code} at {waiver.where} until {waiver.until}",
                expected=f"a day not before {spec.created.date()}",
                evidence={"reason": waiver.reason, "profile": name},
            )
            cases.append(fleet_case(id_, Outcome.ERROR, finding.text(), (finding,)))
    return cases


def _used(spec: RunSpec) -> dict[str, Profile]:
    return {node.profile: spec.profiles[node.profile] for node in spec.nodes}
