"""Progress on stderr: one line per step that takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

QUIET_S = 2.0
REPEAT_S = 15.0


def say(message: str) -> None:
    """Print one line on stderr."""
    print(f"lab: {message}", file=sys.stderr, flush=True)


@contextmanager
def step(title: str) -> Iterator[None]:
    """Report `title` with its elapsed time: when it lasts over two seconds, every 15 s, and at its
    end.
    """
    started = time.monotonic()
    ended = threading.Event()

    def report() -> None:
        if ended.wait(QUIET_S):
            return
        say(f"{title} ...")
        while not ended.wait(REPEAT_S):
            say(f"{title} ... {time.monotonic() - started:.0f} s")

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    word = "failed after"
    try:
        yield
        word = "done in"
    finally:
        ended.set()
        reporter.join()
        elapsed_s = time.monotonic() - started
        if elapsed_s >= QUIET_S:
            say(f"{title}: {word} {elapsed_s:.1f} s")
