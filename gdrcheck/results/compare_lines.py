"""The lines of a comparison about cases and numbers: what is alike is one line. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from gdrcheck.findings.catalogue import ENTRIES_BY_CODE
from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import PAIRS
from gdrcheck.results.compare_model import Change, Slower, SlowerEnd, SlowerKind
from gdrcheck.results.ends import named
from gdrcheck.results.folding import fold

MAX_PLACES = 4
_NUMBER = re.compile(r"^gbps_(\d+)$")
_WORDS = {"p50_us": "p50", "gbps": "bandwidth", "gbps_back": "bandwidth of the way back"}


def change_lines(changes: Iterable[Change]) -> list[str]:
    """Changes of one check, from one kind to one other, by one code, in one line; worse first."""
    groups: defaultdict[tuple[bool, str, str, str, tuple[str, ...]], list[Change]]
    groups = defaultdict(list)
    for change in changes:
        check = change.case.partition("[")[0]
        groups[not change.worse, check, change.was, change.now, change.codes].append(change)
    told = []
    for (_, check, *_rest), found in sorted(groups.items(), key=lambda one: one[0][0]):
        told.append(f"{check} at {_places(found)}: {_turned(found)}")
    return told


def short_change_lines(changes: Iterable[Change]) -> list[str]:
    """Changes of all checks, from one kind to one other, by one code, in one line; worse first."""
    groups: defaultdict[tuple[bool, bool, str, str, tuple[str, ...]], list[Change]]
    groups = defaultdict(list)
    for one in changes:
        groups[not one.worse, one.suite == PAIRS, one.was, one.now, one.codes].append(one)
    told = []
    for (_, of_pairs, *_rest), found in sorted(groups.items(), key=lambda one: one[0][0]):
        checks = len({change.case.partition("[")[0] for change in found})
        at = _nodes_of_pairs(found) if of_pairs else f"at {_cut(fold(one.suite for one in found))}"
        what = f"{counted(len(found), 'case')} of {counted(checks, 'check')}"
        told.append(f"{what} {at}: {_turned(found)}")
    return told


def counted(count: int, word: str) -> str:
    """``1 case``, ``2 cases``."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _turned(changes: Sequence[Change]) -> str:
    """What became of them, by which code; and what NEW says of it, if it is the same of all."""
    first = changes[0]
    codes = ", ".join(first.codes)
    title = ENTRIES_BY_CODE[codes].title if codes in ENTRIES_BY_CODE else ""
    why = ": ".join(filter(None, (codes, title)))
    turned = first.was if first.was == first.now else f"{first.was} -> {first.now}"
    alike = first.observed if len({one.observed for one in changes}) == 1 else ""
    by = " by " if first.now == Outcome.BLOCKED else "; "
    return f"{turned}{f' ({why})' if why else ''}{f'{by}{alike}' if alike else ''}"


def _nodes_of_pairs(changes: Sequence[Change]) -> str:
    """The node that most of them have in common."""
    nodes = Counter(
        node for change in changes if (ends := named(change.case)) for node in set(ends.nodes)
    )
    (node, count), *_ = nodes.most_common(1) or [("", 0)]
    if count == len(changes):
        return f"between {node} and others"
    return f"between nodes, {count} of them with {node}" if count else "between nodes"


def _places(changes: Sequence[Change]) -> str:
    return _cut(fold(dict.fromkeys(_place(change) for change in changes)))


def _cut(places: Sequence[str]) -> str:
    more = f" and {len(places) - MAX_PLACES} more" if len(places) > MAX_PLACES else ""
    return f"{', '.join(places[:MAX_PLACES])}{more}"


def _place(change: Change) -> str:
    """What is in the brackets of its name; with the name that it had, if that is another."""
    place = change.case.partition("[")[2].removesuffix("]") or change.suite
    old = (change.old_case or "").partition("[")[2].removesuffix("]")
    return f"{place} (was {old})" if old else place


def slower_lines(numbers: Iterable[Slower]) -> list[str]:
    """One line for each number."""
    return [_slower(one) for one in numbers]


def short_slower_lines(numbers: Iterable[Slower], ends: Iterable[SlowerEnd]) -> list[str]:
    """One line for each pair of ends, with the number that lost most; those of ``ends`` last, in
    one line: it was told of them.
    """
    known = {one.place for one in ends}
    explained = 0
    by_ends: defaultdict[str, list[Slower]] = defaultdict(list)
    for one in numbers:
        found = named(one.case)
        places = (found.source, found.sink) if found else (one.case,)
        if known.isdisjoint(places):
            by_ends[" -> ".join(places)].append(one)
        else:
            explained += 1
    told = [f"{_slower(alike[0])}{_more(len(alike) - 1)}" for alike in by_ends.values()]
    if explained:
        told.append(f"{explained} of the ends that are slower with most partners")
    return told


def _slower(one: Slower) -> str:
    noise = "noise unknown" if one.noise_share is None else f"noise {one.noise_share:.1%}"
    unit = "us" if one.number.endswith("_us") else "Gb/s"
    return (
        f"{one.case}, {_number(one.number)}: {one.old:g} -> {one.new:g} {unit}, "
        f"{one.slower_share:.0%} slower (limit {one.limit_share:.0%}, {noise})"
    )


def end_lines(ends: Iterable[SlowerEnd]) -> list[str]:
    """One line for each end, with the number that lost most."""
    by_place: defaultdict[str, list[SlowerEnd]] = defaultdict(list)
    for one in ends:
        by_place[one.place].append(one)
    told = []
    for place, found in by_place.items():
        worst = found[0]
        role = "" if worst.role == "both" else f" as {worst.role}"
        told.append(
            f"{place}{role}: {_what(worst)}, {_number(worst.number)}: {worst.slower_share:.1%} "
            f"slower in the middle of {worst.pairs} (limit {worst.limit_share:.1%})"
            f"{_more(len(found) - 1)}"
        )
    return told


def kind_lines(kinds: Iterable[SlowerKind]) -> list[str]:
    """One line for each kind of measurement."""
    return [
        f"{_what(one)} of {' -> '.join(dict.fromkeys(one.profiles))}, {_number(one.number)}: "
        f"{one.slower_share:.1%} slower in the middle of {one.pairs} (limit {one.limit_share:.1%})"
        for one in kinds
    ]


def _more(count: int) -> str:
    return f"; and {counted(count, 'more number')}" if count else ""


def _what(one: SlowerEnd | SlowerKind) -> str:
    how = ", ".join(filter(None, (one.mode, one.operation)))
    return f"{one.check} ({how})" if how else one.check


def _number(name: str) -> str:
    size = _NUMBER.match(name)
    return f"{size[1]} bytes" if size else _WORDS.get(name, name)
