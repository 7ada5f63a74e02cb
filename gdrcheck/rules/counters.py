"""What is judged of a port's error counters, before the transfers against after them.

``counter_limits`` says which, and how much growth is too much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gdrcheck import gates
from gdrcheck.facts import CountersAfter
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import NotJudged, ProbeError
from gdrcheck.rails import Rail
from gdrcheck.rules.counter_limits import (
    JUDGED,
    LIMITS,
    LINK_DOWNED,
    MUST_STAND,
    TRAFFIC,
    TRAFFIC_END,
    end_of,
    gigabytes,
    growth,
)

# Of counters in PortCounters; perfquery(8) sets them back to 0.
REMEDY = "clear the port's counters (perfquery -C DEVICE -P PORT -R) and run again"


@dataclass(frozen=True, slots=True)
class Counted:
    """The counters of the port at ``where``, before the transfers and after them.

    ``unreadable`` are those that could not be read at one of the two times, with the reason.
    """

    where: Where
    before: Mapping[str, int]
    after: Mapping[str, int]
    unreadable: Mapping[str, str]

    @property
    def grown(self) -> dict[str, int]:
        """By how much each counter grew, by name; those that did not are left out."""
        moved = {name: self._growth(name) for name in sorted(self.after) if name in self.before}
        return {name: value for name, value in moved.items() if value}

    @property
    def transferred_bytes(self) -> int | None:
        """What the port sent and received in between; None when its counters do not tell."""
        for pair in TRAFFIC:
            if all(name in self.before and name in self.after for name in pair):
                return self._sum(pair)
        return None

    @property
    def counts_traffic(self) -> bool:
        """Whether the port has counters of what it sends and receives."""
        return any(self._tells(name) for pair in TRAFFIC for name in pair)

    @property
    def counts_link_downed(self) -> bool:
        """Whether the device has that counter; if not, nobody can say that no link was lost."""
        return self._tells(LINK_DOWNED)

    def _tells(self, name: str) -> bool:
        return name in self.before or name in self.after or name in self.unreadable

    def _growth(self, name: str) -> int | None:
        return growth(name, self.before[name], self.after[name])

    def _sum(self, pair: Mapping[str, int]) -> int | None:
        total = 0
        for name, size_bytes in pair.items():
            moved = self._growth(name)
            if moved is None or self.after[name] == TRAFFIC_END:
                return None
            total += moved * size_bytes
        return total


def counted(rail: Rail, after: CountersAfter) -> Counted:
    """The counters of the port that serves ``rail``: those of its facts, and ``after``.

    ProbeError when they could not be read, before or after.
    """
    port = gates.port_of(rail)
    before = gates.readable(port.counters, rail.where, "counters before the transfers")
    what = "counters after the transfers"
    for found in gates.readable(after.ports, rail.where, what):
        if (found.device, found.port) == (rail.nic, port.number):
            values = gates.readable(found.counters, rail.where, what)
            unreadable = {**port.unreadable_counters, **found.unreadable_counters}
            return Counted(rail.where, before, values, unreadable)
    raise ProbeError(
        f"{rail.where.text()}: sysfs shows no port {port.number} any more", step="read counters"
    )


def port_errors(counted: Counted) -> Finding | None:
    """PORT-LINK-DOWNED, PORT-ERRORS-GREW or PORT-ERROR-RATE, the first that applies.

    One finding, since a link that goes down grows the other counters too; they are its evidence.
    ProbeError when one that the port has cannot tell whether it grew: it could not be read, was
    reset during the run, was there at one of the two times only, or, for ``link_downed``, was at
    its end before. NotJudged when another was at its end before, and when the port has none that
    is judged, or none to hold errors against. Of a device that does not count lost links the others
    are judged all the same.
    """
    finding = _link_downed(counted) or _grew(counted) or _rate(counted)
    if finding is not None:
        return finding
    failed = [*_failed(counted), *_without_traffic(counted, counts_traffic=True)]
    if failed:
        raise ProbeError(f"{counted.where.text()}: {'; '.join(failed)}", step="compare counters")
    doubts = [*_doubts(counted), *_without_traffic(counted, counts_traffic=False)]
    if doubts:
        raise NotJudged("; ".join(doubts))
    return None


def _link_downed(counted: Counted) -> Finding | None:
    if LINK_DOWNED not in counted.grown:
        return None
    before, after = counted.before[LINK_DOWNED], counted.after[LINK_DOWNED]
    return _finding(
        "PORT-LINK-DOWNED",
        counted,
        observed=f"{LINK_DOWNED} {before} -> {after}",
        expected=f"{LINK_DOWNED} stays {before}",
    )


def _grew(counted: Counted) -> Finding | None:
    names = [name for name in MUST_STAND if name in counted.grown]
    if not names:
        return None
    moves = (f"{name} {counted.before[name]} -> {counted.after[name]}" for name in names)
    return _finding(
        "PORT-ERRORS-GREW", counted, observed=", ".join(moves), expected="no growth of any of them"
    )


def _rate(counted: Counted) -> Finding | None:
    grown, transferred_bytes = counted.grown, counted.transferred_bytes
    if transferred_bytes is None:
        return None
    names = [
        name
        for name, limit in LIMITS.items()
        if name in grown and limit.exceeded(grown[name], transferred_bytes)
    ]
    if not names:
        return None
    counts = ", ".join(f"{name} +{grown[name]}" for name in names)
    return _finding(
        "PORT-ERROR-RATE",
        counted,
        observed=f"{counts} in {gigabytes(transferred_bytes)}",
        expected=", ".join(f"{name} {LIMITS[name].text()}" for name in names),
    )


def _finding(code: str, counted: Counted, *, observed: str, expected: str) -> Finding:
    grown = ", ".join(f"{name} +{value}" for name, value in counted.grown.items())
    return Finding(
        code=code,
        where=counted.where,
        observed=observed,
        expected=expected,
        evidence={"grown since the facts were read": grown},
    )


def _failed(counted: Counted) -> Iterator[str]:
    """Why counters that the port has do not tell whether they grew."""
    before, after, unreadable = counted.before, counted.after, counted.unreadable
    for name in JUDGED:
        if name in unreadable:
            yield f"{name} is unreadable: {unreadable[name]}"
        elif name in before and name not in after:
            yield f"{name} is gone after the transfers"
        elif name in after and name not in before:
            yield f"{name} was not there before the transfers"
    for name in (*JUDGED, *(name for pair in TRAFFIC for name in pair)):
        if name in before and name in after and growth(name, before[name], after[name]) is None:
            yield f"{name} was reset during the run: {before[name]} -> {after[name]}"
    if _stands_at_end(LINK_DOWNED, counted):
        yield f"{LINK_DOWNED} stands at its end, {after[LINK_DOWNED]}: {REMEDY}"


def _doubts(counted: Counted) -> Iterator[str]:
    """Why counters that showed no error cannot be taken for ones that stood still."""
    names = [name for name in JUDGED if name in counted.before]
    if not names:
        yield "the port has none of the counters that are judged"
    for name in names:
        if _stands_at_end(name, counted):
            yield f"{name} stands at its end, {counted.after[name]}, since before the run: {REMEDY}"


def _without_traffic(counted: Counted, *, counts_traffic: bool) -> Iterator[str]:
    """Errors that nothing tells whether they are too many.

    ``counts_traffic``: of a port that has counters of traffic, or of one that has none.
    """
    if counted.transferred_bytes is not None or counted.counts_traffic is not counts_traffic:
        return
    for name, count in counted.grown.items():
        if name in LIMITS and count >= LIMITS[name].least:
            yield f"{name} +{count}, but no counter tells how much was transferred"


def _stands_at_end(name: str, counted: Counted) -> bool:
    end = end_of(name)
    return end is not None and counted.before.get(name) == counted.after.get(name) == end
