"""What latency and bandwidth have in common: one end, its memory, its words with the other end."""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from gdrcheck.mismatch import Mismatch
from gdrcheck.pattern import Key
from gdrcheck.verbs.endpoint import Endpoint
from gdrcheck.verbs.errors import status_name
from gdrcheck.verbs.link import Completion
from gdrcheck.verbs.protocol import DEADLINE, Timed
from gdrcheck.verbs.waiting import Broken, Waiter

# Poisoned bytes on both sides of where messages arrive.
BESIDE_BYTES = 64
# Messages begin at pages: what is measured is the path, not the cost of odd addresses.
ALIGN_BYTES = 4096
# Work requests that no Waiter has posted have numbers from here on.
RAW = 1 << 32


class TimedEnd:
    """One end of one measurement over ``endpoint``.

    ``own`` is the region of this end, ``far`` that of the other one; ``begin`` is the place of its
    first message. VerbsError if either end lacks its region.
    """

    def __init__(self, endpoint: Endpoint, request: Timed, completion_s: float) -> None:
        variant = request.variant
        regions = (variant.source, variant.sink)
        self.own, self.far = regions if request.role == "source" else reversed(regions)
        self.endpoint = endpoint
        self.request = request
        self.completion_s = completion_s
        self.local = endpoint.local(self.own)
        self.remote = endpoint.remote_region(self.far)
        self.payload = self.local.payload
        self.begin = first_place(self.local.address(0, self.payload.length_bytes))
        self.waiter = Waiter(endpoint, completion_s)
        # Each is named after the queue pair that sends it.
        self.out_key = Key(0, 0, 0, endpoint.source_id("source"))
        self.in_key = Key(0, 0, 0, endpoint.source_id("sink"))
        self.mismatch: Mismatch | None = None
        self.guard: str | None = None

    def fill(self, place: int, length: int) -> None:
        """Put there what this end sends."""
        self.payload.fill(self.out_key, place, length, BESIDE_BYTES)

    def poison(self, place: int, length: int) -> None:
        """Put there, and beside it, what must be gone, or must stay, when messages have come."""
        self.payload.poison(self.in_key, place - BESIDE_BYTES, length + 2 * BESIDE_BYTES, 0)

    def judge(self, place: int, length: int) -> bool:
        """Whether what has come is right; ``mismatch`` and ``guard`` say what is not."""
        self.payload.flush(place)
        judged = self.payload.judge(self.in_key, place, length, BESIDE_BYTES, BESIDE_BYTES)
        self.mismatch = judged.verdict.by_cpu or judged.verdict.by_gpu
        self.guard = judged.beside or self.payload.guard_damage()
        return not (self.mismatch or self.guard)

    def greet(self) -> None:
        """Make sure that the other end measures the same, at the same time."""
        request = self.request
        agreed = (
            request.model_dump(exclude={"command", "role"}),
            self.endpoint.source_id(request.role),
        )
        self.waiter.greet(request.role, agreed)

    def arrive(self, low: int, high: int, what: str, work: Any = None) -> int:
        """Wait for a completion with a number from ``low`` up to ``high``, ``work`` being looked at
        first; its number. Others of the measurement are dropped, words of the other end are kept.

        Broken if one has failed, or none comes within the deadline.
        """
        deadline = time.monotonic() + self.completion_s
        while True:
            if work is not None:
                number = int(work.wr_id)
                if work.status:
                    raise _failed(work, what)
                if low <= number < high:
                    return number
                if number < RAW:
                    self.waiter.take(_completion(work))
            if (wait_s := deadline - time.monotonic()) <= 0:
                text = f"{what}: not completed within {self.completion_s:g} s"
                raise Broken(DEADLINE, what, text)
            work = self.endpoint.queue.next(wait_s)


def first_place(address: int) -> int:
    """Where messages begin in a payload that begins at ``address``."""
    return BESIDE_BYTES - (address + BESIDE_BYTES) % -ALIGN_BYTES


def kept(stack: ExitStack, request: Any) -> Any:
    """The work request, closed with the stack."""
    stack.callback(request.close)
    return request


@contextmanager
def no_collection() -> Iterator[None]:
    """The garbage collector rests inside the block."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _completion(work: Any) -> Completion:
    immediate = socket.ntohl(int(work.imm_data))
    return Completion(int(work.wr_id), status_name(int(work.status)), 0, immediate)


def _failed(work: Any, what: str) -> Broken:
    status, vendor_error = status_name(int(work.status)), int(work.vendor_err)
    text = f"{what}: completed with {status}, vendor error {vendor_error:#x}"
    return Broken(status, what, text, vendor_error)
