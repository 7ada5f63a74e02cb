"""Where the rows of the series stand among the cells of a map. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import add

from gdrcheck.report.packing import Blobs
from gdrcheck.results.data import Data, Series

Pairs = tuple[tuple[int, ...], tuple[int, ...]]


class Layer:
    """Of each cell one row of a series that tells of it."""

    def __init__(self, length: int, none: int) -> None:
        self.rows = [none] * length
        self.none = none
        self.count = 0

    def take(self, at: int, row: int) -> bool:
        """Let ``row`` tell of the cell at ``at``; False if another one does."""
        if self.rows[at] != self.none:
            return False
        self.rows[at] = row
        self.count += 1
        return True

    def bytes(self, of_rows: bytes) -> bytes:
        """The byte of each cell's row; 0 where none tells of it."""
        if self.count == len(self.rows) and of_rows.count(of_rows[:1]) == len(of_rows):
            return of_rows[:1] * self.count
        return bytes(map((of_rows + b"\0").__getitem__, self.rows))

    def numbers(self, of_rows: Sequence[float | None]) -> list[float | None]:
        """The number of each cell's row; None where none tells of it."""
        return list(map((*of_rows, None).__getitem__, self.rows))


class Layout:
    """The cells of one rail and mode, ascending. ``blob``: which they are, a byte a cell."""

    def __init__(self, present: bytearray, blob: int) -> None:
        self.blob = blob
        self.length = sum(present)
        self._upto = array("L", accumulate(present))

    def layers(self, cells: Sequence[int]) -> list[Layer]:
        """The rows of a series by cell. More than one where a cell has several rows: each row is in
        one of them.
        """
        layers = [Layer(self.length, len(cells))]
        for row, upto in enumerate(map(self._upto.__getitem__, cells)):
            if not any(layer.take(upto - 1, row) for layer in layers):
                layers.append(Layer(self.length, len(cells)))
                layers[-1].take(upto - 1, row)
        return layers


class Layouts:
    """The layouts of a run, those alike once; and the one that is drawn now."""

    def __init__(self, data: Data, blobs: Blobs) -> None:
        self._count = len(data.nodes)
        self._column = [place.node for place in data.places]
        self._row = [node * self._count for node in self._column]
        self._blobs = blobs
        self._known: dict[int, Layout] = {}
        self._layers: dict[Pairs, list[Layer]] = {}
        self._before: list[tuple[int, list[int], list[Layer]]] = []

    def draw(self, drawn: Iterable[Series]) -> Layout:
        """The layout of these series, for whose rows ``layers`` may be asked from now on."""
        cells = {pairs: self._cells(pairs) for pairs in {(one.source, one.sink) for one in drawn}}
        present = bytearray(self._count * self._count)
        for found in cells.values():
            for cell in found:
                present[cell] = 1
        blob = self._blobs.add(present)
        if blob not in self._known:
            self._known[blob] = Layout(present, blob)
        layout = self._known[blob]
        layers = {pairs: self._same(blob, found) for pairs, found in cells.items()}
        self._layers = {
            pairs: layers[pairs] or layout.layers(found) for pairs, found in cells.items()
        }
        self._before = [(blob, found, self._layers[pairs]) for pairs, found in cells.items()]
        return layout

    def _same(self, blob: int, cells: list[int]) -> list[Layer] | None:
        """Those of what was drawn before, if they are the same: rails are measured alike."""
        for other_blob, other, layers in self._before:
            if other_blob == blob and other == cells:
                return layers
        return None

    def layers(self, series: Series) -> list[Layer]:
        """Where the rows of ``series``, one of those that are drawn, stand."""
        return self._layers[series.source, series.sink]

    def _cells(self, pairs: Pairs) -> list[int]:
        source, sink = pairs
        rows = map(self._row.__getitem__, source)
        return list(map(add, rows, map(self._column.__getitem__, sink)))
