"""SEND there and back on one queue pair, as ib_send_lat does it, in a Python loop."""

from __future__ import annotations

import time
from contextlib import ExitStack
from statistics import median
from typing import Any

from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.timed_end import (
    ALIGN_BYTES,
    BESIDE_BYTES,
    RAW,
    TimedEnd,
    kept,
    no_collection,
)

WARM_UP = 100
# Receives are posted this many at a time, and every so many sends is one signaled.
_BATCH = 256
_RECEIVE = RAW
_SEND = RAW + 1


class Latency:
    """One end of the ping-pong; ``run`` once. VerbsError if two messages do not fit."""

    def __init__(self, end: TimedEnd) -> None:
        size = end.request.size_bytes
        self._end = end
        self._size = size
        self._inbound = end.begin + -(-(size + BESIDE_BYTES) // ALIGN_BYTES) * ALIGN_BYTES
        self.count = WARM_UP + end.request.iterations
        self._sends_done = 0
        needed = self._inbound + size + BESIDE_BYTES
        if needed > end.payload.length_bytes:
            raise VerbsError(
                f"latency of {size} B needs a payload of {needed} bytes, there are "
                f"{end.payload.length_bytes}",
                step="timed",
            )

    def run(self) -> dict[str, float]:
        """Half of the time between two posts, in us; what came last is judged by ``end``.

        Raises Broken, and VerbsError.
        """
        end, endpoint, size = self._end, self._end.endpoint, self._size
        end.poison(self._inbound, size)
        end.fill(end.begin, size)
        with ExitStack() as stack:
            receive = kept(stack, endpoint.receive_request(end.own, self._inbound, size))
            receive.wr_id = _RECEIVE
            quiet, loud = (
                kept(stack, endpoint.send_request("SEND", end.own, end.begin, size, signaled=told))
                for told in (False, True)
            )
            quiet.wr_id = loud.wr_id = _SEND
            first_pair = endpoint.queue_pairs[0]
            for _ in range(min(_BATCH, self.count)):
                first_pair.post_receive(receive, f"of {size} B")
            end.greet()
            stamps = self._ping_pong(end.request.role == "source", receive, quiet, loud)
            loud_sends = -(-(self.count - 1) // _BATCH) + 1
            while self._sends_done < loud_sends:
                self._arrive(_SEND, "send")
        end.judge(self._inbound, size)
        return _numbers(stamps)

    def _ping_pong(self, first: bool, receive: Any, quiet: Any, loud: Any) -> list[int]:
        """Every message's moment of posting, in ns, and the moment of the last arrival."""
        end = self._end
        qp = end.endpoint.queue_pairs[0].qp
        post_send, post_recv, clock = qp.post_send, qp.post_recv, time.perf_counter_ns
        next_completion, patience_s = end.endpoint.queue.next, end.completion_s
        count = self.count
        stamps = [0] * (count + 1)
        # The first message can come while this end still waits for its own greeting to complete.
        early = end.waiter.came_early(_RECEIVE)
        with no_collection():
            for number in range(count):
                if not first and not (early and number == 0):
                    work = next_completion(patience_s)
                    if work is None or work.status or work.wr_id != _RECEIVE:
                        self._arrive(_RECEIVE, "message", work)
                stamps[number] = clock()
                post_send(loud if number == count - 1 or number % _BATCH == 0 else quiet)
                if number % _BATCH == 0:
                    for _ in range(min(_BATCH, count - number - _BATCH)):
                        post_recv(receive)
                if first:
                    work = next_completion(patience_s)
                    if work is None or work.status or work.wr_id != _RECEIVE:
                        self._arrive(_RECEIVE, "message", work)
            stamps[count] = clock()
        return stamps

    def _arrive(self, awaited: int, what: str, work: Any = None) -> None:
        """As ``TimedEnd.arrive``, counting the sends on the way."""
        while True:
            number = self._end.arrive(_RECEIVE, _SEND + 1, what, work)
            self._sends_done += number == _SEND
            if number == awaited:
                return
            work = None


def _numbers(stamps: list[int]) -> dict[str, float]:
    """Of the periods after the warm-up, halved, in us."""
    periods = zip(stamps[WARM_UP:], stamps[WARM_UP + 1 :], strict=False)
    halves = sorted((later - earlier) / 2000 for earlier, later in periods)
    return {
        "median_us": median(halves),
        "p99_us": halves[min(len(halves) - 1, int(len(halves) * 0.99))],
        "min_us": halves[0],
        "max_us": halves[-1],
    }
