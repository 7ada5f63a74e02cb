"""A comparison on one screen: what is alike in one line, with the nodes that it is on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdrcheck.outcome import Verdict
from gdrcheck.results.compare_lines import (
    change_lines,
    counted,
    end_lines,
    kind_lines,
    short_change_lines,
    short_slower_lines,
    slower_lines,
)
from gdrcheck.results.compare_model import Change, Comparison, Side, Version
from gdrcheck.results.folding import fold

# What fits on one screen; a section shows so many lines at the most.
MAX_LINES = 40
MAX_GROUPS = 8


def lines(comparison: Comparison, most: int | None = MAX_LINES) -> list[str]:
    """The lines to print; about ``most``, the sections cut alike, None for all."""
    head = [
        f"OLD {_side(comparison.old)}",
        f"NEW {_side(comparison.new)}",
        *comparison.notes,
        f"result: {_result(comparison)}",
    ]
    sections = [one for one in _sections(comparison, whole=most is None) if one[1]]
    shown = [line for title, told in sections for line in _cut(title, told, None)]
    if most is not None:
        for length in range(MAX_GROUPS, 0, -1):
            shown = [line for title, told in sections for line in _cut(title, told, length)]
            if len(head) + len(shown) + 1 <= most:
                break
    return [*head, *shown, _rest(comparison)]


def _sections(comparison: Comparison, *, whole: bool) -> Iterator[tuple[str, list[str]]]:
    """Title and lines of each section, what makes NEW worse first; each case where ``whole``."""

    def cases(title: str, changes: Sequence[Change]) -> tuple[str, list[str]]:
        told = change_lines(changes)
        if whole or len(told) <= MAX_GROUPS:
            return _titled(title, changes), told
        return f"{_titled(title, changes)} --all tells of which checks", short_change_lines(changes)

    yield cases("newly failing", comparison.newly_failing)
    yield cases("not measured", comparison.no_longer_measured)
    yield cases("vanished", comparison.vanished)
    yield cases("no longer judged", comparison.no_longer_judged)
    kinds = kind_lines(comparison.slower_kinds)
    yield _titled("slower as a whole", kinds), kinds
    ends = end_lines(comparison.slower_ends)
    yield _titled("slower with most partners", ends), ends
    slower = comparison.slower
    yield (
        _titled("slower beyond the noise", slower),
        slower_lines(slower) if whole else short_slower_lines(slower, comparison.slower_ends),
    )
    yield cases("fails otherwise", comparison.fails_differently)
    yield cases("now waived or a warning", comparison.now_excused)
    yield cases("fixed", comparison.fixed)
    devices = [
        f"{one.node}: {one.old} is {'gone' if one.new is None else one.new}"
        f"{f' ({one.slot})' if one.slot else ''}"
        for one in comparison.devices
    ]
    yield _titled("devices", devices), devices
    versions = [_version(one) for one in comparison.versions]
    yield _titled("versions", versions), versions


def _titled(title: str, found: Sequence[object]) -> str:
    return f"{title} ({len(found)}):"


def _cut(title: str, told: Sequence[str], most: int | None) -> Iterator[str]:
    yield title
    yield from (f"  {line}" for line in told[:most])
    if most is not None and len(told) > most:
        yield f"  and {len(told) - most} more lines: --all or --json shows them"


def _side(side: Side) -> str:
    limited = f", limited to {side.limited_to}" if side.limited_to else ""
    nodes = counted(side.nodes, "node")
    return f"{side.source}: run {side.run_id}, {nodes}{limited}, {side.verdict}"


def _result(comparison: Comparison) -> str:
    if not comparison.worse:
        return f"NEW is no worse than OLD{_still(comparison)}"
    return f"NEW is worse than OLD ({'; '.join(comparison.reasons)})"


def _still(comparison: Comparison) -> str:
    """What is wrong with a NEW that is no worse: exit code 0 says nothing of that."""
    verdict = comparison.new.verdict
    if verdict is Verdict.PASS:
        return ""
    failing, unmeasured = comparison.still_failing, comparison.still_unmeasured
    told = [f"{counted(failing, 'case')} failing in both"] if failing else []
    told += [f"{counted(unmeasured, 'case')} measured in neither"] if unmeasured else []
    return f" (NEW is {verdict}{': ' if told else ''}{', '.join(told)})"


def _version(one: Version) -> str:
    on = f" on {', '.join(fold(one.nodes))}" if one.nodes else ""
    return f"{one.name}: {one.old} -> {one.new}{on}"


def _rest(comparison: Comparison) -> str:
    counts = (
        (comparison.still_failing, "of them failing"),
        (comparison.still_unmeasured, "of them not measured"),
        (comparison.newly_judged, "judged for the first time"),
        (comparison.appeared, "new"),
    )
    told = [f"{comparison.same_kind} cases as they were"]
    told += [f"{count} {what}" for count, what in counts if count]
    told.append(f"{counted(comparison.numbers, 'number')} compared")
    if comparison.numbers_gone:
        told.append(f"{counted(comparison.numbers_gone, 'number')} of OLD not in NEW")
    for nodes, where in (
        (comparison.nodes_only_old, "OLD"),
        (comparison.nodes_only_new, "NEW"),
    ):
        if nodes:
            told.append(f"only in {where}: {', '.join(fold(nodes))}")
    if comparison.unscheduled_pairs:
        told.append(f"pairs of OLD that NEW does not plan: {comparison.unscheduled_pairs}")
    return "; ".join(told)
