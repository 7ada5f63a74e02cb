"""What a process is doing right now, so that a hang can be named after it was killed.

The event plugin installs the sink; without one, steps cost nothing and go nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_sink: Callable[[str], None] | None = None


def set_sink(sink: Callable[[str], None] | None) -> None:
    """Send the text of every step from now on to ``sink``; None switches it off."""
    global _sink
    _sink = sink


@contextmanager
def step(text: str) -> Iterator[None]:
    """Announce ``text`` (for example ``ibv_reg_mr 64 MiB on rxe0``) before the block runs."""
    if _sink is not None:
        _sink(text)
    yield


@contextmanager
def only(text: str) -> Iterator[None]:
    """Announce ``text`` before the block runs, and none of the steps inside it.

    For what repeats the same few calls so often that a record of each would be a burden.
    """
    global _sink
    with step(text):
        sink, _sink = _sink, None
        try:
            yield
        finally:
            _sink = sink
