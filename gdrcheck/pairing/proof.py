"""The proof of the data: every exchange of every rail of a pair, suspects twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from gdrcheck.pairing import truth
from gdrcheck.pairing.course import Course, slow
from gdrcheck.pairing.items import Item
from gdrcheck.pairing.pairs import RailPair
from gdrcheck.pairing.plan import ProgramPlan
from gdrcheck.pairing.side_by_side import side_by_side
from gdrcheck.pairing.table import Cell, CellKey, RailTable
from gdrcheck.transfer import (
    ATOMIC_BYTES,
    ATOMICS,
    Direction,
    Mode,
    Operation,
    Variant,
    has_gpu,
    variants,
)
from gdrcheck.verbs import protocol

OnCell = Callable[[RailPair, CellKey, Cell], None]
Group = tuple[Mode, Direction]
# After so many slow failures of a mode in a direction its other operations are not tried: each of
# them would take as long, and tell no more.
SLOW_LIMIT = 2
PASSES = 2
NO_METHOD = "no method by which GPU memory of both ends registers"


class Proof:
    """Fills the tables of ``courses``: host memory of all rails, then GPU memory.

    In each stage the rails go side by side, then the suspects are measured again, each alone. What
    stands on a stage, or on failures that take long, is blocked by what was found.
    """

    def __init__(
        self,
        courses: Mapping[int, Course],
        plan: ProgramPlan,
        on_cell: OnCell | None,
        cancel: Callable[[], None],
    ) -> None:
        self._courses = courses
        self._plan = plan
        self._on_cell = on_cell
        self._cancel = cancel
        self._cells: dict[int, dict[CellKey, Cell]] = {number: {} for number in courses}
        self._stopped = threading.Event()

    def tables(self) -> Mapping[int, RailTable]:
        """The tables by rail, every cell in them."""
        for gpu in (False, True):
            self._stage(gpu=gpu)
        return {number: self._table(number) for number in self._courses}

    def _stage(self, *, gpu: bool) -> None:
        owed: dict[int, list[CellKey]] = {}
        for number, course in self._courses.items():
            keys = self._keys(course.pair, gpu=gpu)
            blocker = self._blocker(number, gpu=gpu)
            if blocker is None:
                owed[number] = keys
            else:
                self._block(number, keys, blocker)
        for _ in range(PASSES):
            side_by_side(
                {number: partial(self._measure, number, keys) for number, keys in owed.items()},
                self._cancel_all,
            )
            for number in owed:
                self._repeat(number)
            owed = {
                number: left for number, keys in owed.items() if (left := self._left(number, keys))
            }
        for number, keys in owed.items():
            self._block_rest(number, keys, frozenset(map(_group, keys)))

    def _measure(self, number: int, keys: Iterable[CellKey]) -> None:
        """The exchanges of one rail, but for those that failures before them make hopeless."""
        failed: Counter[Group] = Counter()
        for key in keys:
            if failed[_group(key)] >= SLOW_LIMIT:
                continue
            if self._stopped.is_set():
                return
            cell = self._cell(number, key)
            self._put(number, key, cell)
            failed[_group(key)] += slow(cell)

    def _repeat(self, number: int) -> None:
        """Measure the suspects of one rail again, while no other rail is measured."""
        suspects = truth.suspects(self._table(number))
        if suspects:
            self._courses[number].retry_gpus()
        hopeless: set[Group] = set()
        for key in suspects:
            if _group(key) not in hopeless:
                again = self._cell(number, key)
                self._put(number, key, replace(self._cells[number][key], repeat=again))
                if slow(again):
                    hopeless.add(_group(key))

    def _left(self, number: int, keys: Sequence[CellKey]) -> list[CellKey]:
        """What was given up and is worth a second try: all failures there were right alone.

        The rest of it is blocked.
        """
        cells = self._cells[number]
        certain = frozenset(_group(key) for key, cell in cells.items() if not _right_once(cell))
        left = [key for key in keys if key not in cells]
        self._block_rest(number, left, certain)
        return [key for key in left if _group(key) not in certain]

    def _block_rest(self, number: int, keys: Iterable[CellKey], groups: frozenset[Group]) -> None:
        """Those of ``keys`` in ``groups`` are blocked by what the first failure there is."""
        rest = [key for key in keys if _group(key) in groups]
        rulings = truth.judge(self._table(number)) if rest else {}
        for key in rest:
            first = next(
                other
                for other, cell in self._cells[number].items()
                if _group(other) == _group(key) and not cell.passed
            )
            reason = blocker_text(self._courses[number].pair, first, rulings[first])
            self._block(number, [key], reason)

    def _blocker(self, number: int, *, gpu: bool) -> str | None:
        """Why no exchange of the stage is worth trying on a rail, None if it is."""
        pair = self._courses[number].pair
        if pair.blocked_by is not None or not gpu:
            return pair.blocked_by
        if pair.gpu_blocked_by is not None:
            return pair.gpu_blocked_by
        table = self._table(number)
        if (finding := truth.host_failure(table)) is not None:
            return f"{finding.code} at {finding.where.text()}"
        host = [(key, cell) for key, cell in table.of_mode("host-host")]
        if not host or any(_right_once(cell) for _, cell in host):
            return None
        first = host[0][0]
        return blocker_text(pair, first, truth.judge(table)[first])

    def _keys(self, pair: RailPair, *, gpu: bool) -> list[CellKey]:
        return [
            CellKey(mode, operation, direction)
            for mode in self._plan.modes
            if has_gpu(mode) == gpu and (pair.has_gpus or not gpu)
            for operation in self._plan.operations
            for direction in self._plan.directions
        ]

    def _cell(self, number: int, key: CellKey) -> Cell:
        course = self._courses[number]
        ways = ways_of(course.pair, key.mode, key.direction)
        if not ways:
            return Cell(blocked_by=NO_METHOD)
        return course.cell(key, partial(exchange_plan, self._plan, key.operation, ways))

    def _put(self, number: int, key: CellKey, cell: Cell) -> None:
        self._cells[number][key] = cell
        if self._on_cell is not None:
            self._on_cell(self._courses[number].pair, key, cell)

    def _block(self, number: int, keys: Iterable[CellKey], reason: str) -> None:
        for key in keys:
            self._put(number, key, Cell(blocked_by=reason))

    def _table(self, number: int) -> RailTable:
        """What is known so far, in the order of the plan."""
        pair, cells = self._courses[number].pair, self._cells[number]
        order = [*self._keys(pair, gpu=False), *self._keys(pair, gpu=True)]
        return RailTable(pair, {key: cells[key] for key in order if key in cells})

    def _cancel_all(self) -> None:
        self._stopped.set()
        self._cancel()


def exchange_plan(
    plan: ProgramPlan, operation: Operation, ways: tuple[Variant, ...], path_mtu: int
) -> protocol.ExchangePlan:
    """The messages by which an operation is proven; atomic ones move eight bytes."""
    sizes = (ATOMIC_BYTES,) if operation in ATOMICS else plan.sizes(path_mtu)
    return protocol.ExchangePlan(sizes_bytes=sizes, iterations=plan.iterations, variants=ways)


def ways_of(pair: RailPair, mode: Mode, direction: Direction) -> tuple[Variant, ...]:
    """Every way to register the memories of a mode; empty when an end has no method."""
    return variants(mode, pair.source(direction).methods, pair.sink(direction).methods)


def blocker_text(pair: RailPair, key: CellKey, ruling: truth.Ruling) -> str:
    """What blocks what stands on a cell that did not pass: its finding, or the name of its case."""
    if ruling.finding is not None:
        return f"{ruling.finding.code} at {ruling.finding.where.text()}"
    if ruling.blocked_by is not None:
        return ruling.blocked_by
    source, sink = pair.source(key.direction).where, pair.sink(key.direction).where
    return Item("pingpong", key.mode, key.operation).id(source.text(), sink.text())


def _right_once(cell: Cell) -> bool:
    return cell.passed or (cell.repeat is not None and cell.repeat.passed)


def _group(key: CellKey) -> Group:
    return key.mode, key.direction
