"""One exchange: data flows one way between two payloads, and the sink judges every byte.

Messages without data carry credits in their immediate number, so nothing is ever sent that is not
awaited. SEND, WRITE_WITH_IMM: the sink poisons, posts the receive, sends credit i; the source fills
pattern i and posts the data operation; the sink verifies; its next credit says that it did.
READ: the source fills pattern i and sends credit i; the sink, which has poisoned, reads, verifies
and sends credit i back. Instead of a credit the sink sends ``STOP`` when something was wrong.

Between exchanges every queue pair has one receive without data posted, for the greeting with which
each end makes sure that the other was armed with the same plan.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from gdrcheck import steps
from gdrcheck.mismatch import Mismatch
from gdrcheck.pattern import Key, Pattern
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.link import Completion, Link
from gdrcheck.verbs.protocol import (
    MARGIN_BYTES,
    Arm,
    CompletionError,
    ExchangeResult,
    VerifiedSize,
)
from gdrcheck.verbs.waiting import STOP, Broken, Waiter, post_greeting_receive

# Where messages start in the payload: aligned, odd, and at the end of a cache line.
START_OFFSETS = (0, 1, 63)
# Poisoned bytes behind a message, to see what a NIC writes too much.
TAIL_BYTES = 128


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the plan: ``sequence`` counts all of them, ``iteration`` those of its size."""

    sequence: int
    size_bytes: int
    iteration: int

    @property
    def start(self) -> int:
        """Where it starts in the payload."""
        return START_OFFSETS[self.sequence % len(START_OFFSETS)]

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.start + self.size_bytes


class _Stopped(Exception):
    """The other end has ended the exchange; it has the reason."""


class _Wrong(Exception):
    """The data, or what lies around it, is not as it should be."""

    def __init__(self, mismatch: Mismatch | None, guard: str | None) -> None:
        self.mismatch = mismatch
        self.guard = guard


def validate_plan(plan: Arm, payload_bytes: int) -> None:
    """VerbsError if a message or the flipped byte of the plan cannot be."""
    smallest, largest = min(plan.sizes_bytes), max(plan.sizes_bytes)
    if smallest < 1 or largest + MARGIN_BYTES > payload_bytes:
        raise VerbsError(
            f"messages of {smallest} to {largest} bytes do not fit into a payload of "
            f"{payload_bytes} bytes: 1 to {payload_bytes - MARGIN_BYTES} do",
            step="arm",
        )
    flip = plan.flip
    if flip is not None and not (
        flip.size_bytes in plan.sizes_bytes
        and flip.iteration < plan.iterations
        and flip.offset < flip.size_bytes
    ):
        raise VerbsError(f"the byte to flip is in no message of the plan: {flip}", step="arm")


