"""The result of a run on one screen."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType

from gdrcheck.findings.catalogue import ENTRIES_BY_CODE
from gdrcheck.findings.model import Finding, Severity
from gdrcheck.outcome import Outcome
from gdrcheck.results.folding import listed
from gdrcheck.results.plain import one_line
from gdrcheck.results.reproduce import MAX_REPRODUCTIONS
from gdrcheck.results.summary import Summary, SummaryCase, SummaryFinding

MAX_LINES = 30
MAX_GROUPS = 5
MAX_KINDS = 10
# Of nodes without results, each reason a line; beyond them the names alone.
MAX_LOSSES = 4
NO_RESULT = "RUN-NO-RESULT"
MAX_WIDTH = 160
# Names are whole, to be looked for in the files; other tools' names have no limit of their own.
MAX_NAME = 400
REPORT_FILE = "report.html"
# What a node's name is, or something longer: node1 must not be found in node10.
WORD = re.compile(r"[\w.-]+")
SUMMARY_FILE = "summary.json"
EMULATED = "EMULATED: parts of the hardware are emulated; this proves nothing about it"
SOFT_ROCE = "SOFT-ROCE: RDMA in software; this proves nothing about real NICs"


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the screen. A group's lines stay together.

    ``total``: how many groups there are, of which ``groups`` are the first; ``kind`` is the word
    for what is left out, which ``file`` has. ``names``: of all groups, where they have any.
    """

    title: str
    groups: Sequence[Sequence[str]]
    total: int
    kind: str
    names: Sequence[str] = ()
    file: str = SUMMARY_FILE

    def lines(self, count: int) -> list[str]:
        """The title, the first ``count`` groups, and how many there are beside them."""
        if not self.groups:
            return []
        title = [self.title] if self.title else []
        shown = [line for group in self.groups[:count] for line in group]
        return [*title, *shown, *self._more(count)]

    def _more(self, count: int) -> list[str]:
        left = self.total - count
        if left <= 0:
            return []
        hidden = ", ".join(self.names[count:])
        kind = self.kind.removesuffix("s") if left == 1 else self.kind
        said = f"  and {left} more {kind}, see {self.file}"
        return [_cut(f"{said}: {hidden}" if hidden else said)]


def text(summary: Summary, results_dir: Path) -> str:
    """The whole screen, MAX_LINES at most."""
    page = (results_dir / REPORT_FILE).is_file()
    first = [_title(summary), *_banners(summary)]
    why = f" ({'; '.join(summary.reasons)})" if summary.reasons else ""
    first.append(f"verdict: {summary.verdict}{why}")
    first.append(
        "cases: " + (", ".join(f"{n} {kind}" for kind, n in summary.counts.items() if n) or "none")
    )
    if summary.waivers:
        first.append(_waivers(summary))
    first += _losses(summary)
    sections = [
        _findings(summary, REPORT_FILE if page else SUMMARY_FILE),
        _failures(summary),
        _unmeasured(summary),
        _suspects(summary),
        _by_hand(summary),
    ]
    last = _places(results_dir, page=page)
    fitting = _fitted(sections, MAX_LINES - len(first) - len(last))
    return "\n".join([*map(_cut, first), *fitting, *map(one_line, last)])


def _fitted(sections: Sequence[Section], room: int) -> list[str]:
    """The lines of all sections, as far as there is room: of each its first group, then more of
    the first section, which says why the run is bad, then more of each in turn. What is left out
    is counted.
    """
    counts = [min(1, len(section.groups)) for section in sections]

    def grow(at: int) -> bool:
        more = [*counts[:at], counts[at] + 1, *counts[at + 1 :]]
        fits = more[at] <= len(sections[at].groups) and len(_lines(sections, more)) <= room
        if fits:
            counts[:] = more
        return fits

    while grow(0):
        pass
    while sum(grow(at) for at in range(len(sections))):
        pass
    return _lines(sections, counts)


def _lines(sections: Sequence[Section], counts: Sequence[int]) -> list[str]:
    return [
        line
        for section, count in zip(sections, counts, strict=True)
        for line in section.lines(count)
    ]


