"""Which sizes are tried: never more than fits, never none, and the reason is told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.memory.sizes import allowed

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
WANTED = (64 * KIB, 2 * MIB, GIB)


def test_all_are_tried_where_there_is_room() -> None:
    assert allowed(WANTED, 140 * GIB, 256 * GIB) == (WANTED, "")


def test_the_memory_that_others_use_limits() -> None:
    sizes, reason = allowed(WANTED, 600 * MIB, 256 * GIB)
    assert sizes == (64 * KIB, 2 * MIB, 512 * MIB)
    assert reason == (
        "1 GiB asked, 512 MiB tried: the GPU has 600 MiB of memory free, "
        "of which 37 MiB are left alone"
    )


def test_bar1_limits_and_what_is_free_of_it_counts() -> None:
    sizes, reason = allowed(WANTED, 140 * GIB, GIB, 600 * MIB)
    assert sizes == (64 * KIB, 2 * MIB, 512 * MIB)
    assert reason == (
        "1 GiB asked, 512 MiB tried: BAR1 has 1 GiB, 600 MiB of it free, "
        "of which 37 MiB are left alone"
    )


def test_a_small_bar1_still_holds_what_programs_register() -> None:
    sizes, reason = allowed(WANTED, 140 * GIB, 64 * MIB, 64 * MIB)
    assert sizes == (64 * KIB, 2 * MIB, 32 * MIB)
    assert reason.endswith("64 MiB of it free, of which 16 MiB are left alone")


def test_a_bar1_as_large_as_the_wish_leaves_no_room_for_it() -> None:
    sizes, reason = allowed(WANTED, 140 * GIB, GIB)
    assert max(sizes) == 512 * MIB
    assert reason == "1 GiB asked, 512 MiB tried: BAR1 has 1 GiB, of which 64 MiB are left alone"


def test_an_unknown_bar1_limits_nothing() -> None:
    assert allowed(WANTED, 140 * GIB, None) == (WANTED, "")


def test_the_smallest_is_tried_even_in_no_memory_at_all() -> None:
    sizes, reason = allowed(WANTED, 0, 256 * GIB)
    assert sizes == (64 * KIB,)
    assert reason == (
        "1 GiB asked, 64 KiB tried: the GPU has 0 B of memory free, too little to leave 16 MiB "
        "alone"
    )


@given(
    st.lists(st.integers(1, 8 * GIB), min_size=1),
    st.integers(0, 200 * GIB),
    st.none() | st.integers(0, 300 * GIB),
    st.none() | st.integers(0, 300 * GIB),
)
def test_what_is_tried_fits_and_ascends(
    wanted: list[int], free: int, bar1: int | None, bar1_free: int | None
) -> None:
    sizes, reason = allowed(wanted, free, bar1, bar1_free)
    assert sizes == tuple(sorted(set(sizes)))
    room = free if bar1 is None else min(free, bar1 if bar1_free is None else bar1_free)
    assert all(size < room or size == min(wanted) for size in sizes)
    assert (max(sizes) == max(wanted)) == (reason == "")