class Exchange:
    """One end of one exchange over a link; ``run`` once.

    ``source_id`` names the sending queue pair, the same number on both ends.
    """

    def __init__(
        self, link: Link, pattern: Pattern, plan: Arm, *, source_id: int, completion_s: float
    ) -> None:
        self._link = link
        self._pattern = pattern
        self._plan = plan
        self._source_id = source_id
        self._waiter = Waiter(link, completion_s)
        self._total = len(plan.sizes_bytes) * plan.iterations
        self._done = dict.fromkeys(plan.sizes_bytes, 0)
        self._at = Message(0, plan.sizes_bytes[0], 0)

    def run(self) -> ExchangeResult:
        """Move and judge every message of the plan. What goes wrong is in the result."""
        begun = time.monotonic()
        wrong: _Wrong | None = None
        error: CompletionError | None = None
        stopped = False
        try:
            wrong = self._walk()
        except Broken as problem:
            error = self._error(problem)
        except VerbsError as problem:
            error = self._error(Broken("CALL_FAILED", problem.step, str(problem)))
        except _Stopped:
            stopped = True
        found = wrong is not None and wrong.mismatch is not None
        return ExchangeResult(
            sizes=tuple(
                VerifiedSize(size_bytes=size, iterations_verified=count)
                for size, count in self._done.items()
            ),
            completed=wrong is None and error is None and not stopped,
            mismatch=wrong.mismatch if wrong else None,
            mismatch_size_bytes=self._at.size_bytes if found else None,
            mismatch_iteration=self._at.iteration if found else None,
            guard_broken=wrong.guard if wrong else None,
            completion_error=error,
            stopped_by_peer=stopped,
            duration_s=time.monotonic() - begun,
        )

    def _walk(self) -> _Wrong | None:
        reading = self._plan.operation == "READ"
        try:
            if self._plan.role == "source":
                (self._be_read if reading else self._push)()
            else:
                (self._read if reading else self._take_in)()
        except _Wrong as problem:
            # Without this the other end only waits until its deadline.
            with contextlib.suppress(Broken, VerbsError):
                self._tell(STOP)
            return problem
        post_greeting_receive(self._link)
        return None

    # --- the four ends --------------------------------------------------------------------------

    def _push(self) -> None:
        before: Message | None = None
        credit = self._receive_credit()
        self._greet()
        for message in self._messages():
            self._take_credit(credit, message.sequence)
            if before is not None:
                self._done[before.size_bytes] += 1
            self._fill(message)
            credit = self._receive_credit()
            self._waiter.wait(self._post_data(message))
            before = message
        self._take_credit(credit, self._total)
        self._done[self._at.size_bytes] += 1

    def _take_in(self) -> None:
        for message in self._messages():
            self._poison(message)
            arrival = self._receive_data(message)
            if message.sequence == 0:
                self._greet()
            self._tell(message.sequence)
            completion = self._waiter.wait(arrival)
            self._verify(message)
            self._check_number(completion, message.sequence)
        self._tell(self._total)

    def _be_read(self) -> None:
        for message in self._messages():
            self._fill(message)
            back = self._receive_credit()
            if message.sequence == 0:
                self._greet()
            self._tell(message.sequence)
            self._take_credit(back, message.sequence)
            self._done[message.size_bytes] += 1

    def _read(self) -> None:
        credit = self._receive_credit()
        self._greet()
        for message in self._messages():
            self._poison(message)
            self._take_credit(credit, message.sequence)
            self._waiter.wait(self._post_data(message))
            self._verify(message)
            if message.sequence + 1 < self._total:
                credit = self._receive_credit()
            self._tell(message.sequence)

    # --- moves ----------------------------------------------------------------------------------

    def _messages(self) -> Iterator[Message]:
        plan = self._plan
        for index, size in enumerate(plan.sizes_bytes):
            with steps.step(f"{plan.operation} {size} B as {plan.role}"):
                for iteration in range(plan.iterations):
                    self._at = Message(index * plan.iterations + iteration, size, iteration)
                    yield self._at

    def _greet(self) -> None:
        plan = self._plan
        agreed = (
            plan.operation,
            plan.sizes_bytes,
            plan.iterations,
            plan.run_tag,
            plan.direction,
            self._source_id,
        )
        self._waiter.greet(plan.role, agreed)

    def _tell(self, immediate: int) -> None:
        self._waiter.wait(self._waiter.post("CREDIT", 0, 0, immediate, self._context()))

    def _receive_credit(self) -> int:
        return self._waiter.receive(0, 0, f"credit {self._context()}")

    def _take_credit(self, number: int, expected: int) -> None:
        heard = self._waiter.wait(number).immediate
        if heard == STOP:
            raise _Stopped
        if heard != expected:
            text = f"credit {expected} was awaited, {heard} came"
            raise Broken("PROTOCOL", "credit", text)

    def _receive_data(self, message: Message) -> int:
        # A WRITE consumes a receive for its immediate number, but does not look at its memory.
        length = message.size_bytes if self._plan.operation == "SEND" else 0
        return self._waiter.receive(message.start, length, f"data {self._context()}")

    def _post_data(self, message: Message) -> int:
        return self._waiter.post(
            self._plan.operation,
            message.start,
            message.size_bytes,
            message.sequence,
            f"data {self._context()}",
        )

    def _check_number(self, completion: Completion, expected: int) -> None:
        if self._plan.operation == "WRITE_WITH_IMM" and completion.immediate != expected:
            text = f"immediate number {expected} was sent, {completion.immediate} came"
            raise Broken("PROTOCOL", "immediate number", text)

    # --- data -----------------------------------------------------------------------------------

    def _key(self, message: Message) -> Key:
        plan = self._plan
        return Key(plan.run_tag, message.sequence, plan.direction, self._source_id)

    def _fill(self, message: Message) -> None:
        data = self._link.payload[message.start : message.end]
        self._pattern.fill(data, self._key(message), message.start)
        flip = self._plan.flip
        if flip and (flip.size_bytes, flip.iteration) == (message.size_bytes, message.iteration):
            data[flip.offset] ^= 1

    def _poison(self, message: Message) -> None:
        self._pattern.poison(self._link.payload[: message.end + TAIL_BYTES], self._key(message))

    def _verify(self, message: Message) -> None:
        """Judge the message, the poison on both sides of it, and the guards."""
        key, payload = self._key(message), self._link.payload
        mismatch = self._pattern.verify(payload[message.start : message.end], key, message.start)
        guard = self._link.guard_damage()
        if not self._pattern.is_poison(payload[: message.start], key):
            guard = guard or f"bytes before the message changed, {self._context()}"
        tail = payload[message.end : message.end + TAIL_BYTES]
        if not self._pattern.is_poison(tail, key, message.end):
            guard = guard or f"bytes behind the message changed, {self._context()}"
        if mismatch or guard:
            raise _Wrong(mismatch, guard)
        self._done[message.size_bytes] += 1

    def _context(self) -> str:
        return f"(size {self._at.size_bytes} B, iteration {self._at.iteration})"

    def _error(self, problem: Broken) -> CompletionError:
        return problem.result(self._at.size_bytes, self._at.iteration)
