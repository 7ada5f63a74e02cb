"""Several rails at once: all end, whatever one of them does."""

from __future__ import annotations

import threading

import pytest

from gdrcheck.pairing.side_by_side import side_by_side
from tests.pairing.support import PATIENCE_S


def test_all_run_at_the_same_time_and_are_told_apart():
    together = threading.Barrier(3, timeout=PATIENCE_S)

    def task(number: int) -> int:
        together.wait()
        return number * 10

    def never() -> None:
        raise AssertionError("nothing is to be cancelled")

    assert side_by_side({n: lambda n=n: task(n) for n in range(3)}, never) == {0: 0, 1: 10, 2: 20}


def test_without_tasks_nothing_happens():
    assert side_by_side({}, lambda: None) == {}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_one_that_raises_cancels_the_others(error):
    cancelled = threading.Event()
    ended: list[bool] = []

    def fails() -> None:
        raise error

    def waits() -> None:
        ended.append(cancelled.wait(PATIENCE_S))

    with pytest.raises(error):
        side_by_side({0: fails, 1: waits}, cancelled.set)
    assert ended == [True]
