"""The cases of the pairs that a node owns, in the order in which they are measured. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from gdrcheck.findings.model import Where
from gdrcheck.pairing.items import Item, items
from gdrcheck.pairing.pairs import OwnedPair, RailEnd, RailPair
from gdrcheck.pairing.plan import pair_s
from gdrcheck.pairing.table import CellKey
from gdrcheck.run import RunSpec
from gdrcheck.transfer import Direction, Mode, Operation

# First the data of all rails, then the numbers of one rail after the other, then of all at once.
STAGES: tuple[tuple[str, ...], ...] = (
    ("pingpong",),
    ("pingpong_far",),
    (
        *("latency", "bandwidth", "bandwidth_both_ways", "staged_against_direct"),
        *("perftest_bandwidth", "perftest_latency"),
    ),
    ("bandwidth_all_rails",),
    ("rdma_cm",),
)


@dataclass(frozen=True, slots=True)
class PairCase:
    """What a rail of a pair owes, in one direction. ``order``: its place in the walk."""

    pair: OwnedPair
    rail: RailPair
    item: Item
    direction: Direction
    order: tuple[int, ...]

    @property
    def source(self) -> RailEnd:
        """The end that the data comes from."""
        return self.rail.source(self.direction)

    @property
    def sink(self) -> RailEnd:
        """The end that the data goes to."""
        return self.rail.sink(self.direction)

    @property
    def reversed(self) -> PairCase:
        """The same for the data that goes the other way."""
        return replace(self, direction="in" if self.direction == "out" else "out")

    @property
    def where(self) -> Where:
        """The source's end, with the other node as the peer."""
        return self.source.where.model_copy(update={"peer": self.sink.node})

    @property
    def name(self) -> str:
        """The whole name: ``latency[node1/rxe0 -> node2/rxe0, host-host, SEND]``."""
        return self.item.id(self.source.where.text(), self.sink.where.text())

    @property
    def id(self) -> str:
        """What stands in the brackets of the name; the arrow is the way of the data."""
        return self.name.partition("[")[2].removesuffix("]")

    @property
    def mode(self) -> Mode:
        """The memories of both ends; not for rdma_cm, which has its own."""
        return cast(Mode, self.item.mode)

    @property
    def cell(self) -> CellKey:
        """Its place in the rail's table; not for rdma_cm."""
        return CellKey(self.mode, cast(Operation, self.item.operation), self.direction)


def pair_cases(run: RunSpec, node: str, pairs: Sequence[OwnedPair]) -> tuple[PairCase, ...]:
    """Every case of the pairs that ``node`` initiates, in the order of the walk."""
    found = [case for pair in pairs for case in _of_pair(run, node, pair)]
    return tuple(sorted(found, key=lambda case: case.order))


def _of_pair(run: RunSpec, node: str, pair: OwnedPair) -> Iterator[PairCase]:
    profiles = run.profile_of(node), run.profile_of(pair.peer)
    for rail in pair.rails:
        for number, item in enumerate(items(*profiles, gpus=rail.has_gpus)):
            stage = next(at for at, checks in enumerate(STAGES) if item.check in checks)
            for at, direction in enumerate(item.directions):
                order = (pair.round, stage, rail.rail_id, number, at)
                yield PairCase(pair, rail, item, direction, order)


def count_cases(run: RunSpec, node: str, pair: OwnedPair) -> int:
    """How many cases a pair has that ``node`` initiates."""
    profiles = run.profile_of(node), run.profile_of(pair.peer)
    cases = {
        gpus: sum(len(item.directions) for item in items(*profiles, gpus=gpus))
        for gpus in {rail.has_gpus for rail in pair.rails}
    }
    return sum(cases[rail.has_gpus] for rail in pair.rails)


def plan_text(run: RunSpec, node: str, pairs: Sequence[OwnedPair]) -> str:
    """How long each of these pairs is planned to take, in words; empty without any."""
    return ", ".join(
        f"{pair.peer} {_planned_s(run, node, pair):.0f} s" for pair in pairs if pair.rails
    )


def _planned_s(run: RunSpec, node: str, pair: OwnedPair) -> float:
    """Rails that are blocked take no time."""
    able = [rail for rail in pair.rails if rail.blocked_by is None]
    gpus = [rail for rail in able if rail.has_gpus and rail.gpu_blocked_by is None]
    return pair_s(run.profile_of(node), run.profile_of(pair.peer), len(able), len(gpus))
