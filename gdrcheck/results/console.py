"""The result of a run on one screen."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from gdrcheck.findings.catalogue import ENTRIES_BY_CODE
from gdrcheck.findings.model import Finding
from gdrcheck.outcome import Outcome
from gdrcheck.results.plain import one_line
from gdrcheck.results.summary import Summary, SummaryCase

MAX_GROUPS = 5
MAX_WIDTH = 160
EMULATED = "EMULATED: parts of the hardware are emulated; this proves nothing about it"
SOFT_ROCE = "SOFT-ROCE: RDMA in software; this proves nothing about real NICs"
NUMBERED = re.compile(r"^(.*?)(\d+)$")


def text(summary: Summary, results_dir: Path) -> str:
    """The whole screen, about thirty lines at most."""
    lines = [_title(summary), *_banners(summary)]
    lines.append(f"verdict: {summary.verdict}" + _because(summary))
    lines.append(
        "cases: " + (", ".join(f"{n} {kind}" for kind, n in summary.counts.items() if n) or "none")
    )
    lines += _findings(summary)
    nodes = ", nodes/" if (results_dir / "nodes").is_dir() else ""
    last = [*_suspects(summary), f"results: {results_dir}/junit.xml, summary.json{nodes}"]
    return "\n".join(
        [*map(_cut, lines), *_failures(summary), *_unmeasured(summary), *map(_cut, last)]
    )


def _cut(line: str, whole: str = "") -> str:
    """``line`` as wide as the screen at most, but for ``whole``, its start, which stays."""
    line = one_line(line)
    width = max(MAX_WIDTH, len(one_line(whole)) + 1)
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


def _because(summary: Summary) -> str:
    return f" ({'; '.join(summary.reasons)})" if summary.reasons else ""


def _findings(summary: Summary) -> list[str]:
    """Findings of one code together, the repair once; those that failed come first."""
    groups: dict[tuple[str, bool], list[Finding]] = defaultdict(list)
    for entry in sorted(summary.findings, key=lambda one: one.outcome is not Outcome.FAILED):
        groups[entry.finding.code, entry.waived_until is not None].append(entry.finding)
    lines = []
    for (code, waived), found in list(groups.items())[:MAX_GROUPS]:
        known = ENTRIES_BY_CODE.get(code)
        places = ", ".join(fold(dict.fromkeys(finding.where.text() for finding in found)))
        title = f" {known.title}:" if known else ""
        lines.append(f"  {code}{' (waived)' if waived else ''}:{title} {places}")
        unit = f" {found[0].unit}" if found[0].unit else ""
        lines.append(f"    observed {found[0].observed}{unit}, expected {found[0].expected}{unit}")
        if known and not waived:
            lines.append(f"    first: {known.repair[0]}  (gdrcheck explain {code})")
    return _section("findings:", lines, len(groups))


def _failures(summary: Summary) -> list[str]:
    """Failed cases that no finding tells of, each by name."""
    found = summary.failed_without_finding
    lines = []
    for entry in found[:MAX_GROUPS]:
        name = f"failed: {entry.suite}: {entry.case}"
        lines.append(_cut(f"{name}: {entry.message or 'no message'}", name))
    if len(found) > MAX_GROUPS:
        lines.append(f"  and {len(found) - MAX_GROUPS} more failed cases, see summary.json")
    return lines


def _unmeasured(summary: Summary) -> list[str]:
    """Cases that could not be measured; those whose reasons differ only in the node together."""
    explained = {entry.case for entry in summary.findings}
    # The longest first: node1 must not be found in node10.
    names = sorted(map(re.escape, summary.nodes), key=len, reverse=True)
    node = re.compile(rf"(?<![\w.-])({'|'.join(names)})(?![\w.-])")
    groups: dict[tuple[str, str], list[SummaryCase]] = defaultdict(list)
    for entry in summary.unmeasured:
        if entry.case not in explained:
            groups[entry.outcome, node.sub("NODE", _reason(entry))].append(entry)
    lines = []
    for (outcome, _), found in list(groups.items())[:MAX_GROUPS]:
        more = f" and {len(found) - 1} like it" if len(found) > 1 else ""
        places = dict.fromkeys(name for one in found for name in node.findall(one.case))
        on = f" ({', '.join(fold(places))})" if len(places) > 1 else ""
        name = f"  {outcome} {found[0].case}"
        lines.append(_cut(f"{name}{more}{on}: {_reason(found[0])}", name))
    return _section("not measured:", lines, len(groups))


def _reason(entry: SummaryCase) -> str:
    return f"by {entry.blocked_by}" if entry.blocked_by else entry.reason


def _suspects(summary: Summary) -> list[str]:
    lines = [
        f"  {' <-> '.join(suspect.place)}: {suspect.reason}"
        for suspect in summary.suspects[:MAX_GROUPS]
    ]
    return _section("look first at:", lines, len(summary.suspects))


def _section(title: str, lines: Sequence[str], groups: int) -> list[str]:
    if not lines:
        return []
    hidden = groups - MAX_GROUPS
    more = [f"  and {hidden} more kinds, see summary.json"] if hidden > 0 else []
    return [title, *lines, *more]


def fold(places: Iterable[str]) -> list[str]:
    """``node1/rxe0, node2/rxe0, node4/rxe0`` as ``node[1-2,4]/rxe0``, in order of appearance."""
    groups: dict[tuple[str, int, str], list[int]] = {}
    loose: dict[tuple[str, int, str], str] = {}
    for place in places:
        node, slash, rest = place.partition("/")
        match = NUMBERED.match(node)
        # A leading zero is part of the name: node01 folds with node02 only.
        if match is None:
            loose[place, 0, ""] = place
            groups[place, 0, ""] = []
            continue
        prefix, digits = match.groups()
        width = len(digits) if digits.startswith("0") else 0
        groups.setdefault((prefix, width, slash + rest), []).append(int(digits))
    return [
        loose.get(key) or f"{key[0]}{_ranges(sorted(set(numbers)), key[1])}{key[2]}"
        for key, numbers in groups.items()
    ]


def _ranges(numbers: Sequence[int], width: int) -> str:
    if len(numbers) == 1:
        return f"{numbers[0]:0{width}d}"
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return (
        "["
        + ",".join(
            f"{part[0]:0{width}d}" + (f"-{part[-1]:0{width}d}" if len(part) > 1 else "")
            for part in parts
        )
        + "]"
    )
