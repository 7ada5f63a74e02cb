"""RDMA WRITE on one queue pair or several, as much as wanted in flight, one way or both at once."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

from gdrcheck.verbs.completion_queue import QUEUE_DEPTH
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.timed_end import (
    ALIGN_BYTES,
    BESIDE_BYTES,
    RAW,
    TimedEnd,
    first_place,
    kept,
    no_collection,
)
from gdrcheck.verbs.waiting import STOP, Broken

# Chains of work requests in flight on each queue pair; one doorbell and one completion each.
_CHAINS = 4
# No rate needs more in flight, and slow software takes seconds for it; yet two a queue pair.
_IN_FLIGHT_BYTES = 16 << 20
# Messages go to one place after the other of so much memory, at the least one for each queue pair.
_AREA_BYTES = 4 << 20
# A stream slower than this is a stream that has died.
_SLOWEST_BYTES_PER_S = 500_000
# What fits into an immediate number, and is not STOP.
_MOST_TOLD = 1 << 30
# The verdict on what came; the other one is STOP.
_RIGHT = 0


class Stream:
    """One end of the stream; ``run`` once. VerbsError if a message does not fit, or if there are
    fewer queue pairs than it takes.
    """

    def __init__(self, end: TimedEnd) -> None:
        request, size = end.request, end.request.size_bytes
        pairs = end.endpoint.queue_pairs
        if request.queue_pairs > len(pairs):
            text = f"{request.queue_pairs} queue pairs are asked for, there are {len(pairs)}"
            raise VerbsError(text, step="timed")
        self._end = end
        self._pairs = pairs[: request.queue_pairs]
        self._sends = request.role == "source" or request.both_ways
        self._receives = request.role == "sink" or request.both_ways
        wide = max(2, _IN_FLIGHT_BYTES // (size * len(self._pairs)))
        depth = min(request.depth, wide, QUEUE_DEPTH // 2)
        self._chains = min(_CHAINS, depth)
        self._chain_length = depth // self._chains
        self._remote_begin = first_place(end.remote.address)
        room = self._room()
        # With both ways what comes lies behind what goes.
        self._shift = room // 2 // ALIGN_BYTES * ALIGN_BYTES if request.both_ways else 0
        area = self._shift - BESIDE_BYTES if request.both_ways else room
        in_flight = len(self._pairs) * self._chains * self._chain_length
        wanted = max(len(self._pairs), _AREA_BYTES // size)
        self._slots = min(area // size, wanted, in_flight)
        if self._slots < 1:
            raise VerbsError(
                f"bandwidth of {size} B does not fit into the {area} bytes of the payloads",
                step="timed",
            )
        self.count = 0

    def run(self) -> dict[str, float]:
        """Gb/s of the way from this end, none for an end that only receives; what came is judged by
        ``end``. Raises Broken, and VerbsError.
        """
        end, length = self._end, self._slots * self._end.request.size_bytes
        place = end.begin + self._shift
        if self._receives:
            end.poison(place, length)
        if self._sends:
            end.fill(end.begin, length)
        finished = end.waiter.receive(None, "the other end's end") if self._receives else None
        verdict = end.waiter.receive(None, "the other end's verdict") if self._sends else None
        numbers: dict[str, float] = {}
        with ExitStack() as stack:
            chains = self._built(stack) if self._sends else []
            end.greet()
            if self._sends:
                elapsed_ns = self._stream(chains)
                sent_bits = self.count * end.request.size_bytes * 8
                numbers = {"gbps": sent_bits / elapsed_ns}
                told = min(self.count, _MOST_TOLD)
                end.waiter.wait(end.waiter.credit(told, "end of the measurement"))
        if finished is not None:
            self._take_in(finished, place)
        if verdict is not None:
            self._hear_verdict(verdict)
        return numbers

    def _room(self) -> int:
        """The bytes for messages in the smaller of both payloads."""
        end = self._end
        here = end.payload.length_bytes - end.begin
        return min(here, end.remote.length_bytes - self._remote_begin) - BESIDE_BYTES

    def _take_in(self, finished: int, place: int) -> None:
        """Wait for the end of what comes, judge it and tell the verdict."""
        end, request = self._end, self._end.request
        slowest_s = request.iterations * request.size_bytes / _SLOWEST_BYTES_PER_S
        heard = end.waiter.wait(finished, end.completion_s + request.seconds + slowest_s).immediate
        if not request.iterations <= heard <= _MOST_TOLD:
            text = f"{request.iterations} messages were awaited, {heard} were told of"
            raise Broken("PROTOCOL", "end of the measurement", text)
        if not self._sends:
            self.count = heard
        right = end.judge(place, min(self._slots, heard) * request.size_bytes)
        end.waiter.wait(end.waiter.credit(_RIGHT if right else STOP, "verdict"))

    def _hear_verdict(self, verdict: int) -> None:
        heard = self._end.waiter.wait(verdict).immediate
        if heard == STOP:
            raise OtherEnd
        if heard != _RIGHT:
            raise Broken("PROTOCOL", "verdict", f"{heard} is no verdict")

    def _built(self, stack: ExitStack) -> list[Any]:
        """The heads of all chains, in the order in which they are posted at first: message after
        message to slot after slot. Chain c belongs to queue pair c modulo their number.
        """
        return [self._chain(stack, number) for number in range(self._chains * len(self._pairs))]

    def _chain(self, stack: ExitStack, number: int) -> Any:
        """A chain of writes, only the last of them signaled; its head."""
        end, size = self._end, self._end.request.size_bytes
        head = None
        for link in reversed(range(self._chain_length)):
            at = (number * self._chain_length + link) % self._slots * size
            request = kept(
                stack,
                end.endpoint.send_request(
                    "WRITE",
                    end.own,
                    end.begin + at,
                    size,
                    end.far,
                    self._remote_begin + self._shift + at,
                    signaled=link == self._chain_length - 1,
                ),
            )
            request.wr_id = RAW + number
            if head is not None:
                request.next_wr = head
            head = request
        return head

    def _stream(self, chains: list[Any]) -> int:
        """Nanoseconds from the first post to the last completion; ``count`` is what was sent."""
        end, clock = self._end, time.perf_counter_ns
        posts = [pair.qp.post_send for pair in self._pairs] * self._chains
        next_completion, patience_s = end.endpoint.queue.next, end.completion_s
        last = RAW + len(chains)
        wanted = -(-end.request.iterations // self._chain_length)
        posted, done = 0, 0
        with no_collection():
            begun = clock()
            until = begun + int(end.request.seconds * 1e9)
            for post, chain in zip(posts, chains, strict=True):
                if posted >= wanted and clock() >= until:
                    break
                post(chain)
                posted += 1
            while done < posted:
                work = next_completion(patience_s)
                if work is None or work.status or not RAW <= work.wr_id < last:
                    number = end.arrive(RAW, last, "write", work)
                else:
                    number = work.wr_id
                done += 1
                if posted < wanted or clock() < until:
                    posts[number - RAW](chains[number - RAW])
                    posted += 1
            elapsed_ns = clock() - begun
        self.count = posted * self._chain_length
        return elapsed_ns


class OtherEnd(Exception):
    """The other end has found wrong what this end sent; it has the reason."""
