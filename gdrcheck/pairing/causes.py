"""Findings of which several cells tell: one cell holds it, the others are blocked by it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

from gdrcheck import gates
from gdrcheck.findings.model import Finding
from gdrcheck.pairing import evidence
from gdrcheck.pairing.settled import Settled, with_evidence
from gdrcheck.pairing.table import CellKey, RailTable
from gdrcheck.transfer import DIRECTIONS, MODES, Direction, Mode, Operation

Cells = Mapping[CellKey, Settled]


@dataclass(slots=True)
class Cause:
    """``finding`` is reported by the case of ``holder``; those of ``others`` are blocked by it."""

    holder: Settled
    finding: Finding
    others: list[Settled]

    @property
    def name(self) -> str:
        """``CODE at place``."""
        return gates.named(self.finding)

    @property
    def members(self) -> tuple[Settled, ...]:
        """All cells that tell of it."""
        return (self.holder, *self.others)

    @property
    def operations(self) -> frozenset[Operation]:
        """The operations of its cells."""
        return frozenset(cell.key.operation for cell in self.members)


def cause_of(
    table: RailTable,
    cells: Cells,
    members: Iterable[Settled],
    finding: Finding | None = None,
    modes: Iterable[Mode] = MODES,
    directions: Iterable[Direction] = DIRECTIONS,
) -> Cause:
    """The cause of ``members``, held by the first; ``finding`` in place of that one's own.

    ``modes`` and ``directions`` are those whose cells are its evidence.
    """
    holder, *others = members
    return Cause(
        holder,
        with_evidence(finding or holder.wrong, _score(table, cells, modes, directions)),
        others,
    )


def grouped(
    members: Iterable[Settled], key: Callable[[Settled], Hashable]
) -> dict[Hashable, list[Settled]]:
    """``members`` by what ``key`` gives for each."""
    found: dict[Hashable, list[Settled]] = {}
    for cell in members:
        found.setdefault(key(cell), []).append(cell)
    return found


def _score(
    table: RailTable, cells: Cells, modes: Iterable[Mode], directions: Iterable[Direction]
) -> dict[str, str]:
    """Which operations failed, passed, and changed between two tries, for each way of the data."""
    wanted = set(modes)
    told = {}
    for direction in directions:
        way = f"{table.rail.source(direction).node} -> {table.rail.sink(direction).node}"
        for state, word in (("failed", "failed"), ("passed", "passed"), ("unstable", "changed")):
            found = [
                (key.mode, key.operation)
                for key, cell in cells.items()
                if key.direction == direction and key.mode in wanted and cell.state == state
            ]
            if found:
                told[f"{word}, {way}"] = evidence.listed(found)
    return told
