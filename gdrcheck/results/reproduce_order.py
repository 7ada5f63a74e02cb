"""Which failing pairs to measure by hand first: those that tell most of one end. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from gdrcheck.results.cases import FLEET, PAIRS, CaseResult
from gdrcheck.results.reproduce_end import node_of

Pair = tuple[str, str]


def in_order(failing: Iterable[Pair], cases: Sequence[CaseResult]) -> list[Pair]:
    """``failing`` with the pairs first that each tell of another end.

    Of a pair the end that fails with more partners is the one in question, and the pair tells most
    of it when the other end is in no other trouble: two bad ends prove nothing of either.
    """
    pairs = list(failing)
    partners = Counter(place for pair in pairs for place in pair)
    troubled = {
        case.suite
        for case in cases
        if case.suite not in (FLEET, PAIRS) and (case.fails or case.unmeasured)
    }
    by_end: dict[str, list[Pair]] = {}
    # A stable sort: pairs that tell alike stay in the order of the run.
    for pair in sorted(pairs, key=lambda one: _doubt(one, partners, troubled)):
        by_end.setdefault(_in_question(pair, partners), []).append(pair)
    turns = {
        pair: (turn, partners[_in_question(pair, partners)] == 1)
        for found in by_end.values()
        for turn, pair in enumerate(found)
    }
    return sorted(turns, key=turns.__getitem__)


def _in_question(pair: Pair, partners: Mapping[str, int]) -> str:
    return max(pair, key=lambda place: partners[place])


def _doubt(pair: Pair, partners: Mapping[str, int], troubled: set[str]) -> tuple[int, bool]:
    """How much else is wrong with the other end: other failing partners, a node with failures of
    its own."""
    first = _in_question(pair, partners)
    other = pair[1] if first == pair[0] else pair[0]
    return partners[other], node_of(other) in troubled
