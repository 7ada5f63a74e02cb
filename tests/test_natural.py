"""The order of names and slots: by their numbers, whatever a node calls its devices."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.natural import by_slot, natural


def test_numbers_in_names_count_as_numbers() -> None:
    names = ["mlx5_10", "rxe0", "mlx5_9", "mlx4_11", "mlx5_1"]
    assert sorted(names, key=natural) == ["mlx4_11", "mlx5_1", "mlx5_9", "mlx5_10", "rxe0"]


def test_slots_are_numbers_too_and_come_first() -> None:
    places = [(None, "a"), ("10000:01:00.0", "b"), ("0000:02:00.0", "c"), ("0000:01:00.0", "d")]
    assert [name for _, name in sorted(places, key=lambda place: by_slot(*place))] == list("dcba")


@given(st.lists(st.text(max_size=6) | st.just("9" * 10_000), max_size=6))
def test_any_names_can_be_sorted(names: list[str]) -> None:
    assert sorted(sorted(names, key=natural)) == sorted(names)
