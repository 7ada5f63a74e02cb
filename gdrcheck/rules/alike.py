"""Values that ought to be alike: those of one profile's nodes, and which of them are odd."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gdrcheck import rails
from gdrcheck.facts import Facts, Unreadable
from gdrcheck.findings.model import Where
from gdrcheck.outcome import NotJudged, NotPromised
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail

# So many places of one value are named; the rest is counted.
MAX_LISTED = 8


@dataclass(frozen=True, slots=True)
class Group:
    """The nodes of one profile. ``names``: all in the run; ``facts``: of those that sent theirs.

    ``rails`` are those of each node in ``facts``. All in the run's order.
    """

    profile: Profile
    names: tuple[str, ...]
    facts: Mapping[str, Facts]
    rails: Mapping[str, tuple[Rail, ...]]

    @classmethod
    def of(cls, profile: Profile, names: Sequence[str], facts: Mapping[str, Facts]) -> Group:
        """The group of ``names``, with the facts of those that are in ``facts``."""
        there = {name: facts[name] for name in names if name in facts}
        found = {name: rails.resolve(profile, one) for name, one in there.items()}
        return cls(profile, tuple(names), there, found)

    def require_two(self) -> None:
        """NotPromised for a group of one; NotJudged when fewer than two sent their facts."""
        if len(self.names) < 2:
            raise NotPromised(f"{self.names[0]} is the only node of its profile in this run")
        if len(self.facts) < 2:
            missing = [name for name in self.names if name not in self.facts]
            raise NotJudged(f"too few nodes sent their facts; missing: {listed(missing)}")


@dataclass(slots=True)
class Readings:
    """A value by place, and why others have none (unreadable, not absent)."""

    values: dict[str, tuple[Where, str]] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)

    def add(self, where: Where, value: str | Unreadable) -> None:
        """Take in what was read at ``where``."""
        if isinstance(value, Unreadable):
            self.unreadable.append(f"{where.text()}: {value.unreadable}")
        else:
            self.values[where.text()] = (where, value)

    @property
    def usual(self) -> str | None:
        """The value of more than half of the places; None when there is none."""
        counts = Counter(value for _, value in self.values.values()).most_common(1)
        return counts[0][0] if counts and 2 * counts[0][1] > len(self.values) else None

    @property
    def undecided(self) -> str:
        """Why there is no usual value: a tie, with the numbers, or none that most have."""
        counts = Counter(value for _, value in self.values.values()).most_common()
        most = counts[0][1]
        tied = [value for value, count in counts if count == most]
        if len(tied) > 1:
            return f"a tie: {most} each with {listed(tied)}"
        return f"no value is on more than half: {counts[0][0]} on {most} of {len(self.values)}"

    @property
    def odd(self) -> list[Where]:
        """The places that do not have the usual value, or all when there is none."""
        usual = self.usual
        return [where for where, value in self.values.values() if value != usual]

    def two_apart(self) -> tuple[Where, Where]:
        """The first place, and the first that has another value. Only when not ``alike``."""
        (first, value), *others = self.values.values()
        return first, next(where for where, other in others if other != value)

    @property
    def alike(self) -> bool:
        """Whether all values are the same."""
        return len({value for _, value in self.values.values()}) < 2

    def told(self) -> str:
        """``4096 at node1/a, node2/a; 1024 at node3/a``."""
        by_value: dict[str, list[str]] = {}
        for place, (_, value) in self.values.items():
            by_value.setdefault(value, []).append(place)
        parts = [f"{value} at {listed(places)}" for value, places in by_value.items()]
        more = len(parts) - MAX_LISTED
        return "; ".join(parts[:MAX_LISTED]) + (f"; and {more} more values" if more > 0 else "")

    def require_whole(self) -> None:
        """NotJudged when something could not be read, or fewer than two values are there."""
        if self.unreadable:
            raise NotJudged(f"unreadable at {listed(self.unreadable)}")
        if len(self.values) < 2:
            raise NotJudged("fewer than two places to compare")


def together(values: Mapping[str, str | Unreadable | None]) -> str | Unreadable | None:
    """One value of a node for those of its parts: ``700 W (600 W at gpu3)``.

    None when no part has one; Unreadable when any could not be read.
    """
    places: dict[str, list[str]] = {}
    for name, value in values.items():
        if isinstance(value, Unreadable):
            return Unreadable(unreadable=f"{name}: {value.unreadable}")
        if value is not None:
            places.setdefault(value, []).append(name)
    if not places:
        return None
    most, *others = sorted(places, key=lambda value: (-len(places[value]), value))
    odd = "; ".join(f"{value} at {', '.join(places[value])}" for value in others)
    return f"{most} ({odd})" if odd else most


def listed(names: Sequence[str], most: int = MAX_LISTED) -> str:
    """The first names, at ``most``, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
