"""The heat maps of a wide run: as ``matrices`` makes them, of blocks and series together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gdrcheck.report.matrices import (
    ALL_RAILS,
    BANDWIDTH,
    LATENCY,
    MAX_EXPECTED,
    MAX_NUMBERS_BYTES,
    OUTCOMES,
    SMALL_BYTES,
    Map,
    Wanted,
    outcome_map,
    worst,
)
from gdrcheck.report.packing import Blobs, rounded_by
from gdrcheck.report.wide_cells import Layouts, Pairs, looked_up, worst_ranks
from gdrcheck.results import data as columns
from gdrcheck.results.data import Data, Series
from gdrcheck.sizes import size_text
from gdrcheck.transfer import MODES


@dataclass(frozen=True, slots=True)
class _Asked:
    """A number to be drawn: the check that it is of, and its column."""

    what: str
    check: str
    column: str
    unit: str
    size: str = ""


@dataclass(frozen=True, slots=True)
class _Told:
    """What a block tells of a number: each for the data that leaves the initiator, and for the way
    back. ``codes`` are indices into ``values``, None for none; the others have a byte a row.
    """

    pairs: Pairs
    values: tuple[tuple[float | None, ...], ...]
    codes: tuple[Sequence[int], ...]
    kinds: tuple[bytes, ...]
    expected: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class _Beside:
    """What a row of a series tells of a cell."""

    value: float | None
    kind: int
    expected: int


def maps(data: Data) -> tuple[list[Map], list[str]]:
    """Every map that has a cell, by rail, then by mode; and the blobs, each zlib and base64.

    InputError when a block is damaged.
    """
    blobs = Blobs()
    layouts = Layouts(blobs)
    pairs = [Pairs(data, block) for block in data.blocks]
    rails = {one.rail for one in data.series if one.mode in MODES}
    rails |= {case.rail for block in data.blocks for case in block.cases if case.mode in MODES}
    drawn = [
        _Drawn(data, pairs, rail, mode, blobs)
        for rail in sorted(rails, key=lambda one: (one is None, one or 0))
        for mode in MODES
    ]
    drawn = [one for one in drawn if one.has_cells]
    numbers = sum(len(one.asked) for one in drawn)
    most_bytes = max(SMALL_BYTES, MAX_NUMBERS_BYTES // max(1, numbers))
    found: list[Map] = []
    for one in drawn:
        one.lay_out(layouts)
        found += [one.outcomes(), *(one.numbers(asked, most_bytes) for asked in one.asked)]
    return found, blobs.texts


class _Drawn:
    """All that is drawn of one rail and mode."""

    def __init__(
        self, data: Data, pairs: Sequence[Pairs], rail: int | None, mode: str, blobs: Blobs
    ) -> None:
        self._data, self._rail, self._mode, self._blobs = data, rail, mode, blobs
        self._pairs = [(one, cases) for one in pairs if (cases := one.cases(rail, mode))]
        self._mine = [one for one in data.series if one.rail == rail and one.mode == mode]
        self._whole = [one for one in data.series if one.mode is None and one.rail in (rail, None)]
        self._ranks = {
            str(number): OUTCOMES.index(kind) + 1 for number, kind in enumerate(data.kinds)
        }
        self.has_cells = bool(self._pairs or self._mine)
        self.asked = tuple(self._numbers_asked())

    def _numbers_asked(self) -> Iterator[_Asked]:
        told = {
            (series.check, name)
            for series in self._mine
            for name, column in series.numbers.items()
            if any(value is not None for value in column)
        }
        told |= {
            (pairs.block.cases[one.case].check, one.name)
            for pairs, cases in self._pairs
            for one in pairs.block.numbers
            if one.case in cases
        }
        if ("latency", columns.P50_US) in told:
            yield _Asked(LATENCY, "latency", columns.P50_US, "us")
        names = {name for check, name in told if check == "bandwidth"}
        sizes = sorted((int(name[5:]) for name in names if name[5:].isdigit()), reverse=True)
        for size in sizes[:1]:
            yield _Asked(BANDWIDTH, "bandwidth", f"gbps_{size}", "Gb/s", size_text(size))
        if ("bandwidth_all_rails", columns.GBPS) in told:
            yield _Asked(ALL_RAILS, "bandwidth_all_rails", columns.GBPS, "Gb/s")

    def lay_out(self, layouts: Layouts) -> None:
        """Find which cells there are."""
        self._node = [place.node for place in self._data.places]
        beside = (cell for series in (*self._mine, *self._whole) for cell in self._cells(series))
        pairs = [one for one, _ in self._pairs]
        self._layout = layouts.of(pairs, beside, len(self._data.nodes) ** 2)
        self._length = self._layout.length

    def outcomes(self) -> Map:
        """The worst outcome of each cell."""
        found = bytes(self._length)
        for pairs, cases in self._pairs:
            ways = [
                looked_up(pairs.outcome, worst_ranks(pairs.block.outcomes, of_way, self._ranks))
                for of_way in pairs.ways(cases)
            ]
            found = worst(found, self._gathered(pairs, ways))
        beside = self._worst_beside()
        found = self._laid(found, {at: max(rank, found[at]) for at, rank in beside.items()})
        return outcome_map(self._rail, self._mode, self._layout.blob, found, self._blobs)

    def _worst_beside(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for series in (*self._mine, *self._whole):
            for cell, digit in zip(self._cells(series), series.kinds, strict=True):
                at, rank = self._layout.at(cell), self._ranks[digit]
                if rank > found.get(at, 0):
                    found[at] = rank
        return found

    def numbers(self, asked: _Asked, most_bytes: int) -> Map:
        """The numbers of one kind, with the outcome of each one's case, and what was expected."""
        wanted = _WantedNumbers()
        told = [self._told(pairs, cases, asked, wanted) for pairs, cases in self._pairs]
        beside = dict(self._beside(asked, wanted))
        values = {value for one in told for of_way in one.values for value in of_way}
        values |= {one.value for one in beside.values()}

        def raw(byte_of: Mapping[float | None, int]) -> bytes:
            found = bytes(self._length)
            for one in told:
                ways = (
                    looked_up(codes, [byte_of[value] for value in of_way])
                    for of_way, codes in zip(one.values, one.codes, strict=True)
                )
                found = _first(found, self._gathered(one.pairs, ways))
            return self._laid(found, {at: byte_of[one.value] for at, one in beside.items()})

        made = rounded_by(sorted(value for value in values if value is not None), most_bytes, raw)
        kinds, expected = bytes(self._length), bytes(self._length)
        for one in told:
            kinds = _first(kinds, self._gathered(one.pairs, one.kinds))
            expected = _first(expected, self._gathered(one.pairs, one.expected))
        kinds = self._laid(kinds, {at: one.kind for at, one in beside.items()})
        expected = self._laid(expected, {at: one.expected for at, one in beside.items()})
        return Map(
            rail=self._rail,
            mode=self._mode,
            what=asked.what,
            unit=asked.unit,
            size=asked.size,
            values=tuple(step.value for step in made.steps),
            rounded=made.error,
            exact=tuple(not step.error for step in made.steps) if made.error else (),
            cells=self._layout.blob,
            bytes=self._blobs.add_text(made.text),
            kinds=self._blobs.add(kinds),
            expected=self._blobs.add(expected) if wanted.known else None,
            wanted=tuple(wanted.known),
        )

    def _told(
        self, pairs: Pairs, cases: Sequence[int], asked: _Asked, wanted: _WantedNumbers
    ) -> _Told:
        values, codes, kinds, expected = [], [], [], []
        block, none = pairs.block, bytes(pairs.rows)
        for of_way in pairs.ways(cases):
            mine = [case for case in of_way if block.cases[case].check == asked.check]
            found = [one for case in mine if (one := pairs.numbers(case, asked.column))]
            values.append((None, *found[0].values) if found else (None,))
            codes.append(pairs.codes(found[0]) if found else none)
            kinds.append(looked_up(pairs.outcome, worst_ranks(block.outcomes, mine, self._ranks)))
            rates = [
                next((text[case] for case in mine if text[case] >= 0), -1) for text in block.wanted
            ]
            told = [self._data.expectations[one] if one >= 0 else None for one in rates]
            table = [wanted.of((one.gbps, one.limited_by)) if one else 0 for one in told]
            expected.append(looked_up(pairs.expectation, table))
        return _Told(pairs, tuple(values), tuple(codes), tuple(kinds), tuple(expected))

    def _beside(self, asked: _Asked, wanted: _WantedNumbers) -> Iterator[tuple[int, _Beside]]:
        for series in self._mine:
            if series.check != asked.check:
                continue
            rows = len(series.kinds)
            values = series.numbers.get(asked.column) or (None,) * rows
            rates = series.numbers.get(columns.EXPECTED_GBPS) or (None,) * rows
            words = series.limited_by or (-1,) * rows
            for at, cell in enumerate(self._cells(series)):
                word = self._data.words[words[at]] if words[at] >= 0 else ""
                rate = rates[at]
                number = wanted.of((rate, word)) if rate is not None else 0
                yield (
                    self._layout.at(cell),
                    _Beside(values[at], self._ranks[series.kinds[at]], number),
                )

    def _cells(self, series: Series) -> Iterator[int]:
        """The cells of the rows, among all that there could be."""
        count = len(self._data.nodes)
        for source, sink in zip(series.source, series.sink, strict=True):
            yield self._node[source] * count + self._node[sink]

    def _gathered(self, pairs: Pairs, ways: Iterable[bytes]) -> bytes:
        return pairs.cells(self._layout, *ways)

    def _laid(self, found: bytes, beside: Mapping[int, int]) -> bytes:
        """``found`` with what series tell, by the place of the cell."""
        if not beside:
            return found
        laid = bytearray(found)
        for at, byte in beside.items():
            laid[at] = byte
        return bytes(laid)


class _WantedNumbers:
    """The numbers of what is expected. Beyond those that a byte holds there is none."""

    def __init__(self) -> None:
        self.known: dict[Wanted, int] = {}

    def of(self, one: Wanted) -> int:
        """The number of an expected rate with what limits it; 0 is none."""
        if one not in self.known and len(self.known) >= MAX_EXPECTED:
            return 0
        return self.known.setdefault(one, len(self.known) + 1)


def _first(one: bytes, other: bytes) -> bytes:
    """The first byte of each two that is not 0."""
    if one.count(0) == len(one):
        return other
    return bytes(first or second for first, second in zip(one, other, strict=True))
