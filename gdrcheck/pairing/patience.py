"""Long waits in slices, each announced as a step, so that whoever watches us sees us wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from gdrcheck import steps
from gdrcheck.pairing.channel import PeerTimeout

T = TypeVar("T")


def in_slices(until: float, slice_s: float, text: str, wait: Callable[[float], T | None]) -> T:
    """What ``wait`` returns, which is called with the seconds to wait until it is not None.

    A PeerTimeout of a slice only ends that slice; PeerTimeout when ``until`` (monotonic) is over.
    """
    while True:
        left_s = max(0.0, until - time.monotonic())
        with steps.step(f"{text}, {left_s:.0f} s at most"):
            try:
                result = wait(min(slice_s, left_s))
            except PeerTimeout:
                if left_s <= slice_s:
                    raise
                continue
        if result is not None:
            return result
        if left_s <= slice_s:
            raise PeerTimeout(f"{text}: not within the time", side="peer", step=text)
