"""What tests of the program of a pair share: two nodes of which one serves, and its cells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gdrcheck.pairing.pairs import RailPair
from gdrcheck.pairing.plan import ProgramPlan
from gdrcheck.pairing.program import PairProgram
from gdrcheck.pairing.table import Cell, CellKey, RailTable
from gdrcheck.transfer import MODES, OPERATIONS
from tests.pairing.fleet import Fleet, one_pair, small

ALL = small(modes=MODES, operations=OPERATIONS)
# Host and GPU memory with one operation: for what happens in between.
BOTH = small(modes=("host-host", "gpu-gpu"), operations=("SEND",))
NODES = ("node1", "node2")


@contextmanager
def measured(fleet: Fleet, plan: ProgramPlan) -> Iterator[PairProgram]:
    """The program of node1 while node2 serves; both take leave of each other at the end."""
    with fleet.serve("node2"), fleet.walk("node1", plan) as walk:
        yield walk.program(one_pair(walk))
        walk.finish()


def blocked(table: RailTable) -> dict[CellKey, str]:
    return {key: cell.blocked_by for key, cell in table.cells.items() if cell.blocked_by}


def failures(table: RailTable) -> dict[CellKey, Cell]:
    return {key: cell for key, cell in table.cells.items() if not cell.passed}


def rail_of(program: PairProgram, number: int = 0) -> RailPair:
    return program.correctness()[number].rail
