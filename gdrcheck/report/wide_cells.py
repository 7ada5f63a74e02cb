"""The pairs of a wide run's blocks as the cells of maps. Pure.

A row of a block is a pair, which has two cells: the one that the data goes to from the initiator,
and the one of the way back. What is looked up for each row is a byte, by its index into a table.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, compress
from operator import or_
from typing import NamedTuple

from gdrcheck.report.packing import Blobs
from gdrcheck.results.data import Data
from gdrcheck.results.data_blocks import Block, BlockNumbers

MAX_BYTE = 256
# A column that is one byte but for this share is filled, and only the others are looked up.
NEARLY_ALL, SAMPLES = 0.9, 1000
# From an index of a row to a byte.
Table = Sequence[int]


def looked_up(indices: Sequence[int], table: Table) -> bytes:
    """The byte of each index."""
    if len(set(table)) == 1:
        return bytes([table[0]]) * len(indices)
    if isinstance(indices, bytes):
        return indices.translate(bytes(table).ljust(MAX_BYTE, b"\0")[:MAX_BYTE])
    return bytes(map(table.__getitem__, indices))


class Layout:
    """Which cells there are: of each that there could be ``present`` has 1 or 0; ``blob`` is the
    number of that column.
    """

    def __init__(self, present: bytes, blob: int) -> None:
        self.present = present
        self.blob = blob
        self.length = present.count(1)

    @cached_property
    def _upto(self) -> array[int]:
        return array("I", accumulate(self.present))

    def at(self, cell: int) -> int:
        """The place of a cell among those that there are."""
        return self._upto[cell] - 1


class Layouts:
    """The layouts of a run, each once."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._known: dict[bytes, Layout] = {}

    def of(self, pairs: Iterable[Pairs], cells: Iterable[int], count: int) -> Layout:
        """The layout that has the cells of all ``pairs``, and further ones, of ``count``."""
        present = bytearray(count)
        for number, one in enumerate(pairs):
            present[:] = map(or_, present, one.present) if number else one.present
        for cell in cells:
            present[cell] = 1
        key = bytes(present)
        if key not in self._known:
            self._known[key] = Layout(key, self._blobs.add(key))
        return self._known[key]


class _Gathered(NamedTuple):
    """For each cell of a layout its place among the rows both ways, beyond their end for a cell of
    no row; for each row its cell; for each cell whether it is of a row.

    The last of ``rows`` and of ``filled`` stand for what is nowhere.
    """

    places: array[int]
    rows: array[int]
    filled: bytes


class Pairs:
    """A block with its columns unpacked. InputError when they are damaged."""

    def __init__(self, data: Data, block: Block) -> None:
        self.block = block
        columns = block.columns(len(data.nodes))
        self.initiators, self.responders, self.outcome, self.expectation = columns
        self.rows = len(self.initiators)
        self._count = len(data.nodes)
        self._numbers = {(one.case, one.name): one for one in block.numbers}
        self._gathered: dict[int, _Gathered] = {}

    def cases(self, rail: int | None, mode: str) -> list[int]:
        """The numbers of the cases of a rail and mode."""
        return [
            number
            for number, case in enumerate(self.block.cases)
            if case.rail == rail and case.mode == mode
        ]

    def numbers(self, case: int, name: str) -> BlockNumbers | None:
        """A column of numbers of a case."""
        return self._numbers.get((case, name))

    def codes(self, numbers: BlockNumbers) -> bytes | array[int]:
        """The codes of such a column."""
        return self.block.codes(numbers, self.rows)

    def ways(self, cases: Sequence[int]) -> tuple[list[int], list[int]]:
        """Those of ``cases`` whose data leaves the initiator, and those of the way back."""
        told = self.block.cases
        return (
            [case for case in cases if told[case].direction == "out"],
            [case for case in cases if told[case].direction == "in"],
        )

    @cached_property
    def present(self) -> bytes:
        """Of each cell that there could be 1 when it is of a pair, else 0."""
        found = bytearray(self._count**2)
        for first, second in zip(self.initiators, self.responders, strict=True):
            found[first * self._count + second] = found[second * self._count + first] = 1
        return bytes(found)

    def cells(self, layout: Layout, out: bytes, back: bytes) -> bytes:
        """The byte of each cell of ``layout`` of those of the rows both ways; 0 for a cell that is
        of no row.
        """
        if layout.blob not in self._gathered:
            self._gathered[layout.blob] = self._gather(layout.present)
        places, rows, filled = self._gathered[layout.blob]
        both = out + back
        if (few := _few_others(both)) is not None:
            common, others = few
            found = bytearray(filled.translate(b"\0" + common * (MAX_BYTE - 1)))
            for row in others:
                found[rows[row]] = both[row]
            return bytes(found[: len(places)])
        return bytes(map((both + b"\0").__getitem__, places))

    def _gather(self, present: bytes) -> _Gathered:
        nowhere = 2 * self.rows
        found = array("I", [nowhere]) * self._count**2
        pairs = zip(self.initiators, self.responders, strict=True)
        for row, (first, second) in enumerate(pairs):
            found[first * self._count + second] = row
            found[second * self._count + first] = self.rows + row
        places = array("I", compress(found, present))
        rows = array("I", [len(places)]) * (nowhere + 1)
        for cell, row in enumerate(places):
            rows[row] = cell
        filled = bytes(row != nowhere for row in places) + b"\0"
        return _Gathered(places, rows, filled)


def _few_others(column: bytes) -> tuple[bytes, Iterator[int]] | None:
    """The byte that nearly all of ``column`` are, and where others stand; None if there is none."""
    sample = column[:: len(column) // SAMPLES + 1]
    if not sample:
        return None
    common = bytes([max(set(sample), key=sample.count)])
    if column.count(common) < len(column) * NEARLY_ALL:
        return None
    others = re.finditer(b"[^" + re.escape(common) + b"]+", column)
    return common, (at for match in others for at in range(*match.span()))


def worst_ranks(texts: Iterable[str], cases: Sequence[int], ranks: Mapping[str, int]) -> list[int]:
    """For each text of outcomes the highest rank of these cases; 0 when it tells of none."""
    return [max((ranks.get(text[case], 0) for case in cases), default=0) for text in texts]
