"""The cases of the pair phase, and how one of them is measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, PeerError, ProbeError
from gdrcheck.pairing.channel import EndFailure
from gdrcheck.pairing.judge import judge, judge_connection, unstable
from gdrcheck.pairing.pairs import Direction, ExchangeResult, OwnedPair, RailPair
from gdrcheck.verbs.protocol import OPERATIONS, ExchangePlan, Operation

DIRECTIONS: tuple[Direction, ...] = ("out", "in")
# Around the borders at which implementations differ: words, cache lines, path MTUs, pages.
SIZES_BYTES = (
    1, 2, 7, 8, 63, 64, 65, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097,
    65535, 65536, 65537, 1048575, 1048576,
)  # fmt: skip
# Three, since the messages start at bytes 0, 1 and 63 of a cache line in turn.
ITERATIONS = 3
# Seen once is enough: a repetition that is right does not make the first data right.
CERTAIN = frozenset({"PAIR-DATA-CORRUPT", "PAIR-GUARD-BROKEN"})
# A port that is at fault all by itself fails one case of its rail and blocks the others.
OF_A_PORT = frozenset({"PORT-NOT-ACTIVE", "PAIR-MTU"})


class Walk(Protocol):
    """What a case needs of ``walk.PairWalk``."""

    def exchange(
        self,
        pair: OwnedPair,
        rail: RailPair,
        operation: Operation,
        direction: Direction,
        plan: ExchangePlan,
    ) -> ExchangeResult: ...


@dataclass(frozen=True, slots=True)
class ExchangeCase:
    """One exchange: rail pair, operation, and which way the data goes."""

    pair: OwnedPair
    rail: RailPair
    operation: Operation
    direction: Direction

    @property
    def where(self) -> Where:
        """The source's end, with the other node as the peer."""
        source = self.rail.source(self.direction)
        peer = self.rail.sink(self.direction).node
        return source.where.model_copy(update={"peer": peer})

    @property
    def id(self) -> str:
        """``node1/rxe0 -> node2/rxe0, host-host, SEND``; the arrow is the way of the data."""
        source = self.rail.source(self.direction).where.text()
        sink = self.rail.sink(self.direction).where.text()
        return f"{source} -> {sink}, host-host, {self.operation}"


def exchange_cases(pairs: Iterable[OwnedPair]) -> tuple[ExchangeCase, ...]:
    """Every rail, operation and direction of ``pairs``, in the order of the rounds."""
    return tuple(
        ExchangeCase(pair, rail, operation, direction)
        for pair in pairs
        for rail in pair.rails
        for operation in OPERATIONS
        for direction in DIRECTIONS
    )


class Measurement:
    """Measures cases one after the other, and remembers ports that cannot be used."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._unusable: dict[tuple[str, str | None], Finding] = {}
        self.last: ExchangeResult | None = None

    def finding(self, case: ExchangeCase, plan: ExchangePlan) -> Finding | None:
        """What is wrong with the exchange; None when every byte was right.

        A finding is measured again alone: when the repetition is right, the finding is
        PAIR-UNSTABLE, but wrong data stays wrong data, whichever of the two met it. A repetition
        that cannot be measured takes nothing from the first. Blocked by a port of this rail that
        an earlier case found unusable; PeerError or ProbeError when the exchange could not be
        measured.
        """
        self.last = None
        for end in (case.rail.local, case.rail.remote):
            if cause := self._unusable.get((end.node, end.nic)):
                raise Blocked(f"{cause.code} at {cause.where.text()}")
        first = self._measure(case, plan)
        if first is None:
            return None
        if first.code in OF_A_PORT and first.where.peer is None:
            self._unusable[first.where.node, first.where.nic] = first
            return first
        try:
            again = self._measure(case, plan)
        except (PeerError, ProbeError) as error:
            return _with(first, repetition=f"not measured: {error}")
        if first.code in CERTAIN:
            return _with(first, repetition=again.text() if again else "right")
        if again is None:
            return unstable(first, case.where)
        if again.code in CERTAIN:
            return _with(again, **{"first finding": first.text()})
        return first

    def _measure(self, case: ExchangeCase, plan: ExchangePlan) -> Finding | None:
        try:
            result = self._walk.exchange(case.pair, case.rail, case.operation, case.direction, plan)
        except EndFailure as failure:
            finding = judge_connection(failure, case.rail)
            if finding is None:
                raise
            return finding
        self.last = result
        return judge(result, case.rail)


def _with(finding: Finding, **evidence: str) -> Finding:
    return finding.model_copy(update={"evidence": {**finding.evidence, **evidence}})
