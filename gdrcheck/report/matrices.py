"""The heat maps: host by host, one byte a cell, compressed. Pure.

Row: the node that the data leaves; column: the node that it goes to. A cell is its row times the
number of nodes, plus its column. Maps hold their bytes for the cells of their pairs alone, in
ascending order; which cells those are is a blob of its own, which maps alike share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gdrcheck.outcome import Outcome
from gdrcheck.report.layout import Layouts
from gdrcheck.report.packing import Blobs, rounded
from gdrcheck.results import data as columns
from gdrcheck.results.data import Data, Series
from gdrcheck.results.summary import WAIVED, WARNED
from gdrcheck.sizes import size_text
from gdrcheck.transfer import MODES

OUTCOME, LATENCY, BANDWIDTH, ALL_RAILS = "outcome", "latency", "bandwidth", "bandwidth, all rails"
# Text of all numbers of all maps: a page of 25 MB has room for the rest beside it.
MAX_NUMBERS_BYTES = 18_000_000
# Below this a map is never rounded, however many there are.
SMALL_BYTES = 8_000
# Of several cases of one cell the worst is shown: the last of these.
OUTCOMES: tuple[str, ...] = (
    *map(str, (Outcome.SKIPPED, Outcome.NOT_JUDGED, Outcome.PASSED)),
    *(WAIVED, WARNED),
    *map(str, (Outcome.BLOCKED, Outcome.ERROR, Outcome.FAILED)),
)
BAD = OUTCOMES[-3:]
MAX_EXPECTED = 255
Wanted = tuple[float | None, str]


@dataclass(frozen=True, slots=True)
class Map:
    """One heat map. ``values``: texts of outcomes, or numbers in ``unit``, ascending.

    ``cells``, ``bytes``, ``kinds`` and ``expected`` are numbers of blobs. A byte of ``bytes`` is an
    index into ``values`` plus 1, of ``kinds`` into OUTCOMES plus 1: the outcome of the case that
    the number is of; of ``expected`` into ``wanted`` plus 1, pairs of a number and what limits it.
    0 is none. ``rounded``: the most by which a number differs from the true one, as a share of it;
    ``exact``: whether each of ``values`` is a true one, if not all are.
    ``bad``: how many cells are failed, error or blocked. ``rail`` None: nobody said which it is.
    """

    rail: int | None
    mode: str
    what: str
    unit: str
    size: str
    values: tuple[str, ...] | tuple[float, ...]
    rounded: float
    exact: tuple[bool, ...]
    cells: int
    bytes: int
    kinds: int | None = None
    expected: int | None = None
    wanted: tuple[Wanted, ...] = ()
    bad: int = 0


def maps(data: Data) -> tuple[list[Map], list[str]]:
    """Every map that has a cell, by rail, then by mode; and the blobs, each zlib and base64."""
    blobs = Blobs()
    layouts = Layouts(data, blobs)
    rails = {series.rail for series in data.series if series.mode in MODES}
    drawn = [
        one
        for rail in sorted(rails, key=lambda one: (one is None, one or 0))
        for mode in MODES
        if (one := _Drawn.of(data, rail, mode)) is not None
    ]
    numbers = sum(len(one.numbers) for one in drawn)
    most_bytes = max(SMALL_BYTES, MAX_NUMBERS_BYTES // max(1, numbers))
    found: list[Map] = []
    for one in drawn:
        maker = _Maker(data, one, layouts, blobs)
        found += [maker.outcomes(), *(maker.numbers(asked, most_bytes) for asked in one.numbers)]
    return found, blobs.texts


@dataclass(frozen=True, slots=True)
class _Asked:
    """A number to be drawn: the series that have it, and its column in them."""

    what: str
    series: tuple[Series, ...]
    column: str
    unit: str
    size: str = ""


@dataclass(frozen=True, slots=True)
class _Drawn:
    """All that is drawn of one rail and mode."""

    rail: int | None
    mode: str
    # With what is told of a whole pair or rail, which is told of each of its modes.
    series: tuple[Series, ...]
    numbers: tuple[_Asked, ...]

    @classmethod
    def of(cls, data: Data, rail: int | None, mode: str) -> _Drawn | None:
        """None when nothing of this rail and mode is in the data."""
        mine = [one for one in data.series if one.rail == rail and one.mode == mode]
        if not mine:
            return None
        whole = [one for one in data.series if one.mode is None and one.rail in (rail, None)]
        return cls(rail, mode, (*mine, *whole), tuple(_asked(mine)))


def _asked(mine: Sequence[Series]) -> Iterator[_Asked]:
    def having(check: str, column: str) -> tuple[Series, ...]:
        return tuple(
            one
            for one in mine
            if one.check == check and any(x is not None for x in one.numbers.get(column, ()))
        )

    if found := having("latency", columns.P50_US):
        yield _Asked(LATENCY, found, columns.P50_US, "us")
    names = {name for one in mine if one.check == "bandwidth" for name in one.numbers}
    sizes = sorted((int(name[5:]) for name in names if name[5:].isdigit()), reverse=True)
    for size in sizes[:1]:
        if found := having("bandwidth", f"gbps_{size}"):
            yield _Asked(BANDWIDTH, found, f"gbps_{size}", "Gb/s", size_text(size))
    if found := having("bandwidth_all_rails", columns.GBPS):
        yield _Asked(ALL_RAILS, found, columns.GBPS, "Gb/s")


class _Maker:
    """Makes the maps of one rail and mode."""

    def __init__(self, data: Data, drawn: _Drawn, layouts: Layouts, blobs: Blobs) -> None:
        self._data, self._drawn, self._blobs = data, drawn, blobs
        self._layout = layouts.draw(drawn.series)
        self._layouts = layouts
        self._ranks = _ranks(data.kinds)

    def outcomes(self) -> Map:
        """The worst outcome of each cell."""
        found = bytes(self._layout.length)
        # Where all goes well, most series have the same outcomes.
        alike = {(one.source, one.sink, one.kinds): one for one in self._drawn.series}
        for series in alike.values():
            for layer in self._layouts.layers(series):
                # The worst has the highest rank, and 0 is none.
                found = worst(found, layer.bytes(self._kinds(series)))
        rail, mode = self._drawn.rail, self._drawn.mode
        return outcome_map(rail, mode, self._layout.blob, found, self._blobs)

    def numbers(self, asked: _Asked, most_bytes: int) -> Map:
        """The numbers of one kind, with the outcome of each one's case, and what was expected."""
        wanted: dict[Wanted, int] = {}
        column: list[float | None] = []
        kinds, expected = bytearray(), bytearray()
        for series in asked.series:
            of_rows = self._kinds(series), self._wanted(series, wanted)
            for layer in self._layouts.layers(series):
                more = layer.numbers(series.numbers[asked.column])
                of_more = [bytearray(layer.bytes(one)) for one in of_rows]
                if not column:
                    column, (kinds, expected) = more, of_more
                    continue
                for at, value in enumerate(more):
                    if column[at] is None and value is not None:
                        column[at], kinds[at], expected[at] = value, of_more[0][at], of_more[1][at]
        made = rounded(column, most_bytes)
        return Map(
            rail=self._drawn.rail,
            mode=self._drawn.mode,
            what=asked.what,
            unit=asked.unit,
            size=asked.size,
            values=tuple(step.value for step in made.steps),
            rounded=made.error,
            exact=tuple(not step.error for step in made.steps) if made.error else (),
            cells=self._layout.blob,
            bytes=self._blobs.add_text(made.text),
            kinds=self._blobs.add(kinds),
            expected=self._blobs.add(expected) if wanted else None,
            wanted=tuple(wanted),
        )

    def _kinds(self, series: Series) -> bytes:
        """The rank of the outcome of each row."""
        return series.kinds.encode("ascii").translate(self._ranks)

    def _wanted(self, series: Series, wanted: dict[Wanted, int]) -> bytes:
        """For each row the number of what was expected, 0 for nothing; new ones are added."""
        rows = len(series.source)
        numbers = series.numbers.get(columns.EXPECTED_GBPS)
        if not numbers:
            return bytes(rows)
        words = series.limited_by or (-1,) * rows
        alike = len(set(numbers)) == len(set(words)) == 1
        told = [(numbers[0], words[0])] if alike else list(zip(numbers, words, strict=True))
        number_of: dict[tuple[float | None, int], int] = {}
        for value, word in dict.fromkeys(told):
            one = value, self._data.words[word] if word >= 0 else ""
            if value is not None and (one in wanted or len(wanted) < MAX_EXPECTED):
                number_of[value, word] = wanted.setdefault(one, len(wanted) + 1)
        found = bytes(number_of.get(one, 0) for one in told)
        return found * rows if alike else found


def outcome_map(rail: int | None, mode: str, cells: int, found: bytes, blobs: Blobs) -> Map:
    """The map of outcomes whose ranks are ``found``, for the cells of the blob ``cells``."""
    return Map(
        rail=rail,
        mode=mode,
        what=OUTCOME,
        unit="",
        size="",
        values=OUTCOMES,
        rounded=0.0,
        exact=(),
        cells=cells,
        bytes=blobs.add(found),
        bad=sum(found.count(OUTCOMES.index(kind) + 1) for kind in BAD),
    )


def worst(one: bytes, other: bytes) -> bytes:
    """The higher byte of each two."""
    if one == other or not any(one):
        return other
    return bytes(map(max, one, other))


def _ranks(kinds: Sequence[str]) -> bytes:
    """From a digit of a series to the rank of its outcome."""
    digits = "".join(map(str, range(len(kinds)))).encode("ascii")
    return bytes.maketrans(digits, bytes(OUTCOMES.index(kind) + 1 for kind in kinds))
