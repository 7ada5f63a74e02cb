"""A pair of links without a NIC: a small model of a reliable connection, with faults on demand."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from gdrcheck.pattern import Bytes, Pattern
from gdrcheck.verbs.exchange import Exchange
from gdrcheck.verbs.link import Completion, Verb
from gdrcheck.verbs.protocol import Arm, ExchangeResult
from gdrcheck.verbs.waiting import post_greeting_receive

PAYLOAD_BYTES = 1 << 16


@dataclass
class SimulatedLink:
    """One end. ``peer`` is the other; ``tamper`` may spoil what arrives in this end's payload.

    ``dead_after``: after so many posted operations nothing of this end happens any more.
    ``error_after``: the operation with this number completes with RETRY_EXC_ERR.
    """

    payload: Bytes = field(default_factory=lambda: np.zeros(PAYLOAD_BYTES, dtype=np.uint8))
    peer: SimulatedLink | None = None
    tamper: Callable[[SimulatedLink, int, int], None] | None = None
    damage: str | None = None
    dead_after: int | None = None
    error_after: int | None = None
    posted: int = 0
    receives: deque[tuple[int, int, int]] = field(default_factory=deque)
    arrived: deque[Callable[[tuple[int, int, int]], None]] = field(default_factory=deque)
    completions: deque[Completion] = field(default_factory=deque)

    def post_receive(self, work_id: int, start: int, length: int) -> None:
        self.receives.append((work_id, start, length))

    def post(self, work_id: int, verb: Verb, start: int, length: int, immediate: int) -> None:
        assert self.peer is not None
        self.posted += 1
        if self.dead_after is not None and self.posted > self.dead_after:
            return
        if self.error_after == self.posted:
            self.completions.append(Completion(work_id, "RETRY_EXC_ERR", 0x81, 0))
            return
        if verb == "READ":
            self._place(start, self.peer.payload[start : start + length].copy())
        else:
            self.peer._take_in(verb, self.payload[start : start + length].copy(), start, immediate)
        self.completions.append(Completion(work_id, "SUCCESS", 0, 0))

    def poll(self, wait_s: float = 0) -> Completion | None:
        # The peer is another thread; let it run.
        time.sleep(min(wait_s, 0.0005))
        if self.arrived and self.receives:
            self.arrived.popleft()(self.receives.popleft())
        return self.completions.popleft() if self.completions else None

    def guard_damage(self) -> str | None:
        return self.damage

    def _take_in(self, verb: Verb, data: Bytes, start: int, immediate: int) -> None:
        if verb == "WRITE_WITH_IMM":
            self._place(start, data)

        def receive(posted: tuple[int, int, int]) -> None:
            work_id, place, length = posted
            if verb == "SEND":
                assert len(data) <= length
                self._place(place, data)
            self.completions.append(Completion(work_id, "SUCCESS", 0, immediate))

        self.arrived.append(receive)

    def _place(self, start: int, data: Bytes) -> None:
        self.payload[start : start + len(data)] = data
        if self.tamper is not None:
            self.tamper(self, start, len(data))


def linked() -> tuple[SimulatedLink, SimulatedLink]:
    """Two connected ends at rest."""
    source, sink = SimulatedLink(), SimulatedLink()
    source.peer, sink.peer = sink, source
    for link in (source, sink):
        post_greeting_receive(link)
    return source, sink


def exchange(
    links: tuple[SimulatedLink, SimulatedLink],
    plans: tuple[Arm, Arm],
    *,
    completion_s: float = 20,
) -> tuple[ExchangeResult, ExchangeResult]:
    """Run both ends; the results of source and sink."""

    def run(end: int) -> ExchangeResult:
        return Exchange(
            links[end],
            Pattern(PAYLOAD_BYTES),
            plans[end],
            source_id=77,
            completion_s=completion_s,
        ).run()

    with ThreadPoolExecutor(2) as pool:
        source = pool.submit(run, 0)
        sink = pool.submit(run, 1)
        return source.result(), sink.result()
