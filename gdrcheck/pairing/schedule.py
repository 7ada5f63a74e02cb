"""Who meets whom, in which round: a pure function of the ordered node list.

Every node computes the same rounds from the same run document, so nobody hands them out. The
construction is the circle method, which covers every pair exactly once in n - 1 rounds (n for an
odd n, where one node rests in each). With leaf labels the nodes are first cut into blocks that
lie inside one leaf: the circle runs over blocks, and each pair of blocks takes as many rounds as
a block has nodes. Where the leaves have equal even sizes, the first round is then wholly inside
the leaves and the following ones wholly across; otherwise as far as possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from math import gcd
from typing import Literal, NamedTuple

from gdrcheck.run import NodeSpec

Matching = list[tuple[int, int]]
REST: int = -1  # the place of the partner that an odd number of nodes lacks


class Pair(NamedTuple):
    """Two nodes that meet. The initiator is the one that stands earlier in the node list."""

    initiator: str
    responder: str

    def other(self, node: str) -> str:
        """The one that is not ``node``."""
        return self.responder if node == self.initiator else self.initiator


Rounds = tuple[tuple[Pair, ...], ...]


def rounds(nodes: Sequence[NodeSpec], limit: int | Literal["all"]) -> Rounds:
    """The first ``limit`` rounds for ``nodes``: in each, disjoint pairs that run at one time.

    Each pair occurs at most once; ``all`` covers every pair exactly once. One node: no round.
    """
    if len(nodes) < 2:
        return ()
    members = list(range(len(nodes)))
    if len(members) % 2:
        members.append(REST)
    leaves = {i: node.leaf for i, node in enumerate(nodes) if node.leaf is not None}
    matchings = _by_leaf(members, leaves) if leaves else _circle(members)
    chosen = matchings if limit == "all" else islice(matchings, limit)
    return tuple(_named(nodes, matching) for matching in chosen)


def partner(schedule: Rounds, node: str, number: int) -> Pair | None:
    """The pair that ``node`` belongs to in round ``number``, None when it rests."""
    return next((pair for pair in schedule[number] if node in pair), None)


def _named(nodes: Sequence[NodeSpec], matching: Matching) -> tuple[Pair, ...]:
    ordered = sorted(tuple(sorted(pair)) for pair in matching if REST not in pair)
    return tuple(Pair(nodes[first].name, nodes[second].name) for first, second in ordered)


def _circle(members: Sequence[int]) -> Iterator[Matching]:
    """The len - 1 perfect matchings of an even number of members, all disjoint."""
    fixed, turning = members[-1], members[:-1]
    count = len(turning)
    for turn in range(count):
        seats = [turning[(turn + i) % count] for i in range(count)]
        yield [(fixed, seats[0]), *((seats[i], seats[-i]) for i in range(1, (count + 1) // 2))]


def _by_leaf(members: Sequence[int], leaves: dict[int, str]) -> Iterator[Matching]:
    """The circle over blocks of nodes of one leaf: one round inside, then those across."""
    blocks, inside_pairs = _blocks(members, leaves)
    home = [leaves.get(block[0]) for block in blocks]
    seated = _seated(inside_pairs)
    first, *others = _circle(seated)
    others.sort(key=lambda turn: sum(home[a] is not None and home[a] == home[b] for a, b in turn))
    unions = [_circle(blocks[a] + blocks[b]) for a, b in first]
    yield [pair for union in unions for pair in next(union)]
    for turn in others:
        for shift in range(len(blocks[0])):
            yield [
                (x, blocks[b][(i + shift) % len(blocks[b])])
                for a, b in turn
                for i, x in enumerate(blocks[a])
            ]
    for parts in zip(*unions, strict=True):
        yield [pair for part in parts for pair in part]


def _blocks(
    members: Sequence[int], leaves: dict[int, str]
) -> tuple[list[list[int]], list[tuple[int, int]]]:
    """Blocks of equal size, each inside one leaf, and the pairs of blocks that meet first."""
    groups: dict[str, list[int]] = {}
    loose = []
    for member in members:
        if member in leaves:
            groups.setdefault(leaves[member], []).append(member)
        else:
            loose.append(member)
    common = gcd(*(len(group) for group in groups.values()), len(loose))
    size = common // 2 if common % 2 == 0 else 1
    blocks: list[list[int]] = []
    pairs: list[tuple[int, int]] = []
    left: list[int] = []
    for group in (*groups.values(), loose):
        numbers = []
        for start in range(0, len(group), size):
            numbers.append(len(blocks))
            blocks.append(group[start : start + size])
        pairs.extend(zip(numbers[::2], numbers[1::2], strict=False))
        left.extend(numbers[len(numbers) // 2 * 2 :])
    pairs.extend(zip(left[::2], left[1::2], strict=True))
    return blocks, pairs


def _seated(pairs: Sequence[tuple[int, int]]) -> list[int]:
    """An order of all members for which the first matching of the circle is ``pairs``."""
    (fixed, first), *rest = pairs
    return [first, *(a for a, _ in rest), *(b for _, b in reversed(rest)), fixed]
