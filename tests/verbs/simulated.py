"""A pair of links without a NIC: a small model of a reliable connection, with faults on demand."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from gdrcheck.pattern import Bytes, Pattern
from gdrcheck.transfer import RegionKey
from gdrcheck.verbs.buffer import HostBuffer, HostPayload
from gdrcheck.verbs.exchange import Exchange
from gdrcheck.verbs.link import Completion, Place, Target, Verb
from gdrcheck.verbs.protocol import Arm, ExchangeResult
from gdrcheck.verbs.waiting import post_greeting_receive

PAYLOAD_BYTES = 1 << 16

Posted = tuple[int, Place | None]


def _payload() -> HostPayload:
    return HostPayload(HostBuffer(PAYLOAD_BYTES), Pattern(PAYLOAD_BYTES))


@dataclass
class SimulatedLink:
    """One end. ``peer`` is the other; ``tamper`` may spoil what arrives in this end's payload.

    ``dead_after``: after so many posted operations nothing of this end happens any more.
    ``error_after``: the operation with this number completes with RETRY_EXC_ERR.
    """

    memory: HostPayload = field(default_factory=_payload)
    peer: SimulatedLink | None = None
    tamper: Callable[[SimulatedLink, int, int], None] | None = None
    # What an atomic operation finds is spoiled by so much.
    misread: int = 0
    dead_after: int | None = None
    error_after: int | None = None
    posted: int = 0
    receives: deque[Posted] = field(default_factory=deque)
    arrived: deque[Callable[[Posted], None]] = field(default_factory=deque)
    completions: deque[Completion] = field(default_factory=deque)

    def payload(self, key: RegionKey) -> HostPayload:
        assert key.memory == "host"
        return self.memory

    def post_receive(self, work_id: int, place: Place | None) -> None:
        self.receives.append((work_id, place))

    def post(
        self, work_id: int, verb: Verb, place: Place | None, target: Target | None, immediate: int
    ) -> None:
        assert self.peer is not None
        self.posted += 1
        if self.dead_after is not None and self.posted > self.dead_after:
            return
        if self.error_after == self.posted:
            self.completions.append(Completion(work_id, "RETRY_EXC_ERR", 0x81, 0))
            return
        if target is None:
            self.peer._take_in(verb, self._bytes(place), None, immediate)
        elif verb == "READ":
            assert place is not None
            there = Place(target.key, target.offset, place.length)
            self._put(place.offset, self.peer._bytes(there))
        elif verb in ("FETCH_ADD", "CMP_SWAP"):
            self._reckon(verb, place, target)
        else:
            self.peer._take_in(verb, self._bytes(place), target.offset, immediate)
        self.completions.append(Completion(work_id, "SUCCESS", 0, 0))

    def poll(self, wait_s: float = 0) -> Completion | None:
        # The peer is another thread; let it run.
        time.sleep(min(wait_s, 0.0005))
        if self.arrived and self.receives:
            self.arrived.popleft()(self.receives.popleft())
        return self.completions.popleft() if self.completions else None

    def _bytes(self, place: Place | None) -> Bytes:
        start, length = (place.offset, place.length) if place else (0, 0)
        return self.memory.view[start : start + length].copy()

    def _take_in(self, verb: Verb, data: Bytes, offset: int | None, immediate: int) -> None:
        if offset is not None:
            self._put(offset, data)
            if verb == "WRITE":
                return

        def receive(posted: Posted) -> None:
            work_id, place = posted
            if offset is None and len(data):
                assert place is not None
                assert len(data) <= place.length
                self._put(place.offset, data)
            told = immediate if verb != "SEND" else 0
            self.completions.append(Completion(work_id, "SUCCESS", 0, told))

        self.arrived.append(receive)

    def _reckon(self, verb: Verb, place: Place | None, target: Target) -> None:
        assert place is not None
        assert self.peer is not None
        word = self.peer.memory.view[target.offset : target.offset + 8].view("<u8")
        found = int(word[0])
        brought = self.memory.view[place.offset : place.offset + 8].view("<u8")
        brought[0] = (found + self.misread) % (1 << 64)
        new = word.copy()
        if verb == "FETCH_ADD":
            new[0] = (found + target.operand) % (1 << 64)
        elif found == target.compare:
            new[0] = target.operand
        self.peer._put(target.offset, new.view("u1"))

    def _put(self, offset: int, data: Bytes) -> None:
        self.memory.view[offset : offset + len(data)] = data
        if self.tamper is not None:
            self.tamper(self, offset, len(data))


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
        return Exchange(links[end], plans[end], source_id=77, completion_s=completion_s).run()

    with ThreadPoolExecutor(2) as pool:
        source = pool.submit(run, 0)
        sink = pool.submit(run, 1)
        return source.result(), sink.result()
