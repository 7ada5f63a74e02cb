"""The completion queue, with a way to block on it and not longer than wanted."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gdrcheck.verbs.compat import CQ, CompChannel, owned, verbs_step
from gdrcheck.verbs.device import Device
from gdrcheck.verbs.errors import VerbsError

# Work requests in flight: each direction of a queue pair, and receives of those beside the first,
# which carry no messages but writes.
QUEUE_DEPTH = 1024
SIDE_RECEIVES = 16
# One more than all that can be in flight would do; room for a count that was not thought of.
_SPARE = 16
_SPIN_NS = 100_000
# After a wait that spinning did not shorten, so many go without it.
_WAITS_WITHOUT_SPIN = 63
# Events are acknowledged so many at a time, since each acknowledgement takes a lock.
_EVENTS_AN_ACK = 256


class CompletionQueue:
    """Send and receive completions of the queue pairs of one endpoint."""

    def __init__(self, cq: Any, channel: Any, channel_fd: int) -> None:
        self.cq = cq
        self._channel = channel
        self._poller = select.poll()
        self._poller.register(channel_fd, select.POLLIN)
        self._without_spin = 0
        self._unacknowledged = 0
        self._event_left = False

    def poll(self) -> Any:
        """The next work completion, None if there is none. Raises what pyverbs raises."""
        count, completions = self.cq.poll(1)
        return completions[0] if count else None

    def next(self, wait_s: float) -> Any:
        """The next work completion; None if none came within ``wait_s``, or for a stale event.

        Spins at first, as fast NICs need it, and then blocks: a slow NIC is software that wants
        this very processor, and two spinning ends slow it down several times (tried with rxe).
        """
        if self._without_spin:
            self._without_spin -= 1
            return self._block(wait_s)
        spin_until = time.perf_counter_ns() + _SPIN_NS
        while True:
            count, completions = self.cq.poll(1)
            if count:
                return completions[0]
            if time.perf_counter_ns() > spin_until:
                break
        self._without_spin = _WAITS_WITHOUT_SPIN
        return self._block(wait_s)

    def acknowledge(self) -> None:
        """Acknowledge the events that were taken; a queue with others cannot be destroyed."""
        if self._unacknowledged:
            self.cq.ack_events(self._unacknowledged)
            self._unacknowledged = 0

    def _block(self, wait_s: float) -> Any:
        self._take_event()
        self.cq.req_notify()
        # One may have come before the notification was asked for.
        work = self.poll()
        if work is None and wait_s > 0 and self._poller.poll(wait_s * 1000):
            # Taken before the next wait: whoever waits now has something to answer.
            self._event_left = True
            work = self.poll()
        return work

    def _take_event(self) -> None:
        if self._event_left:
            self._event_left = False
            self._channel.get_cq_event(self.cq)
            self._unacknowledged += 1
            if self._unacknowledged == _EVENTS_AN_ACK:
                self.acknowledge()


@contextmanager
def open_completion_queue(device: Device, queue_pairs: int = 1) -> Iterator[CompletionQueue]:
    """A completion queue for so many queue pairs; destroyed at the end of the block.

    It holds whatever they can have in flight, so it cannot overflow, also when all of it fails.
    """
    entries = QUEUE_DEPTH + queue_pairs * QUEUE_DEPTH + (queue_pairs - 1) * SIDE_RECEIVES + _SPARE
    with contextlib.ExitStack() as stack:
        with verbs_step(f"ibv_create_comp_channel on {device.name}"):
            before = _event_files()
            channel = stack.enter_context(
                owned(CompChannel(device.context), "ibv_destroy_comp_channel")
            )
            channel_fd = _channel_fd(channel, before)
        with verbs_step(f"ibv_create_cq on {device.name}"):
            queue = CQ(device.context, entries, None, channel)
            cq = stack.enter_context(owned(queue, f"ibv_destroy_cq on {device.name}"))
        opened = CompletionQueue(cq, channel, channel_fd)
        stack.callback(opened.acknowledge)
        yield opened


def _channel_fd(channel: Any, before: frozenset[int]) -> int:
    """The channel's file descriptor. pyverbs tells it from version 57 on; before, it is the only
    RDMA event file that was not there before the channel."""
    known = getattr(channel, "fd", None)
    if known is not None:
        return int(known)
    new = _event_files() - before
    if len(new) != 1:
        step = "find the completion channel's file"
        raise VerbsError(f"{step}: {len(new)} new event files, expected 1", step=step)
    return next(iter(new))


def _event_files() -> frozenset[int]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(f"/proc/self/fd/{name}") == "anon_inode:[infinibandevent]":
                found.add(int(name))
    return frozenset(found)
