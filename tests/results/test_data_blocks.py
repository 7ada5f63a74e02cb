"""Columns of a wide run's data come back as they were packed, or not at all."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gdrcheck.outcome import InputError
from gdrcheck.results.data_blocks import Block, BlockCase, BlockNumbers, Column

NUMBERS = st.lists(st.integers(0, 255) | st.integers(0, 65535) | st.integers(0, (1 << 32) - 1))
CASE = BlockCase(
    check="latency",
    mode="gpu-gpu",
    operation="SEND",
    rail=0,
    direction="out",
    source="gpu0/mlx5_0",
    sink="gpu0/mlx5_0",
)


@given(NUMBERS)
def test_numbers_come_back(numbers: list[int]) -> None:
    assert list(Column.of(array("I", numbers)).numbers()) == numbers


@given(st.text(max_size=40), st.sampled_from([1, 2, 4]))
def test_a_column_that_is_none_is_one_clear_error(text: str, width: int) -> None:
    column = Column.model_validate({"width": width, "packed": text})
    with pytest.raises(InputError, match="a column of pairs"):
        column.numbers()


def test_a_column_that_is_cut_off() -> None:
    column = Column.of(array("I", range(1000)))
    with pytest.raises(InputError, match="cut off"):
        Column(width=column.width, packed=column.packed[: len(column.packed) // 8 * 4]).numbers()


def block(**changes: object) -> Block:
    two = Column.of([0, 1])
    values: dict[str, object] = {
        "cases": (CASE,),
        "initiators": two,
        "responders": Column.of([1, 0]),
        "outcomes": ("0", "5"),
        "outcome": two,
        "wanted": ((-1,),),
        "expectation": Column.of([0, 0]),
        "numbers": (BlockNumbers(case=0, name="p50_us", values=(2.5,), codes=Column.of([1, 0])),),
    }
    return Block.model_validate(values | changes)


def test_a_whole_block_tells_its_columns() -> None:
    whole = block()
    assert [list(one) for one in whole.columns(2)] == [[0, 1], [1, 0], [0, 1], [0, 0]]
    assert dict(whole.counts()) == {"0": 1, "5": 1}
    with pytest.raises(InputError, match="beyond its end"):
        block(outcome=Column.of([0, 2])).counts()
    assert list(whole.codes(whole.numbers[0], 2)) == [1, 0]


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": Column.of([0, 2])},
        {"initiators": Column.of([0, 2])},
        {"responders": Column.of([0])},
        {"expectation": Column.of([0, 1])},
    ],
)
def test_columns_that_do_not_fit_each_other(changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"columns? of pairs"):
        block(**changes).columns(2)


@pytest.mark.parametrize("codes", [[1], [2, 0]])
def test_numbers_that_do_not_fit_the_block(codes: list[int]) -> None:
    column = BlockNumbers(case=0, name="p50_us", values=(2.5,), codes=Column.of(codes))
    with pytest.raises(InputError, match="does not fit"):
        block().codes(column, 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"outcomes": ("00", "5")},
        {"outcomes": ("9", "5")},
        {"wanted": ((),)},
        {"numbers": (BlockNumbers(case=1, name="p50_us", values=(), codes=Column.of([])),)},
    ],
)
def test_texts_that_do_not_fit_the_cases(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        block(**changes)
