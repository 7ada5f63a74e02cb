"""Whether the cables of rails lead to the leaf switches that the profile's cabling wants.

Ends that must share a leaf are a *unit*; the leaf of more than half of them is what is expected of
the others. Which end is at fault is not known where no leaf has more than half: that is said.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gdrcheck.findings.model import Finding, Where
from gdrcheck.rules.alike import listed
from gdrcheck.rules.cable_ends import Cabling, End

LEAF, SWAPPED = "FABRIC-RAIL-LEAF", "FABRIC-CABLES-SWAPPED"


@dataclass(frozen=True, slots=True)
class Units:
    """The ends by unit, and the usual leaf of each: None in one where none has more than half."""

    ends: Mapping[str, Sequence[End]]
    usual: Mapping[str, End | None]

    @classmethod
    def of(cls, ends: Iterable[End], cabling: Cabling) -> Units:
        """The units of ``ends``, in their order."""
        found: defaultdict[str, list[End]] = defaultdict(list)
        for end in ends:
            found[end.unit(cabling)].append(end)
        return cls(found, {unit: _usual(members) for unit, members in found.items()})

    @property
    def alone(self) -> list[End]:
        """Ends that have none to be compared with."""
        return [members[0] for members in self.ends.values() if len(members) == 1]

    @property
    def odd(self) -> list[tuple[End, End]]:
        """Each end that is not at its unit's usual leaf, and one that is."""
        return [
            (end, usual)
            for unit, members in self.ends.items()
            if (usual := self.usual[unit]) is not None
            for end in members
            if end.switch != usual.switch
        ]

    @property
    def count_by_node(self) -> Counter[str]:
        """How many ends each node has."""
        return Counter(end.where.node for members in self.ends.values() for end in members)

    @property
    def tied(self) -> list[str]:
        """The units in which no leaf has more than half of the ends."""
        return [unit for unit, usual in self.usual.items() if usual is None]


def _usual(members: Sequence[End]) -> End | None:
    switch, count = Counter(end.switch for end in members).most_common(1)[0]
    if 2 * count <= len(members):
        return None
    return next(end for end in members if end.switch == switch)


def judge(units: Units, cabling: Cabling) -> tuple[Finding, ...]:
    """FABRIC-CABLES-SWAPPED for two cables that are each in the other's place, FABRIC-RAIL-LEAF for
    each other end at a leaf of its own, one for a node of which every end is; and for ties.
    """
    odd = units.odd
    pairs = _swapped(odd)
    taken = {end for pair in pairs for end, _ in pair}
    left = [one for one in odd if one[0] not in taken]
    crossed = _crossed(units, cabling)
    explained = {unit for pair in crossed for unit in pair}
    return (
        *_swap_findings(pairs, units),
        *_leaf_findings(left, units),
        *(_crossed_finding(units, *pair) for pair in crossed),
        *_tie_findings(units, [unit for unit in units.tied if unit not in explained]),
    )


Odd = tuple[End, End]


def _swapped(odd: Sequence[Odd]) -> list[tuple[Odd, Odd]]:
    """Pairs of odd ends that are each at the other's leaf: those of one node before others."""
    pairs: list[tuple[Odd, Odd]] = []
    taken: set[End] = set()
    for within_a_node in (True, False):
        waiting: defaultdict[tuple[str, str, str], list[Odd]] = defaultdict(list)
        for one in odd:
            end, usual = one
            if end in taken:
                continue
            node = end.where.node if within_a_node else ""
            partners = waiting[node, usual.switch, end.switch]
            if partners:
                pairs.append((partners.pop(0), one))
                taken |= {end, pairs[-1][0][0]}
            else:
                waiting[node, end.switch, usual.switch].append(one)
    return pairs


def _swap_findings(pairs: Sequence[tuple[Odd, Odd]], units: Units) -> Iterator[Finding]:
    """One for each pair, and one for two nodes of which every cable is in the other's place."""
    counts = units.count_by_node
    of_nodes: defaultdict[frozenset[str], list[tuple[Odd, Odd]]] = defaultdict(list)
    for pair in pairs:
        of_nodes[frozenset(end.where.node for end, _ in pair)].append(pair)
    for nodes, found in of_nodes.items():
        whole = len(nodes) == 2 and all(counts[node] == len(found) for node in nodes)
        if whole and len(found) > 1:
            ends = [one for pair in found for one in pair]
            yield Finding(
                code=SWAPPED,
                where=Where(node=min(nodes), peer=max(nodes)),
                observed="every cable in the other's place: "
                + listed([end.text() for end, _ in ends]),
                expected=listed([f"{end.where.text()} at {usual.leaf}" for end, usual in ends]),
            )
        else:
            yield from (_swap_finding(*pair) for pair in found)