def _cut(line: str, whole: str = "") -> str:
    """``line`` as wide as the screen at most, but for ``whole``, its start, which stays."""
    line = one_line(line)
    width = max(MAX_WIDTH, min(len(one_line(whole)) + 1, MAX_NAME))
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _title(summary: Summary) -> str:
    limited = f", limited to {summary.limited_to}" if summary.limited_to else ""
    count = len(summary.nodes)
    nodes = f"{count} node" if count == 1 else f"{count} nodes"
    took = f", {summary.duration_s:.0f} s" if summary.duration_s is not None else ""
    return f"gdrcheck {summary.gdrcheck_version}, run {summary.run_id}, {nodes}{limited}{took}"


def _banners(summary: Summary) -> list[str]:
    lines = []
    if summary.check_mode:
        lines.append("check mode: nothing measured")
    if summary.emulated:
        lines.append(EMULATED)
    if summary.software_rdma:
        lines.append(SOFT_ROCE)
    return lines


def _waivers(summary: Summary) -> str:
    used = [f"{one.code} at {one.where} until {one.until}: {one.reason}" for one in summary.waivers]
    return f"waivers used: {len(used)} ({'; '.join(used)})"


def _losses(summary: Summary) -> list[str]:
    """The nodes of which nothing, or not all, is here: a section that is never left out, for a
    whole node weighs more than any case of it."""
    nodes: dict[str, str] = {}
    for entry in summary.findings:
        if _is_loss(entry):
            finding = entry.finding
            nodes.setdefault(finding.where.node, finding.observed.removeprefix("no result: "))
    groups: dict[str, list[str]] = defaultdict(list)
    for node, reason in nodes.items():
        groups[reason].append(one_line(node))
    lines = [f"no result, or not all of it (gdrcheck explain {NO_RESULT}):"] if nodes else []
    for reason, found in list(groups.items())[:MAX_LOSSES]:
        room = max(MAX_WIDTH - len(one_line(reason)) - 4, MAX_WIDTH // 2)
        lines.append(f"  {listed(found, room)}: {reason}")
    left = [node for found in list(groups.values())[MAX_LOSSES:] for node in found]
    if left:
        start = f"  and {len(left)} more, see {SUMMARY_FILE}: "
        lines.append(start + listed(left, MAX_WIDTH - len(start)))
    return lines


def _is_loss(entry: SummaryFinding) -> bool:
    return entry.finding.code == NO_RESULT and entry.waived_until is None


class Weight(IntEnum):
    """What a finding does to the verdict, the worst first."""

    FAILS = 0
    UNMEASURED = 1
    WARNS = 2
    WAIVED = 3


LABELS: Mapping[Weight, str] = MappingProxyType(
    {Weight.WARNS: " (warning)", Weight.WAIVED: " (waived)"}
)


def _weight(entry: SummaryFinding) -> Weight:
    if entry.waived_until is not None:
        return Weight.WAIVED
    if entry.finding.severity is Severity.WARN:
        return Weight.WARNS
    return Weight.FAILS if entry.outcome is Outcome.FAILED else Weight.UNMEASURED


def _findings(summary: Summary, file: str) -> Section:
    """Findings of one code together, the repair once; first those that fail the run, of these
    those of most places. Nodes without results are said above."""
    groups: dict[tuple[str, Weight], list[Finding]] = defaultdict(list)
    for entry in summary.findings:
        if not _is_loss(entry):
            groups[entry.finding.code, _weight(entry)].append(entry.finding)
    ordered = sorted(groups.items(), key=lambda group: (group[0][1], -_places_of(group[1])))
    return Section(
        "findings:",
        [_cause(code, found, weight) for (code, weight), found in ordered[:MAX_KINDS]],
        len(ordered),
        "kinds",
        [code + LABELS.get(weight, "") for (code, weight), _ in ordered],
        file,
    )


def _places_of(found: Sequence[Finding]) -> int:
    return len({finding.where.alone for finding in found})


def _cause(code: str, found: Sequence[Finding], weight: Weight) -> list[str]:
    known = ENTRIES_BY_CODE.get(code)
    title = f" {known.title}:" if known else ""
    start = f"  {code}{LABELS.get(weight, '')}:{title} "
    places = [one_line(finding.where.text()) for finding in found]
    seen = {(finding.observed, finding.expected) for finding in found}
    example = f"{places[0]}: " if len(seen) > 1 else ""
    unit = f" {found[0].unit}" if found[0].unit else ""
    lines = [
        start + listed(places, MAX_WIDTH - len(start)),
        f"    {example}observed {found[0].observed}{unit}, expected {found[0].expected}{unit}",
    ]
    if known and weight is not Weight.WAIVED:
        lines.append(f"    first: {known.repair[0]}  (gdrcheck explain {code})")
    return [_cut(line) for line in lines]


def _failures(summary: Summary) -> Section:
    """Failed cases that no finding tells of, each by name."""
    found = summary.failed_without_finding
    groups = []
    for entry in found[:MAX_GROUPS]:
        name = f"failed: {entry.suite}: {entry.case}"
        groups.append([_cut(f"{name}: {entry.message or 'no message'}", name)])
    return Section("", groups, len(found), "failed cases")


def _unmeasured(summary: Summary) -> Section:
    """Cases that could not be measured; those whose reasons differ only in the node together."""
    explained = {entry.case for entry in summary.findings}
    groups: dict[tuple[str, str], list[SummaryCase]] = defaultdict(list)
    for entry in summary.unmeasured:
        if entry.case not in explained:
            groups[entry.outcome, _alike(_reason(entry), summary.nodes)].append(entry)
    # What is blocked follows from something that is said elsewhere.
    ordered = sorted(groups.items(), key=lambda group: group[0][0] is Outcome.BLOCKED)
    lines = []
    for (outcome, _), found in ordered[:MAX_GROUPS]:
        name = f"  {outcome} {found[0].case}"
        count = sum(one.stands_for for one in found)
        more = f" and {count - 1} like it" if count > 1 else ""
        words = (word for one in found for word in WORD.findall(one.case))
        places = dict.fromkeys(word for word in words if word in summary.nodes)
        room = MAX_WIDTH - len(f"{name}{more} (): {one_line(_reason(found[0]))}")
        on = listed(places, room) if len(places) > 1 else ""
        on = f" ({on})" if 0 < len(on) <= room else ""
        lines.append([_cut(f"{name}{more}{on}: {_reason(found[0])}", name)])
    return Section("not measured:", lines, len(groups), "kinds")


def _alike(reason: str, nodes: Collection[str]) -> str:
    """``reason`` without the names of nodes."""
    return WORD.sub(lambda match: "NODE" if match[0] in nodes else match[0], reason)


def _reason(entry: SummaryCase) -> str:
    return f"by {entry.blocked_by}" if entry.blocked_by else entry.reason


def _suspects(summary: Summary) -> Section:
    """Places that are suspected alike together: rails of one reason, partners of one rail."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for suspect in summary.suspects:
        *first, last = map(one_line, suspect.place)
        groups[(*first, suspect.reason)].append(last)
    lines = []
    for (*first, reason), lasts in list(groups.items())[:MAX_GROUPS]:
        start = "  " + "".join(f"{place} <-> " for place in first)
        room = MAX_WIDTH - len(start) - len(reason) - 2
        lines.append([_cut(f"{start}{listed(lasts, room)}: {reason}")])
    return Section("look first at:", lines, len(groups), "suspects")


def _by_hand(summary: Summary) -> Section:
    """Two commands for each failing pair. They are never cut: half a command is a wrong one."""
    groups = []
    for one in summary.reproduce[:MAX_GROUPS]:
        nodes = [place.partition("/")[0] for place in one.places]
        differs = [_cut(f"    ({'; '.join(one.differs)})")] if one.differs else []
        commands = zip(nodes, (one.listener, one.caller), strict=True)
        groups.append([*(f"  {node}$ {one_line(line)}" for node, line in commands), *differs])
    # The summary holds so many at most.
    limited = len(summary.reproduce) >= MAX_REPRODUCTIONS
    return Section(
        "the failing pairs by hand (TOKEN is what the listener prints; see docs/pingpong.md):",
        groups,
        len(summary.reproduce),
        "or more pairs" if limited else "pairs",
    )


def _places(results_dir: Path, *, page: bool) -> list[str]:
    nodes = ", nodes/" if (results_dir / "nodes").is_dir() else ""
    return [
        *([f"page: {results_dir / REPORT_FILE}"] if page else []),
        f"results: {results_dir}/junit.xml, {SUMMARY_FILE}{nodes}",
    ]
