"""The cases of the fleet about what differs between nodes of one profile. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from gdrcheck.findings.model import Finding
from gdrcheck.outcome import NotJudged, NotPromised, Outcome
from gdrcheck.results.cases import FLEET, CaseResult
from gdrcheck.results.events import clip
from gdrcheck.results.fleet import fleet_case
from gdrcheck.results.incoming import NodeReport
from gdrcheck.results.lists import Rendezvous
from gdrcheck.results.plain import one_line
from gdrcheck.rules import differences as rules
from gdrcheck.rules.alike import Group
from gdrcheck.run import RunSpec

Reports = Mapping[str, NodeReport]
Rule = Callable[[], tuple[Finding, ...]]
# A board id is 16 characters long (mlx5); what a node sends may be anything.
MAX_BOARD_CHARS = 64


def all_differences(spec: RunSpec, reports: Reports) -> list[CaseResult]:
    """One case for each rail, board and subject, and for each clock but the leader's.

    A subject is compared among the nodes of each profile; its case holds all that was found.
    """
    groups = _groups(spec, reports)
    rail_count = max((g.profile.rails.count for g in groups if g.profile.rails), default=0)
    return [
        *(
            _case(f"mtu_agrees[rail{rail}]", [partial(rules.rail_mtu, one, rail) for one in groups])
            for rail in range(rail_count)
        ),
        *_firmware(groups),
        *_vbios(groups),
        *(
            _case(
                f"software_agrees[{name}]", [partial(rules.software, one, name) for one in groups]
            )
            for name in rules.SUBJECTS
        ),
        *_clocks(spec, reports),
    ]


def _groups(spec: RunSpec, reports: Reports) -> list[Group]:
    facts = {name: report.facts for name, report in reports.items() if report.facts is not None}
    names: dict[str, list[str]] = {}
    for node in spec.nodes:
        names.setdefault(node.profile, []).append(node.name)
    return [Group.of(spec.profiles[profile], found, facts) for profile, found in names.items()]


def _firmware(groups: Iterable[Group]) -> list[CaseResult]:
    none = "no NIC of a rail has a board"
    return _by_board("firmware_agrees", groups, rules.boards, rules.firmware, none)


def _vbios(groups: Iterable[Group]) -> list[CaseResult]:
    none = "NVML tells of no GPU which board it is"
    return _by_board("vbios_agrees", groups, rules.gpu_boards, rules.vbios, none)


def _by_board(
    check: str,
    groups: Iterable[Group],
    boards: Callable[[Group], tuple[str, ...]],
    rule: Callable[[Group, str], tuple[Finding, ...]],
    none: str,
) -> list[CaseResult]:
    """One case for each board that any group has."""
    rules_of: dict[str, list[Rule]] = {}
    for group in groups:
        for board in boards(group):
            rules_of.setdefault(board, []).append(partial(rule, group, board))
    if not rules_of:
        return [fleet_case(f"{check}[{FLEET}]", Outcome.SKIPPED, none)]
    return [
        _case(f"{check}[{one_line(clip(board, MAX_BOARD_CHARS))}]", found)
        for board, found in rules_of.items()
    ]


def _clocks(spec: RunSpec, reports: Reports) -> list[CaseResult]:
    if len(spec.nodes) < 2:
        return [fleet_case(f"clocks_agree[{FLEET}]", Outcome.SKIPPED, "there is one node only")]
    lists = {name: _list_of(name, reports) for name in reports}
    return [
        _clock(spec, name, told)
        for name, told in lists.items()
        if told is None or told.leader != name
    ]


def _list_of(node: str, reports: Reports) -> Rendezvous | None:
    """What the rendezvous agreed on, in the node's own words if it has any."""
    own = reports[node].rendezvous
    others = (report.rendezvous for report in reports.values())
    return own or next((one for one in others if one is not None and node in one.nodes), None)


def _clock(spec: RunSpec, node: str, told: Rendezvous | None) -> CaseResult:
    id_ = f"clocks_agree[{node}]"
    if spec.profile_of(node).pairs == "none":
        return fleet_case(id_, Outcome.SKIPPED, "the profile says pairs: none, so no node was met")
    state = told.nodes.get(node) if told else None
    if told is None or state is None:
        return fleet_case(id_, Outcome.NOT_JUDGED, "no list of the rendezvous tells of it")
    if state.clock is None:
        why = state.reason or "its list holds no clocks"
        return fleet_case(id_, Outcome.NOT_JUDGED, f"{state.state} at the rendezvous: {why}")
    offset_s, error_s = state.clock.offset_s, state.clock.error_s

    def judge() -> tuple[Finding, ...]:
        finding = rules.clock(node, told.leader, offset_s, error_s)
        return (finding,) if finding else ()

    text = rules.clock_text(offset_s, error_s, told.leader)
    return replace(_case(id_, [judge]), properties={"clock": text})


def _case(id_: str, found: Iterable[Rule]) -> CaseResult:
    """The worst that the rules, one for each profile, make of a subject."""
    findings: list[Finding] = []
    open_questions: list[str] = []
    skips: list[str] = []
    passed = False
    for rule in found:
        try:
            findings += rule()
            passed = True
        except NotJudged as error:
            open_questions.append(str(error))
        except NotPromised as error:
            skips.append(str(error))
    if findings:
        text = "\n".join(one_line(finding.text()) for finding in findings)
        return fleet_case(id_, Outcome.FAILED, text, tuple(findings))
    if open_questions:
        return fleet_case(id_, Outcome.NOT_JUDGED, "; ".join(open_questions))
    if passed:
        return fleet_case(id_, Outcome.PASSED)
    return fleet_case(id_, Outcome.SKIPPED, "; ".join(dict.fromkeys(skips)))
