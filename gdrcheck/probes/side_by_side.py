"""Reads that may hang in a driver, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import TypeVar

from gdrcheck.facts import Unreadable

T = TypeVar("T")


def side_by_side(
    calls: Mapping[str, Callable[[], T]], deadline_s: float
) -> dict[str, T | Unreadable]:
    """What each of ``calls`` returns, all made at once; Unreadable for one that is late.

    That one is left behind, for nothing can end a thread that hangs in the kernel; it does not keep
    the interpreter from ending. What a call raises is raised here.
    """
    made: dict[str, Future[T]] = {name: Future() for name in calls}
    for name, call in calls.items():
        arguments = (call, made[name])
        threading.Thread(target=_make, args=arguments, name=name, daemon=True).start()
    wait(made.values(), timeout=deadline_s)
    return {
        name: one.result() if one.done() else _late(name, deadline_s) for name, one in made.items()
    }


def _make(call: Callable[[], T], made: Future[T]) -> None:
    try:
        made.set_result(call())
    # The outermost hook of this thread: the one who waits gets it.
    except Exception as error:
        made.set_exception(error)


def _late(name: str, deadline_s: float) -> Unreadable:
    return Unreadable(unreadable=f"{name}: its driver gave no answer within {deadline_s:g} s")