def _swap_finding(first: Odd, second: Odd) -> Finding:
    (one, its), (other, others) = first, second
    peer = other.where.node if other.where.node != one.where.node else None
    return Finding(
        code=SWAPPED,
        where=one.where.model_copy(update={"peer": peer}),
        observed=f"{one.text()}; {other.text()}",
        expected=f"rail {one.rail} of {one.where.text()} at {its.leaf}; "
        f"rail {other.rail} of {other.where.text()} at {others.leaf}",
    )


def _leaf_findings(left: Sequence[Odd], units: Units) -> Iterator[Finding]:
    """One for each end, and one for all nodes of which every cable is at the same other leaves."""
    by_node: defaultdict[str, list[Odd]] = defaultdict(list)
    for one in left:
        by_node[one[0].where.node].append(one)
    counts = units.count_by_node
    elsewhere: defaultdict[tuple[tuple[int, str], ...], list[list[Odd]]] = defaultdict(list)
    for node, found in by_node.items():
        if len(found) > 1 and len(found) == counts[node]:
            elsewhere[tuple((end.rail, end.switch) for end, _ in found)].append(found)
        else:
            yield from (_leaf_finding(*one) for one in found)
    yield from map(_elsewhere_finding, elsewhere.values())


def _leaf_finding(end: End, usual: End) -> Finding:
    return Finding(
        code=LEAF,
        where=end.where,
        observed=end.text(),
        expected=f"at {usual.leaf}, as {usual.where.text()} and most others",
    )


def _elsewhere_finding(nodes: Sequence[Sequence[Odd]]) -> Finding:
    names = [found[0][0].where.node for found in nodes]
    group = f"; alike at {listed(names)}: a leaf group without a label?" if len(names) > 1 else ""
    return Finding(
        code=LEAF,
        where=Where(node=names[0]),
        observed=f"every cable elsewhere: {listed([end.text() for end, _ in nodes[0]])}{group}",
        expected=listed([f"rail {end.rail} at {usual.leaf}" for end, usual in nodes[0]]),
    )


def _crossed(units: Units, cabling: Cabling) -> list[tuple[str, str]]:
    """Pairs of units without a usual leaf that are at the same two, each where the other is not."""
    pairs: list[tuple[str, str]] = []
    waiting: defaultdict[frozenset[tuple[str, str]], list[str]] = defaultdict(list)
    for unit in units.tied:
        at = {_across(end, cabling): end.switch for end in units.ends[unit]}
        switches = sorted(set(at.values()))
        if len(switches) != 2:
            continue
        other = dict(zip(switches, reversed(switches), strict=True))
        partners = waiting[frozenset((place, other[switch]) for place, switch in at.items())]
        if partners:
            pairs.append((partners.pop(0), unit))
        else:
            waiting[frozenset(at.items())].append(unit)
    return pairs


def _across(end: End, cabling: Cabling) -> str:
    return end.where.node if cabling == "by_rail" else str(end.rail)


def _crossed_finding(units: Units, first: str, second: str) -> Finding:
    members = [*units.ends[first], *units.ends[second]]
    one = members[0]
    return Finding(
        code=SWAPPED,
        where=_where_of_tie(units.ends[first]),
        observed=listed([end.text() for end in members]),
        expected=f"one leaf for all ends of {first}, another for all of {second}; it is a tie, so "
        f"they are swapped at {one.where.node} or at the others",
    )


def _tie_findings(units: Units, tied: Sequence[str]) -> list[Finding]:
    """One for all: several ties come from one mistake in the inventory or the profile."""
    if not tied:
        return []
    members = units.ends[tied[0]]
    more = f"; also in a tie: {listed(tied[1:])}" if len(tied) > 1 else ""
    return [
        Finding(
            code=LEAF,
            where=_where_of_tie(members),
            observed=told(members) + more,
            expected=f"one leaf for all ends of {tied[0]}; no leaf has more than half of them: "
            "a tie",
        )
    ]


def _where_of_tie(members: Sequence[End]) -> Where:
    first = members[0]
    other = next(end for end in members if end.switch != first.switch)
    peer = other.where.node if other.where.node != first.where.node else None
    return first.where.model_copy(update={"peer": peer})


def told(ends: Iterable[End]) -> str:
    """``leaf-1 (e4:…): rail 0 of node1/mlx5_0, …; leaf-2 (…): …``: every leaf and what is there."""
    by_leaf: defaultdict[str, list[str]] = defaultdict(list)
    for end in ends:
        by_leaf[end.leaf].append(f"rail {end.rail} of {end.where.text()}")
    return "; ".join(f"{leaf}: {listed(places)}" for leaf, places in by_leaf.items())
