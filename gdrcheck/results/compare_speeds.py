"""Which numbers of NEW are worse than those of OLD by more than the noise of both runs. Pure.

How noise is known: pairs of one kind (check, mode, operation, number, profiles of both ends) are
measured in both runs. How far their changes from OLD to NEW lie from each other is the noise of
both runs together; what sets one pair apart in both (its leaf, its slot) is in neither. It is the
median absolute deviation of the logarithms, which a minority of bad pairs cannot move. A change
must exceed ``NOISE_FACTOR`` of these, and never less than a floor: all pairs of a run share what
makes another day another (temperature, clocks, traffic of others). A NEW that scatters far wider
than OLD did does not excuse itself by that: ``_limits``. With fewer than ``FEW`` values nothing is
known of the noise, and only a large difference counts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import median_low

from gdrcheck.results.compare_ends import slower_ends
from gdrcheck.results.compare_model import Slower, SlowerEnd, SlowerKind
from gdrcheck.results.compare_names import Renames
from gdrcheck.results.compare_rows import Ends, Kind, Row, pair_groups
from gdrcheck.results.data import EXPECTED_GBPS, GBPS, P50_US, Data

# With a million numbers, normally distributed, fewer than one would exceed it by chance.
NOISE_FACTOR = 6.0
# The least difference that counts: of rates, and of times, which vary more from day to day.
FLOOR_RATE = 0.05
FLOOR_TIME = 0.10
FEW = 16
FLOOR_FEW = 0.25
# A deviation of few values may be far too small by chance: it is widened by this over their number.
UNSURE = 10
# How many times the limit that OLD's own scatter sets may be exceeded by that of both.
WIDENING = 4.0
# The standard deviation of a normal distribution by its median absolute deviation; and how much
# wider its median varies than its mean.
BY_DEVIATION = 1.4826
OF_MEDIAN = math.sqrt(math.pi / 2)


@dataclass(frozen=True, slots=True)
class Compared:
    """One number in both runs, between ``ends`` in the words of NEW. ``slowdown``: the logarithm
    of how much longer it takes in NEW.
    """

    ends: Ends
    before: Row
    after: Row
    old: float
    new: float
    slowdown: float


@dataclass(slots=True)
class Speeds:
    """What got slower. ``numbers``: how many were compared; ``numbers_gone``: how many of OLD have
    no value in NEW although their case was measured.
    """

    numbers: int = 0
    numbers_gone: int = 0
    slower: list[Slower] = field(default_factory=list)
    ends: list[SlowerEnd] = field(default_factory=list)
    kinds: list[SlowerKind] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Limits:
    """What of one kind is put down to chance, as logarithms: for one number, and one deviation."""

    one: float
    noise: float
    floor: float

    def middle(self, count: int) -> float:
        """For the median of ``count`` numbers: it varies less, by the root of their number."""
        return max(self.floor, NOISE_FACTOR * OF_MEDIAN * self.noise / math.sqrt(count))


def compare_speeds(old: Data, new: Data, names: Renames) -> Speeds:
    """Every number that both runs measured between the same ends, one kind after the other.

    Judged are the median of a latency and every bandwidth: tails and extremes are told, but chance
    makes them.
    """
    found = Speeds()
    for kind, before, after in pair_groups(old, new, names):
        by_profiles: defaultdict[tuple[str, Ends], list[Compared]] = defaultdict(list)
        for ends, row in after.items():
            if ends in before:
                for number, compared in _both(ends, before[ends], row, found):
                    by_profiles[number, row.profiles].append(compared)
        for (number, profiles), values in by_profiles.items():
            found.numbers += len(values)
            _judge(found, kind, number, profiles, values)
    return found


@cache
def is_judged(number: str) -> bool:
    """Whether a column of the data is a number whose growth or fall means something."""
    return number == P50_US or (number.startswith(GBPS) and number != EXPECTED_GBPS)


def _both(ends: Ends, before: Row, after: Row, found: Speeds) -> list[tuple[str, Compared]]:
    told = []
    for number in filter(is_judged, before.series.numbers):
        was, new = before.value(number), after.value(number)
        if was is None:
            continue
        if new is None:
            found.numbers_gone += after.is_measured
            continue
        slowdown = math.log(new) - math.log(was)
        if number != P50_US:
            slowdown = -slowdown
        told.append((number, Compared(ends, before, after, was, new, slowdown)))
    return told


def _judge(
    found: Speeds, kind: Kind, number: str, profiles: Ends, values: Sequence[Compared]
) -> None:
    limits = _limits(number, values)
    middle = 0.0
    if limits is not None:
        middle = _judge_kind(found, kind, number, profiles, values, limits)
        found.ends += slower_ends(
            kind,
            number,
            ((one.ends, one.slowdown - middle) for one in values),
            limits.middle,
        )
    limit = math.log1p(FLOOR_FEW) if limits is None else limits.one
    found.slower += [
        Slower(
            case=one.after.id,
            old_case=one.before.id if one.before.id != one.after.id else None,
            number=number,
            old=one.old,
            new=one.new,
            slower_share=share(one.slowdown),
            limit_share=share(limit),
            noise_share=None if limits is None else share(limits.noise),
        )
        for one in values
        if one.slowdown - middle > limit
    ]


def _limits(number: str, values: Sequence[Compared]) -> _Limits | None:
    """None when there are too few values to know their noise.

    Where much of NEW got slower by different amounts, that looks like noise; OLD, which has none of
    it, tells how much there can be.
    """
    if len(values) < FEW:
        return None
    floor = math.log1p(FLOOR_TIME if number == P50_US else FLOOR_RATE)
    of_old = math.sqrt(2) * _deviation([math.log(one.old) for one in values])
    most = max(math.log1p(FLOOR_FEW) / NOISE_FACTOR, WIDENING * of_old)
    unsure = 1 + UNSURE / len(values)
    noise = min(unsure * _deviation([one.slowdown for one in values]), most)
    return _Limits(max(floor, NOISE_FACTOR * noise), noise, floor)


def _judge_kind(
    found: Speeds,
    kind: Kind,
    number: str,
    profiles: Ends,
    values: Sequence[Compared],
    limits: _Limits,
) -> float:
    """How much all lost together when that is told, else 0: what a pair or an end loses is then
    what it lost more than the others.
    """
    limit = limits.middle(len(values))
    middle = median_low([one.slowdown for one in values])
    if middle <= limit:
        return 0.0
    found.kinds.append(
        SlowerKind(
            check=kind.check,
            mode=kind.mode,
            operation=kind.operation,
            number=number,
            profiles=profiles,
            pairs=len(values),
            slower_share=share(middle),
            limit_share=share(limit),
        )
    )
    return middle


def _deviation(values: Sequence[float]) -> float:
    """The standard deviation as the middle half of the values tells it. By low medians: of exactly
    half good and half bad values it is that of one half, not the distance of the two.
    """
    middle = median_low(values)
    return BY_DEVIATION * median_low([abs(value - middle) for value in values])


def share(logarithm: float) -> float:
    """The logarithm of a ratio as what it is more than one: 0.25 for 5 instead of 4."""
    return round(math.expm1(logarithm), 4)
