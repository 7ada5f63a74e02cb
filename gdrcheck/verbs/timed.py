"""Latency and bandwidth over a connected endpoint, in loops that do as little as Python can.

Work requests are built before the clock starts and used again; most sends are unsignaled; the
garbage collector rests. The data is verified at the end. What it costs that this is Python, and
not C: 2 to 3 us an operation on a fast processor.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from gdrcheck.mismatch import Mismatch
from gdrcheck.pattern import Key, Pattern
from gdrcheck.verbs.compat import verbs_step
from gdrcheck.verbs.completion_queue import QUEUE_DEPTH
from gdrcheck.verbs.endpoint import Endpoint
from gdrcheck.verbs.errors import VerbsError, status_name
from gdrcheck.verbs.protocol import DEADLINE, MARGIN_BYTES, Role, Timed, TimedResult
from gdrcheck.verbs.waiting import STOP, Broken, Waiter, post_greeting_receive

WARM_UP = 100
# Receives are posted this many at a time, and every so many sends is one signaled.
_BATCH = 256
# Groups of work requests in flight when streaming; one doorbell and one completion each.
_GROUPS = 4
# A stream slower than this is a stream that has died.
_SLOWEST_BYTES_PER_S = 500_000

# Beyond the numbers that a Waiter gives.
_RECEIVE = 1 << 32
_SEND = _RECEIVE + 1


class TimedRun:
    """One end of one measurement; ``run`` once."""

    def __init__(
        self,
        endpoint: Endpoint,
        pattern: Pattern,
        plan: Timed,
        *,
        source_id: int,
        completion_s: float,
    ) -> None:
        self._endpoint = endpoint
        self._pattern = pattern
        self._plan = plan
        self._key = Key(0, 0, 0, source_id)
        self._completion_s = completion_s
        self._waiter = Waiter(endpoint, completion_s)
        self._count = plan.iterations
        self._mismatch: Mismatch | None = None
        self._told_wrong = False

    def run(self) -> TimedResult:
        """Measure (source) or serve (sink). What goes wrong is in the result, without numbers."""
        numbers: dict[str, float] = {}
        error = None
        begun = time.monotonic()
        step = f"{self._plan.kind} of {self._plan.size_bytes} B as {self._plan.role}"
        try:
            with verbs_step(step):
                measure = self._latency if self._plan.kind == "latency" else self._bandwidth
                numbers = measure(self._plan.role)
                post_greeting_receive(self._endpoint)
        except Broken as problem:
            error = problem.result(self._plan.size_bytes, 0)
        except VerbsError as problem:
            broken = Broken("CALL_FAILED", problem.step, str(problem))
            error = broken.result(self._plan.size_bytes, 0)
        guard = self._endpoint.guard_damage()
        right = not (error or guard or self._mismatch or self._told_wrong)
        return TimedResult(
            kind=self._plan.kind,
            size_bytes=self._plan.size_bytes,
            iterations=self._count,
            completed=right,
            duration_s=time.monotonic() - begun,
            mismatch=self._mismatch,
            guard_broken=guard,
            completion_error=error,
            **(numbers if right and self._plan.role == "source" else {}),
        )

    def _agree(self) -> None:
        plan = self._plan
        agreed = (plan.kind, plan.size_bytes, plan.iterations, plan.depth, self._key.source)
        self._waiter.greet(plan.role, agreed)

    def _close_with_verdict(self, arrival: int, start: int, length: int, seconds: float) -> None:
        """The source says that it is done; the sink verifies and says how it was."""
        if self._plan.role == "source":
            self._waiter.wait(self._waiter.post("CREDIT", 0, 0, 0, "end of the measurement"))
            self._told_wrong = self._waiter.wait(arrival).immediate == STOP
            return
        self._waiter.wait(arrival, seconds)
        piece = self._endpoint.payload[start : start + length]
        self._mismatch = self._pattern.verify(piece, self._key, start)
        verdict = STOP if self._mismatch else 0
        self._waiter.wait(self._waiter.post("CREDIT", 0, 0, verdict, "verdict"))

    # --- latency --------------------------------------------------------------------------------

    def _latency(self, role: Role) -> dict[str, float]:
        """SEND there and back, as ib_send_lat does; half of the time between two posts."""
        endpoint, size = self._endpoint, self._plan.size_bytes
        self._count = WARM_UP + self._plan.iterations
        inbound = (size + 63) // 64 * 64
        self._pattern.fill(endpoint.payload[:size], self._key)
        self._pattern.poison(endpoint.payload[inbound : inbound + size], self._key, inbound)
        with contextlib.ExitStack() as stack:
            receive = _kept(stack, endpoint.receive_request(inbound, size))
            receive.wr_id = _RECEIVE
            quiet = _kept(stack, endpoint.send_request("SEND", 0, size, signaled=False))
            loud = _kept(stack, endpoint.send_request("SEND", 0, size))
            loud.wr_id = _SEND
            for _ in range(min(_BATCH, self._count)):
                endpoint.qp.post_recv(receive)
            self._agree()
            stamps = self._ping_pong(role == "source", receive, quiet, loud)
        # Both ends send the same bytes.
        self._mismatch = self._pattern.verify(endpoint.payload[inbound : inbound + size], self._key)
        return _latency_numbers(stamps)

    def _ping_pong(self, first: bool, receive: Any, quiet: Any, loud: Any) -> list[int]:
        """Every message's moment of posting, in ns, and the moment of the last arrival."""
        post_send, post_recv = self._endpoint.qp.post_send, self._endpoint.qp.post_recv
        next_completion, clock = self._endpoint.queue.next, time.perf_counter_ns
        count, patience_s = self._count, self._completion_s
        stamps = [0] * (count + 1)
        # The first message can come while this end still waits for its own greeting to complete.
        early = self._waiter.came_early(_RECEIVE)
        with _no_collection():
            for number in range(count):
                if not first and not (early and number == 0):
                    work = next_completion(patience_s)
                    if work is None or work.status or work.wr_id != _RECEIVE:
                        self._arrive(_RECEIVE, work)
                stamps[number] = clock()
                post_send(loud if number == count - 1 or number % _BATCH == 0 else quiet)
                if number % _BATCH == 0:
                    for _ in range(min(_BATCH, count - number - _BATCH)):
                        post_recv(receive)
                if first:
                    work = next_completion(patience_s)
                    if work is None or work.status or work.wr_id != _RECEIVE:
                        self._arrive(_RECEIVE, work)
            stamps[count] = clock()
        return stamps

    def _arrive(self, awaited: int, work: Any = None) -> None:
        """Wait until a completion of this kind has come, ``work`` first; others are dropped."""
        deadline = time.monotonic() + self._completion_s
        while True:
            if work is not None:
                if work.status:
                    raise _failed(status_name(int(work.status)), int(work.vendor_err))
                if work.wr_id == awaited:
                    return
            if (wait_s := deadline - time.monotonic()) <= 0:
                break
            work = self._endpoint.queue.next(wait_s)
        what = "message" if awaited == _RECEIVE else "write"
        text = f"{what}: not completed within {self._completion_s:g} s"
        raise Broken(DEADLINE, what, text)

    # --- bandwidth ------------------------------------------------------------------------------

    def _bandwidth(self, role: Role) -> dict[str, float]:
        """RDMA WRITE, ``depth`` in flight, from first post to last completion."""
        endpoint, size = self._endpoint, self._plan.size_bytes
        group = max(1, min(self._plan.depth, QUEUE_DEPTH // 2) // _GROUPS)
        groups = -(-self._plan.iterations // group)
        self._count = groups * group
        slots = max(1, min(_GROUPS * group, (len(endpoint.payload) - MARGIN_BYTES) // size))
        area = endpoint.payload[: slots * size]
        if role == "source":
            self._pattern.fill(area, self._key)
        else:
            self._pattern.poison(area, self._key)
        arrival = self._waiter.receive(0, 0, "word from the other end")
        numbers: dict[str, float] = {}
        with contextlib.ExitStack() as stack:
            self._agree()
            if role == "source":
                chains = [self._chain(stack, slots, group, first) for first in range(_GROUPS)]
                elapsed_ns = self._stream(chains, groups)
                numbers = {"gbps": self._count * size * 8 / elapsed_ns}
            length = min(slots, self._count) * size
            seconds = self._completion_s + self._count * size / _SLOWEST_BYTES_PER_S
            self._close_with_verdict(arrival, 0, length, seconds)
        return numbers

    def _chain(self, stack: contextlib.ExitStack, slots: int, group: int, first: int) -> Any:
        """A chain of writes, only the last signaled, each to its slot; its head."""
        endpoint, size = self._endpoint, self._plan.size_bytes
        head = None
        for number in reversed(range(group)):
            start = (first * group + number) % slots * size
            last = number == group - 1
            request = _kept(stack, endpoint.send_request("WRITE", start, size, signaled=last))
            request.wr_id = _SEND
            if head is not None:
                request.next_wr = head
            head = request
        return head

    def _stream(self, chains: list[Any], groups: int) -> int:
        """Nanoseconds from the first post to the last completion."""
        post_send, arrive = self._endpoint.qp.post_send, self._arrive
        with _no_collection():
            begun = time.perf_counter_ns()
            for number in range(groups):
                if number >= _GROUPS:
                    arrive(_SEND)
                post_send(chains[number % _GROUPS])
            for _ in range(min(groups, _GROUPS)):
                arrive(_SEND)
            return time.perf_counter_ns() - begun


def validate_timed(plan: Timed, payload_bytes: int) -> None:
    """VerbsError if the message does not fit into the payload, for latency twice."""
    needed = plan.size_bytes * (2 if plan.kind == "latency" else 1) + MARGIN_BYTES
    if needed > payload_bytes:
        raise VerbsError(
            f"{plan.kind} of {plan.size_bytes} B needs a payload of {needed} bytes, there are "
            f"{payload_bytes}",
            step="timed",
        )


def _latency_numbers(stamps: list[int]) -> dict[str, float]:
    """Of the periods after the warm-up, halved, in us."""
    halves = sorted(
        (later - earlier) / 2000
        for earlier, later in zip(stamps[WARM_UP:], stamps[WARM_UP + 1 :], strict=False)
    )
    return {
        "median_us": median(halves),
        "p99_us": halves[min(len(halves) - 1, int(len(halves) * 0.99))],
        "min_us": halves[0],
    }


def _kept(stack: contextlib.ExitStack, request: Any) -> Any:
    stack.callback(request.close)
    return request


def _failed(status: str, vendor_error: int) -> Broken:
    text = f"completed with {status}, vendor error {vendor_error:#x}"
    return Broken(status, "measurement", text, vendor_error)


@contextmanager
def _no_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
