"""What a merge that takes long is doing, for whoever waits at standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

# Who waits no longer than this needs no news.
QUIET_S = 2.0
# How often the news changes: in place on a terminal, by one more line elsewhere.
LIVE_S, PLAIN_S = 0.2, 10.0
CLEAR = "\r\x1b[K"


class Steps:
    """Tells of one step after the other, once the whole has taken longer than QUIET_S.

    On a terminal it is one line, which is gone in the end; elsewhere a line for each step that
    begins, and more of a long one. ``stream`` None: nothing is told.
    """

    def __init__(self, stream: TextIO | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._live = stream is not None and stream.isatty()
        self._begun_s = clock()
        self._next_s = self._begun_s + QUIET_S
        self._shown = False
        self._text = ""
        self._total = 0

    @contextmanager
    def step(self, text: str, total: int = 0) -> Iterator[None]:
        """The work of this block is ``text``; ``total``: of how many parts, 0 where unknown."""
        self._text, self._total = text, total
        late = self._clock() >= self._begun_s + QUIET_S
        self._tell(0, now=late)
        try:
            yield
        finally:
            if self._stream is not None and self._live and self._shown:
                self._stream.write(CLEAR)
                self._stream.flush()
                self._shown = False

    def done(self, parts: int) -> None:
        """So many parts of the step are done."""
        self._tell(parts, now=False)

    def _tell(self, parts: int, *, now: bool) -> None:
        if self._stream is None or not (now or self._clock() >= self._next_s):
            return
        count = f" {parts}/{self._total}" if self._total else ""
        line = f"merge: {self._text}{count}"
        self._stream.write(f"{CLEAR}{line}" if self._live else f"{line}\n")
        self._stream.flush()
        self._shown = True
        self._next_s = self._clock() + (LIVE_S if self._live else PLAIN_S)
