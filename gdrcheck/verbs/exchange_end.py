"""One end of an exchange: its moves, and its memory. ``exchange`` has their order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from gdrcheck import steps
from gdrcheck.mismatch import Mismatch
from gdrcheck.pattern import Key
from gdrcheck.transfer import ATOMIC_BYTES, ATOMICS
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.link import Completion, Link, Payload, Place, Target
from gdrcheck.verbs.messages import (
    BESIDE_BYTES,
    Message,
    message_count,
    messages,
    poison_word,
    region_of,
    stream_word,
)
from gdrcheck.verbs.protocol import Arm, CompletionError
from gdrcheck.verbs.waiting import STOP, Broken, Stopped, Waiter


class Wrong(Exception):
    """The data, or what lies around it, is not as it should be.

    ``differ``: how GPU and CPU contradict each other. ``error``: what an atomic operation brought.
    """

    def __init__(
        self,
        *,
        mismatch: Mismatch | None = None,
        differ: str | None = None,
        guard: str | None = None,
        error: CompletionError | None = None,
    ) -> None:
        self.mismatch = mismatch
        self.differ = differ
        self.guard = guard
        self.error = error


class ExchangeEnd:
    """What either end of one exchange does; ``at`` is the message that is being moved.

    Wrong, Stopped and Broken end the exchange, as VerbsError does when the device refuses a call.
    """

    def __init__(self, link: Link, plan: Arm, *, source_id: int, completion_s: float) -> None:
        self.plan = plan
        self.total = message_count(plan)
        self.at = next(messages(plan))
        self._link = link
        self._source_id = source_id
        self._waiter = Waiter(link, completion_s)
        self._filled: Message | None = None

    def messages(self) -> Iterator[Message]:
        """The messages in their order, each size of each variant announced as a step."""
        plan, announced = self.plan, None
        for message in messages(plan):
            self.at = message
            if announced != (message.variant, message.size_bytes):
                announced = (message.variant, message.size_bytes)
                text = f"{plan.operation} {message.size_bytes} B as {plan.role}"
                with steps.step(f"{text}, {message.variant.text()}"):
                    pass
            yield message

    # --- words ----------------------------------------------------------------------------------

    def greet(self) -> None:
        """Make sure that the other end was armed with the same plan."""
        plan = self.plan
        agreed = (
            plan.operation,
            plan.sizes_bytes,
            plan.iterations,
            [variant.text() for variant in plan.variants],
            plan.far,
            plan.run_tag,
            plan.direction,
            self._source_id,
        )
        self._waiter.greet(plan.role, agreed)

    def tell(self, immediate: int) -> None:
        """Send a credit."""
        self._waiter.wait(self._waiter.credit(immediate, self._context()))

    def stop(self) -> None:
        """Tell the other end, which would only wait until its deadline."""
        with contextlib.suppress(Broken, VerbsError):
            self.tell(STOP)

    def expect_credit(self) -> int:
        """Post a receive for a credit; the number for ``take_credit``."""
        return self._waiter.receive(None, f"credit {self._context()}")

    def take_credit(self, number: int, expected: int) -> None:
        """Wait for a credit, which must be this one."""
        heard = self._waiter.wait(number).immediate
        if heard == STOP:
            raise Stopped("credit")
        if heard != expected:
            text = f"credit {expected} was awaited, {heard} came"
            raise Broken("PROTOCOL", "credit", text)

    # --- data on its way ------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """The data, and after it what tells the sink that it is there."""
        operation, what = self.plan.operation, f"data {self._context()}"
        target = None if operation.startswith("SEND") else self._target(message)
        number = message.sequence
        posted = [self._waiter.post(operation, self._place(message), target, number, what)]
        if operation in ("WRITE", *ATOMICS):
            posted.append(self._waiter.credit(number, f"behind {what}"))
        for one in posted:
            self._waiter.wait(one)
        if operation in ATOMICS:
            self._check_fetched(message)

    def expect_data(self, message: Message) -> int:
        """Post the receive that the data completes; the number for ``take_data``."""
        # Only a SEND looks at the memory of the receive.
        place = self._place(message) if self.plan.operation.startswith("SEND") else None
        return self._waiter.receive(place, f"data {self._context()}")

    def take_data(self, number: int) -> Completion:
        """Wait until the data has arrived."""
        completion = self._waiter.wait(number)
        if completion.immediate == STOP:
            raise Stopped("data")
        return completion

    def check_number(self, completion: Completion, expected: int) -> None:
        """The data came with its own immediate number."""
        if self.plan.operation != "SEND" and completion.immediate != expected:
            text = f"immediate number {expected} was sent, {completion.immediate} came"
            raise Broken("PROTOCOL", "immediate number", text)

    def read(self, message: Message) -> None:
        """Fetch the data."""
        place, target = self._place(message), self._target(message)
        self._waiter.wait(self._waiter.post("READ", place, target, 0, f"data {self._context()}"))

    def _place(self, message: Message) -> Place:
        """Where the message is at this end."""
        plan = self.plan
        offset = message.source_offset if plan.role == "source" else message.sink_offset
        return Place(region_of(message.variant, plan.role), offset, message.size_bytes)

    def _target(self, message: Message) -> Target:
        """Where the message is at the other end, and what an atomic operation does there."""
        plan, variant = self.plan, message.variant
        if plan.role == "sink":
            return Target(variant.source, message.source_offset)
        target = Target(variant.sink, message.sink_offset)
        if plan.operation not in ATOMICS:
            return target
        found = poison_word(self._key(message), message.start)
        wanted = stream_word(self._key(message), message.start)
        if plan.operation == "FETCH_ADD":
            return replace(target, operand=(wanted - found) % (1 << 64))
        return replace(target, operand=wanted, compare=found)

    # --- data in memory -------------------------------------------------------------------------

    def fill(self, message: Message) -> None:
        """The source's part: the message, and the byte that the plan has it spoil."""
        payload, offset = self._payload(message), message.source_offset
        payload.fill(self._key(message), offset, message.size_bytes, message.start)
        self._flip(message)
        self._filled = message

    def poison(self, message: Message) -> None:
        """The sink's part: nothing of the message is there, and what lies beside it is known."""
        self._payload(message).poison(
            self._key(message),
            message.sink_offset - BESIDE_BYTES,
            message.size_bytes + 2 * BESIDE_BYTES,
            message.start - BESIDE_BYTES,
        )

    def verify(self, message: Message) -> None:
        """Judge the message, the poison on both sides of it, and in the end the guards."""
        key, payload = self._key(message), self._payload(message)
        offset, length = message.sink_offset, message.size_bytes
        payload.flush(offset)
        judged = payload.judge(key, offset, length, message.start, BESIDE_BYTES)
        guard = f"{judged.beside} {self._context()}" if judged.beside else None
        if not judged.right or message.sequence + 1 == self.total:
            guard = guard or payload.guard_damage()
        verdict = judged.verdict
        if verdict.right and guard is None:
            return
        differ = None
        if payload.is_gpu and verdict.disagree:
            differ = f"the GPU says: {_said(verdict.by_gpu)}; the CPU: {_said(verdict.by_cpu)}"
        raise Wrong(mismatch=verdict.by_cpu or verdict.by_gpu, differ=differ, guard=guard)

    def own_change(self) -> str | None:
        """What of the message that this end filled last is not so any more; None if all of it is.

        The byte that the plan has it spoil stands for one that was spoiled on the way.
        """
        message = self._filled
        # An atomic operation brings back what the other end had, to the same place.
        if message is None or self.plan.operation in ATOMICS:
            return None
        self._flip(message)
        payload, key = self._payload(message), self._key(message)
        verdict = payload.verify(key, message.source_offset, message.size_bytes, message.start)
        wrong = verdict.by_cpu or verdict.by_gpu
        if wrong is None:
            return None
        return f"{_said(wrong)} (size {message.size_bytes} B, iteration {message.iteration})"

    def _check_fetched(self, message: Message) -> None:
        """What an atomic operation brought back is what the sink had put there."""
        payload, offset = self._payload(message), message.source_offset
        payload.flush(offset)
        found = int.from_bytes(payload.read(offset, ATOMIC_BYTES), "little")
        wanted = poison_word(self._key(message), message.start)
        if found != wanted:
            text = f"{self.plan.operation} found {found:016x}, {wanted:016x} was there"
            broken = Broken("PROTOCOL", "fetched value", f"{text} {self._context()}")
            raise Wrong(error=self.error(broken))

    def _flip(self, message: Message) -> None:
        flip = self.plan.flip
        if flip and (flip.size_bytes, flip.iteration) == (message.size_bytes, message.iteration):
            self._payload(message).flip(message.source_offset + flip.offset)

    def _key(self, message: Message) -> Key:
        plan = self.plan
        return Key(plan.run_tag, message.sequence, plan.direction, self._source_id)

    def _payload(self, message: Message) -> Payload:
        return self._link.payload(region_of(message.variant, self.plan.role))

    # --- words for people -----------------------------------------------------------------------

    def error(self, problem: Broken) -> CompletionError:
        """What ended the exchange, with the message that was being moved."""
        return problem.result(self.at.size_bytes, self.at.iteration)

    def _context(self) -> str:
        return f"(size {self.at.size_bytes} B, iteration {self.at.iteration})"


def _said(wrong: Mismatch | None) -> str:
    if wrong is None:
        return "every byte right"
    return (
        f"{wrong.bad_bytes} bytes wrong, the first at offset {wrong.first_bad_offset}, looking "
        f"like {wrong.origin}"
    )
