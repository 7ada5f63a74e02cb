"""Whether records of whole pairs tell all that is owed: asked once for pairs that are alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdrcheck.outcome import Outcome
from gdrcheck.pairing.schedule import Pair
from gdrcheck.results.ends import Ends
from gdrcheck.results.incoming import NodeReport
from gdrcheck.results.owed_pairs import TELLING, Owed
from gdrcheck.results.pair_told import (
    APART_JUDGES_NOT,
    APART_SKIPS,
    APART_TELLS,
    DIGIT_OUTCOMES,
    Template,
)
from gdrcheck.results.rail_keys import RailKeys
from gdrcheck.results.wide import WidePairs
from gdrcheck.run import RunSpec
from gdrcheck.transfer import DIRECTIONS, Direction

# What a case that is told of by itself counts for; any outcome that tells will do.
COUNTS_AS: Mapping[str, Outcome] = {
    **DIGIT_OUTCOMES,
    APART_TELLS: Outcome.FAILED,
    APART_SKIPS: Outcome.SKIPPED,
    APART_JUDGES_NOT: Outcome.NOT_JUDGED,
}


class OwedOfAll:
    """What pairs owe, each answer kept for all pairs of which it is the same.

    It is the same where both profiles and the names of both nodes' rails are; and whether a record
    tells all of it, where its template and its outcomes are as well.
    """

    def __init__(self, spec: RunSpec, reports: Mapping[str, NodeReport], wide: WidePairs) -> None:
        self._spec = spec
        self._reports = reports
        self._wide = wide
        self._keys = RailKeys()
        self._gpus: dict[tuple[object, ...], tuple[frozenset[int], ...]] = {}
        self._whole: dict[tuple[object, ...], bool] = {}

    def of(self, pair: Pair) -> Owed:
        """What ``pair`` owes."""
        return Owed.of(self._spec, pair, self._reports[pair.initiator])

    def gpus(self, pair: Pair) -> tuple[frozenset[int], ...]:
        """The rails of ``pair`` that owe GPU memory; those of the initiator, and of the responder,
        whatever the other one has."""
        key = self._key(pair)
        known = self._gpus.get(key)
        if known is None:
            owed = self.of(pair)
            known = (owed.gpu_rails, *(owed.gpus_of[node] for node in pair))
            self._gpus[key] = known
        return known

    def is_whole(self, pair: Pair) -> bool:
        """Whether a record tells of all that ``pair`` owes, and nothing is to be added."""
        row = self._wide.row(*pair)
        if row is None:
            return False
        key = (*self._key(pair), *row)
        known = self._whole.get(key)
        if known is None:
            known = self._whole[key] = self._is_whole(pair)
        return known

    def told(self, pair: Pair, direction: Direction) -> dict[Ends, Outcome]:
        """What the record of ``pair`` tells of this direction; nothing without a record."""
        row = self._wide.row(*pair)
        if row is None:
            return {}
        template, kinds = self._wide.blocks[row[0]].template, self._wide.kinds.values[row[1]]
        return told_of(template, kinds, pair, direction)

    def _is_whole(self, pair: Pair) -> bool:
        owed = self.of(pair)
        if len({self._rails(node) for node in pair}) > 1:
            return False
        for direction in DIRECTIONS:
            found = self.told(pair, direction)
            if not any(outcome in TELLING for outcome in found.values()):
                return False
            if next(owed.lacking(direction, found), None) is not None:
                return False
        return True

    def _rails(self, node: str) -> int:
        rails = self._spec.profile_of(node).rails
        return rails.count if rails else 0

    def _key(self, pair: Pair) -> tuple[object, ...]:
        node = self._spec.node
        told = self._reports[pair.initiator].rendezvous
        return (
            *(node(name).profile for name in pair),
            *(self._keys.of(told, name) for name in pair),
        )


def told_of(
    template: Template, kinds: Sequence[str], pair: Pair, direction: Direction
) -> dict[Ends, Outcome]:
    """What ``kinds`` say of the cases of ``pair`` in this direction."""
    source, sink = pair if direction == "out" else pair[::-1]
    return {
        Ends(
            case.check, case.source.of(source), case.sink.of(sink), case.mode, case.operation
        ): COUNTS_AS[kind]
        for case, kind in zip(template, kinds, strict=True)
        if case.direction == direction
    }
