"""The pair cases of two runs side by side, one kind after the other. Pure.

Only the rows of one kind are in memory at a time: there may be a million in all.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gdrcheck.outcome import Outcome
from gdrcheck.results.compare_names import Renames
from gdrcheck.results.data import Data, Series, case_id

Ends = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Kind:
    """What pair cases measure."""

    check: str
    mode: str | None
    operation: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """One pair case. ``ends`` are its places, source first, in its own run's words."""

    data: Data
    series: Series
    number: int

    @property
    def ends(self) -> Ends:
        """Source and sink."""
        places, at = self.data.places, self.number
        return places[self.series.source[at]].text, places[self.series.sink[at]].text

    @property
    def id(self) -> str:
        """The name of the case."""
        return case_id(self.series, *self.ends)

    @property
    def kind(self) -> str:
        """What became of it."""
        return self.data.kinds[int(self.series.kinds[self.number])]

    @property
    def is_measured(self) -> bool:
        """Whether it ended with a result."""
        return self.kind not in (Outcome.ERROR, Outcome.BLOCKED, Outcome.SKIPPED)

    def value(self, number: str) -> float | None:
        """Its value in a column, None when it has none that a rate or a time can have."""
        column = self.series.numbers.get(number)
        value = column[self.number] if column else None
        return value if value is not None and 0 < value < math.inf else None

    @property
    def profiles(self) -> Ends:
        """The profiles of the nodes at both ends."""
        at = self.number
        return self._profile(self.series.source[at]), self._profile(self.series.sink[at])

    def _profile(self, place: int) -> str:
        return self.data.nodes[self.data.places[place].node].profile


Rows = Mapping[Ends, Row]


def pair_groups(old: Data, new: Data, names: Renames) -> Iterator[tuple[Kind, Rows, Rows]]:
    """For each kind of pair cases those of OLD and of NEW, by their ends in the words of NEW.

    Of OLD those with a device that is gone stand under the ends that OLD gave them, which no row
    of NEW has: the names of gone devices are marked.
    """
    before, after = _by_kind(old), _by_kind(new)
    translated = [names.place(place.text) or f"{place.text} (gone)" for place in old.places]
    own = [place.text for place in new.places]
    for kind in dict.fromkeys((*before, *after)):
        yield (
            kind,
            _rows(old, before.get(kind, ()), translated),
            _rows(new, after.get(kind, ()), own),
        )


def planned_pairs(data: Data) -> set[frozenset[str]]:
    """The pairs of nodes that a run tells anything of."""
    nodes = [place.node for place in data.places]
    found: set[tuple[int, int]] = set()
    for series in data.series:
        found.update(
            (nodes[source], nodes[sink])
            for source, sink in zip(series.source, series.sink, strict=True)
        )
    return {frozenset((data.nodes[one].name, data.nodes[other].name)) for one, other in found}


def _by_kind(data: Data) -> Mapping[Kind, list[Series]]:
    found: defaultdict[Kind, list[Series]] = defaultdict(list)
    for series in data.series:
        found[Kind(series.check, series.mode, series.operation)].append(series)
    return found


def _rows(data: Data, found: Sequence[Series], places: Sequence[str]) -> dict[Ends, Row]:
    return {
        (places[series.source[at]], places[series.sink[at]]): Row(data, series, at)
        for series in found
        for at in range(len(series.source))
    }
