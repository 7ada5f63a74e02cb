"""The same for several rails at once, each in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def side_by_side(tasks: Mapping[int, Callable[[], T]], cancel: Callable[[], None]) -> dict[int, T]:
    """What each of ``tasks`` returned, by its number. All have ended afterwards.

    When one raises, or this thread is interrupted, ``cancel`` is called, which must make the
    others end soon, and the exception goes on.
    """
    if not tasks:
        return {}
    with ThreadPoolExecutor(len(tasks), thread_name_prefix="rail") as pool:
        try:
            under_way = {number: pool.submit(task) for number, task in tasks.items()}
            return {number: future.result() for number, future in under_way.items()}
        except BaseException:
            cancel()
            raise
