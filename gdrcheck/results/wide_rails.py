"""What records of whole pairs say of single rails, and of the ends of rails. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from gdrcheck.outcome import Outcome
from gdrcheck.results.pair_records import OUTCOMES, RailPlace
from gdrcheck.results.pair_told import GOOD_DIGITS, Template
from gdrcheck.results.wide import WidePairs


class RailOutcomes(NamedTuple):
    """Two ends of a rail, and how many cases between them have each good outcome.

    ``alone``: no case of this rail is told of by itself.
    """

    ours: RailPlace
    theirs: RailPlace
    counts: Counter[Outcome]
    alone: bool


def rails_of(template: Template, kinds: str) -> list[RailOutcomes]:
    """The rails of a pair, the initiator's end first."""
    found: dict[tuple[RailPlace, RailPlace], list[str]] = defaultdict(list)
    for case, kind in zip(template, kinds, strict=True):
        ends = (case.source, case.sink) if case.direction == "out" else (case.sink, case.source)
        found[ends].append(kind)
    return [
        RailOutcomes(
            ours,
            theirs,
            Counter(OUTCOMES[kind] for kind in of_rail if kind in GOOD_DIGITS),
            all(kind in GOOD_DIGITS for kind in of_rail),
        )
        for (ours, theirs), of_rail in found.items()
    ]


class WideRails:
    """The rails of all pairs that records tell of."""

    def __init__(self, wide: WidePairs) -> None:
        self._wide = wide
        self._known: dict[tuple[int, int], list[RailOutcomes]] = {}

    def of(self, block: int, kinds: int) -> list[RailOutcomes]:
        """The rails of each pair of this block with these outcomes."""
        key = block, kinds
        if key not in self._known:
            wide = self._wide
            self._known[key] = rails_of(wide.blocks[block].template, wide.kinds.values[kinds])
        return self._known[key]

    def counts(self) -> dict[str, Counter[Outcome]]:
        """For each end of a rail the outcomes of the cases that are told of by records alone."""
        found: defaultdict[str, Counter[Outcome]] = defaultdict(Counter)
        for alike in self._wide.alike():
            for rail in self.of(alike.template, alike.kinds):
                place = (rail.ours if alike.initiates else rail.theirs).of(alike.node)
                for outcome, count in rail.counts.items():
                    found[place][outcome] += count * alike.pairs
        return found

    def passing(self) -> set[str]:
        """The ends of rails between which something passed and nothing else is told."""
        return {
            (rail.ours if alike.initiates else rail.theirs).of(alike.node)
            for alike in self._wide.alike()
            for rail in self.of(alike.template, alike.kinds)
            if rail.alone and rail.counts[Outcome.PASSED]
        }

    def beside(self) -> Iterator[tuple[tuple[str, str], set[Outcome]]]:
        """Of each rail of a pair with cases that are told of by themselves: both ends, sorted, and
        the outcomes of the others."""
        wide = self._wide
        bad = {number for number, kinds in enumerate(wide.kinds.values) if kinds.strip(GOOD_DIGITS)}
        for block in wide.blocks:
            rows = zip(block.initiators, block.responders, block.kinds, strict=True)
            for initiator, responder, kinds in rows:
                if kinds in bad:
                    for rail in self.of(block.number, kinds):
                        if not rail.alone:
                            one = rail.ours.of(wide.names[initiator])
                            other = rail.theirs.of(wide.names[responder])
                            yield (min(one, other), max(one, other)), set(rail.counts)
