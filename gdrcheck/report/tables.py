"""Tables of the page: versions with the odd ones, and bandwidth by size. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from gdrcheck.results.data import EXPECTED_GBPS, Data
from gdrcheck.results.folding import fold
from gdrcheck.sizes import size_text

NONE = "none"


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One thing that has a version: the value that most nodes have, and the nodes that differ.

    ``tied``: as many nodes have another value, so that none of them is the usual one.
    """

    name: str
    usual: str
    count: int
    tied: bool
    odd: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Speed:
    """The rates of one size over all pairs of a mode, in Gb/s (bits)."""

    size: str
    count: int
    least: float
    middle: float
    most: float


@dataclass(frozen=True, slots=True)
class Chart:
    """Bandwidth by size of one mode; ``expected`` are the least and the most that was expected."""

    mode: str
    speeds: tuple[Speed, ...]
    expected: tuple[float, float] | None
    limited_by: tuple[str, ...]

    @property
    def top(self) -> float:
        """The upper end of the axis."""
        most = max(one.most for one in self.speeds)
        return max(most, self.expected[1] if self.expected else 0.0) * 1.05 or 1.0

    @property
    def ticks(self) -> tuple[float, ...]:
        """Round numbers from 0 to ``top``, at most six."""
        power = 10.0 ** math.floor(math.log10(self.top))
        step = next(power * part for part in (0.2, 0.5, 1, 2) if power * part * 5 >= self.top)
        return tuple(step * number for number in range(int(self.top / step) + 1))


def versions(data: Data) -> list[VersionRow]:
    """One row for each name; those in which nodes differ come first."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    names = dict.fromkeys(name for node in data.nodes for name in node.versions)
    told = [node for node in data.nodes if node.versions]
    for name in names:
        for node in told:
            found[name][node.versions.get(name, NONE)].append(node.name)
    rows = [_row(name, values) for name, values in found.items()]
    return sorted(rows, key=lambda row: not row.odd)


def _row(name: str, values: dict[str, list[str]]) -> VersionRow:
    ordered = sorted(values, key=lambda value: -len(values[value]))
    usual, *others = ordered
    return VersionRow(
        name=name,
        usual=usual,
        count=len(values[usual]),
        tied=bool(others) and len(values[others[0]]) == len(values[usual]),
        odd=tuple((value, tuple(fold(values[value]))) for value in others),
    )


def charts(data: Data) -> list[Chart]:
    """One for each mode whose bandwidth was measured."""
    modes = dict.fromkeys(one.mode for one in data.series if one.check == "bandwidth" and one.mode)
    modes |= dict.fromkeys(
        case.mode for block in data.blocks for case in block.cases if case.check == "bandwidth"
    )
    return [chart for mode in modes if (chart := _chart(data, mode)) is not None]


def _chart(data: Data, mode: str) -> Chart | None:
    mine = [one for one in data.series if one.check == "bandwidth" and one.mode == mode]
    # Of a million rates few differ.
    rates: dict[int, Counter[float]] = defaultdict(Counter)
    expected: set[float] = set()
    words: dict[str, None] = {}
    for series in mine:
        for name, column in series.numbers.items():
            if name == EXPECTED_GBPS:
                expected |= {value for value in column if value is not None}
            elif name[5:].isdigit():
                rates[int(name[5:])].update(value for value in column if value is not None)
        words |= dict.fromkeys(data.words[one] for one in set(series.limited_by) if one >= 0)
    if data.blocks:
        _add_blocks(data, mode, rates, expected, words)
    if not any(rates.values()):
        return None
    limits = (min(expected), max(expected)) if expected else None
    return Chart(mode, tuple(_speeds(rates)), limits, tuple(words)[:5])


def _add_blocks(
    data: Data,
    mode: str,
    rates: dict[int, Counter[float]],
    expected: set[float],
    words: dict[str, None],
) -> None:
    """Add what the blocks of a wide run hold. Sizes of which they tell nothing go: what series have
    of them is of the bad cases alone.
    """
    sizes = set()
    for block in data.blocks:
        mine = {
            number
            for number, case in enumerate(block.cases)
            if (case.check, case.mode) == ("bandwidth", mode)
        }
        rows = len(block.outcome.numbers())
        for one in block.numbers:
            if one.case in mine and one.name[5:].isdigit():
                sizes.add(size := int(one.name[5:]))
                counts = Counter(block.codes(one, rows))
                rates[size].update(
                    {value: counts[code] for code, value in enumerate(one.values, start=1)}
                )
        for number in {text[case] for text in block.wanted for case in mine} - {-1}:
            expected.add(data.expectations[number].gbps)
            if text := data.expectations[number].limited_by:
                words[text] = None
    for size in rates.keys() - sizes:
        del rates[size]


def _speeds(rates: dict[int, Counter[float]]) -> Iterator[Speed]:
    for size, found in sorted(rates.items()):
        if found:
            count = found.total()
            yield Speed(size_text(size), count, min(found), _middle(found), max(found))


def _middle(found: Counter[float]) -> float:
    """The median of what was counted."""
    last = found.total() - 1
    middles = [last // 2, (last + 1) // 2]
    values: list[float] = []
    seen = 0
    for value in sorted(found):
        seen += found[value]
        values += [value for middle in middles[len(values) :] if middle < seen]
    return sum(values) / len(values)
