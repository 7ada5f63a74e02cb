"""Which nodes are good, bad or neither, and why: a short table of ``gdrcheck lists``. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gdrcheck.results.data import Data
from gdrcheck.results.folding import fold
from gdrcheck.results.scheduler_lists import sort_nodes
from gdrcheck.results.summary import Summary

BAD, NEITHER, GOOD = "bad", "neither", "good"
# Of the bad, and of those that are neither.
MAX_GROUPS = 20
MAX_REASONS = 3
# What the counts of the summary mean.
MEANINGS = {
    "passed": "measured, and as promised",
    "failed": "measured, and wrong",
    "error": "not measured: it was tried and did not work, or no result came",
    "blocked": "not measured: something it needs had failed before",
    "skipped": "not measured: the profile does not promise it",
    "not judged": "measured, but nothing says what is right",
    "waived": "wrong, but accepted by a waiver of the profile until its day",
    "warned": "wrong, but only worth a warning: it does not fail the run",
}
NO_PART_OF_A_NAME = r"(?<![\w.-]){}(?![\w.-])"


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes of one state for one reason. ``names`` are folded; ``reason`` is empty for the good."""

    state: str
    count: int
    names: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """How many nodes are good, bad, and neither; and which, the bad first."""

    good: int
    bad: int
    neither: int
    groups: tuple[Group, ...]


def standing(summary: Summary, data: Data) -> Standing | None:
    """The nodes of the run; None in check mode, where nothing was measured of any."""
    if summary.check_mode:
        return None
    found = sort_nodes(summary, data)
    good = (Group(GOOD, len(found.good), tuple(fold(found.good))),) if found.good else ()
    return Standing(
        good=len(found.good),
        bad=len(found.bad),
        neither=len(found.unknown),
        groups=(*_groups(BAD, found.bad), *_groups(NEITHER, found.unknown), *good),
    )


def _groups(state: str, nodes: Mapping[str, Sequence[str]]) -> Iterator[Group]:
    """Nodes whose first reasons differ only in the node's name are one group."""
    alike: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, why in nodes.items():
        alike[tuple(re.split(NO_PART_OF_A_NAME.format(re.escape(name)), why[0]))].append(name)
    groups = list(alike.values())
    for names in groups[:MAX_GROUPS]:
        yield Group(state, len(names), tuple(fold(names)), _reason([nodes[name] for name in names]))
    rest = [name for names in groups[MAX_GROUPS:] for name in names]
    if rest:
        reason = "for other reasons; gdrcheck lists writes them to files"
        yield Group(state, len(rest), tuple(fold(rest)), reason)


def _reason(whys: Sequence[Sequence[str]]) -> str:
    """The first reason of these nodes, and how many more there are."""
    first = fold(why[0] for why in whys)
    more = max(len(why) for why in whys) - 1
    told = "; ".join(first[:MAX_REASONS])
    if len(first) > MAX_REASONS:
        told += f"; and {len(first) - MAX_REASONS} like it"
    if not more:
        return told
    most = "up to " if len({len(why) for why in whys}) > 1 else ""
    return f"{told}; and {most}{more} more reason{'' if more == 1 else 's'}"
