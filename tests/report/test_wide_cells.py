"""Cells of the pairs of a wide run: what is looked up fast is what is looked up one by one."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.report.packing import Blobs
from gdrcheck.report.wide_cells import Layouts, Pairs

NODES = 7
ALL = [(one, other) for one in range(NODES) for other in range(one + 1, NODES)]


def pairs_of(rows: Sequence[tuple[int, int]]) -> Pairs:
    columns = ([one for one, _ in rows], [other for _, other in rows], b"", b"")
    block: Any = SimpleNamespace(columns=lambda _: columns, numbers=())
    data: Any = SimpleNamespace(nodes=range(NODES))
    return Pairs(data, block)


# Mostly one byte, of those that a pattern would take for something else too.
BYTES = st.sampled_from(list(b"\x00]^-\\\n")).flatmap(
    lambda common: st.tuples(st.just(common), st.sets(st.integers(0, 2 * len(ALL) - 1), max_size=4))
)


@given(
    st.permutations(ALL).flatmap(lambda rows: st.integers(1, len(rows)).map(lambda n: rows[:n])),
    BYTES,
    st.sets(st.integers(0, NODES**2 - 1), max_size=2),
)
def test_each_cell_has_the_byte_of_its_row_and_way(
    rows: list[tuple[int, int]], told: tuple[int, set[int]], further: set[int]
) -> None:
    common, others = told
    column = bytes(at % 251 if at in others else common for at in range(2 * len(rows)))
    out, back = column[: len(rows)], column[len(rows) :]
    pairs = pairs_of(rows)
    layout = Layouts(Blobs()).of([pairs], further, NODES**2)
    expected = dict.fromkeys(further, 0)
    for (one, other), there, again in zip(rows, out, back, strict=True):
        expected[one * NODES + other] = there
        expected[other * NODES + one] = again
    assert pairs.cells(layout, out, back) == bytes(expected[cell] for cell in sorted(expected))
