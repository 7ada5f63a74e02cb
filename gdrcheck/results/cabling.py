"""The cases of the fleet about cables: whether rails end at the leaves that they should. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from gdrcheck import gates, rails
from gdrcheck.facts import Facts, Port, Unreadable
from gdrcheck.ib_links import IbLinks
from gdrcheck.outcome import Outcome, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.fleet import fleet_case
from gdrcheck.results.incoming import NodeReport
from gdrcheck.results.plain import one_line
from gdrcheck.rules import cable_ends
from gdrcheck.rules import cabling as rules
from gdrcheck.rules.alike import listed
from gdrcheck.rules.cable_ends import End
from gdrcheck.rules.cabling import Units
from gdrcheck.run import RunSpec

Reports = Mapping[str, NodeReport]
MAX_LEAVES = 16
REMEDY = (
    "set gdrcheck_neighbours: lldp (Ethernet) or gdrcheck_ib_links: FILE (InfiniBand), or leave "
    "rails.cabling out of the profile: docs/cabling.md"
)


@dataclass(frozen=True, slots=True)
class _Known:
    """The ends whose neighbour is known, and of the others the reason; ``asked`` for any."""

    ends: tuple[End, ...]
    unknown: tuple[str, ...]
    asked: bool


def all_cabling(spec: RunSpec, reports: Reports, links: IbLinks | None) -> list[CaseResult]:
    """One case a profile. ``links`` None: no list of an InfiniBand fabric's links was given.

    Not judged where the profile promises no cabling. Ends that are missing or not active, and nodes
    that sent no facts, have findings of their own and are left out.
    """
    labels: dict[str, dict[str, str | None]] = {}
    for node in spec.nodes:
        labels.setdefault(node.profile, {})[node.name] = node.leaf
    facts = {name: report.facts for name, report in reports.items() if report.facts is not None}
    return [
        _case(name, spec.profiles[name], _known(spec.profiles[name], own, facts, links))
        for name, own in labels.items()
    ]


def _known(
    profile: Profile,
    labels: Mapping[str, str | None],
    facts: Mapping[str, Facts],
    links: IbLinks | None,
) -> _Known:
    ends: list[End] = []
    unknown: list[str] = []
    asked = False
    for node, label in labels.items():
        for rail, port in _active(profile, facts.get(node)):
            found = cable_ends.neighbours(rail, port, links)
            if isinstance(found, Unreadable):
                unknown.append(f"{rail.where.text()}: {found.unreadable}")
            elif found:
                ends.append(cable_ends.end_of(rail, label, found))
            else:
                unknown.append(f"{rail.where.text()}: nobody asked for its neighbour")
            asked = asked or found != ()
    return _Known(tuple(ends), tuple(unknown), asked)


def _active(profile: Profile, facts: Facts | None) -> Iterator[tuple[Rail, Port]]:
    for rail in rails.with_nics(profile, facts) if facts else ():
        if rail.device is None:
            continue
        try:
            port = gates.port_of(rail)
        except ProbeError:
            continue
        if port.state == "ACTIVE":
            yield rail, port


def _case(name: str, profile: Profile, known: _Known) -> CaseResult:
    id_ = f"cabling[{name}]"
    properties = {"leaves": rules.told(known.ends)} if known.ends else {}
    case = _judged(id_, profile, known)
    return replace(case, properties=properties)


def _leaves(known: _Known) -> str:
    """Every leaf, or how many where they are too many for a line."""
    count = len({end.leaf for end in known.ends})
    few = count <= MAX_LEAVES
    return rules.told(known.ends) if few else f"{count} leaf switches: see the property leaves"


def _judged(id_: str, profile: Profile, known: _Known) -> CaseResult:
    cabling = profile.rails.cabling if profile.rails else None
    unknown = f"neighbour unknown of {listed(known.unknown)}" if known.unknown else ""
    if cabling is None:
        if not known.asked:
            why = "nobody asked what the cables lead to: docs/cabling.md"
            return fleet_case(id_, Outcome.SKIPPED, why)
        parts = [_leaves(known), unknown, "the profile promises no rails.cabling"]
        return fleet_case(id_, Outcome.NOT_JUDGED, one_line("; ".join(filter(None, parts))))
    units = Units.of(known.ends, cabling)
    findings = rules.judge(units, cabling)
    if findings:
        lines = [*(finding.text() for finding in findings), *filter(None, [unknown])]
        return fleet_case(id_, Outcome.FAILED, "\n".join(map(one_line, lines)), findings)
    if unknown:
        return fleet_case(id_, Outcome.ERROR, one_line(f"{unknown}; {REMEDY}"))
    if not known.ends:
        return fleet_case(id_, Outcome.ERROR, "no rail has an active port to look at")
    if units.alone:
        places = listed([end.text() for end in units.alone])
        return fleet_case(id_, Outcome.NOT_JUDGED, f"nothing to compare with: {places}")
    return fleet_case(id_, Outcome.PASSED)
