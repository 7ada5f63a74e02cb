"""The same messages once by way of host memory and once directly, from GPU memory to GPU memory.

By way of host memory the source copies from its GPU, its NIC writes to host memory of the sink, and
the sink copies to its GPU. Directly the NICs reach both GPUs, and the sink flushes. The source's
clock runs from before its copy until it hears that the sink's GPU may use the data; both ways end
with that word. They take turns, message by message, and after each the sink judges every byte.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from gdrcheck.gpu.locking import page_locked
from gdrcheck.memory.payload import GpuPayload
from gdrcheck.mismatch import Mismatch
from gdrcheck.pattern import Key
from gdrcheck.transfer import RegionKey
from gdrcheck.verbs.buffer import HostPayload
from gdrcheck.verbs.compat import verbs_step
from gdrcheck.verbs.endpoint import Endpoint
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.link import Place, Target
from gdrcheck.verbs.protocol import CompletionError, RemoteRegion, Staged, StagedResult, StagedWay
from gdrcheck.verbs.regions import LocalRegion
from gdrcheck.verbs.timed_end import BESIDE_BYTES, first_place
from gdrcheck.verbs.waiting import STOP, Broken, Waiter, post_greeting_receive

Way = Literal["staged", "direct"]
WAYS: tuple[Way, ...] = ("staged", "direct")

# The first of each way touches memory, caches and clocks for the first time, and is not counted.
_WARM_UPS = 1
# Copies are told in an immediate number, in these.
_TOLD_NS = 100
_MOST_TOLD = 1 << 30


@dataclass(frozen=True, slots=True)
class _Message:
    sequence: int
    way: Way
    counted: bool


@dataclass(slots=True)
class _Times:
    """What the source measured of one way, in ns."""

    whole: list[int] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)

    def result(self, size_bytes: int, address: str) -> StagedWay:
        whole_us = median(self.whole) / 1000
        copy_us = median(self.copies) / 1000
        gbps = size_bytes * 8 / (whole_us * 1000)
        return StagedWay(median_us=whole_us, copy_us=copy_us, gbps=gbps, address=address)


@dataclass(frozen=True, slots=True)
class _Regions:
    """The memory of one way: this end's region, the other one's, and the message's place."""

    local: LocalRegion
    remote: RemoteRegion
    size_bytes: int

    @property
    def begin(self) -> int:
        return first_place(self.local.address(0, self.local.payload.length_bytes))

    @property
    def place(self) -> Place:
        return Place(self.local.key, self.begin, self.size_bytes)

    @property
    def target(self) -> Target:
        return Target(self.remote.key, first_place(self.remote.address))

    @property
    def address(self) -> str:
        """What the NIC is given for the message, in words."""
        address = self.local.address(self.begin, self.size_bytes)
        if self.local.key.method == "dmabuf":
            return f"offset {address} of the dma-buf"
        of = "device pointer" if self.local.payload.is_gpu else "host address"
        return f"{of} {address:#x}"


class _OtherEnd(Exception):
    """The sink has found something wrong; it has the reason."""


class _Wrong(Exception):
    def __init__(self, way: Way, mismatch: Mismatch | None, beside: str | None) -> None:
        self.way: Way = way
        self.mismatch = mismatch
        self.beside = beside
        super().__init__(f"{way}: {mismatch or beside}")


class StagedRun:
    """One end of one comparison; ``run`` once.

    VerbsError if an end lacks a region, or a message does not fit: nothing was posted then.
    """

    def __init__(self, endpoint: Endpoint, request: Staged, *, completion_s: float) -> None:
        keys = (request.variant.source, request.variant.sink)
        if any(key.memory != "gpu" for key in keys):
            text = f"only GPU memory is compared at both ends, not {request.variant.text()}"
            raise VerbsError(text, step="staged")
        own, far = keys if request.role == "source" else reversed(keys)
        self._endpoint = endpoint
        self._request = request
        self._waiter = Waiter(endpoint, completion_s)
        self._regions: dict[Way, _Regions] = {
            "staged": self._found(_host_like(own), _host_like(far)),
            "direct": self._found(own, far),
        }
        host, gpu = (self._regions[way].local.payload for way in WAYS)
        if not (isinstance(host, HostPayload) and isinstance(gpu, GpuPayload)):
            raise VerbsError("the regions are not what their keys say", step="staged")
        self._host, self._gpu = host, gpu
        begin = self._regions["staged"].begin
        self._host_view = host.view[begin : begin + request.size_bytes]
        # Where the message lies in GPU memory, whichever way it comes.
        self._at = self._regions["direct"].begin
        self._source_id = endpoint.source_id(request.role)
        self._times: dict[Way, _Times] = {way: _Times() for way in WAYS}

    def run(self) -> StagedResult:
        """Move, time and judge all messages. What goes wrong is in the result, without numbers;
        only what the driver of a GPU refuses is raised, as CudaError.
        """
        request, begun = self._request, time.monotonic()
        wrong: _Wrong | None = None
        error: CompletionError | None = None
        stopped = False
        step = f"staged against direct, {request.size_bytes} B as {request.role}"
        try:
            with verbs_step(step), ExitStack() as stack:
                stack.enter_context(page_locked(self._gpu.gpu, self._host_view))
                (self._send if request.role == "source" else self._receive)()
                post_greeting_receive(self._endpoint)
        except _OtherEnd:
            stopped = True
        except _Wrong as problem:
            wrong = problem
        except Broken as problem:
            error = problem.result(request.size_bytes, 0)
        except VerbsError as problem:
            broken = Broken("CALL_FAILED", problem.step, str(problem))
            error = broken.result(request.size_bytes, 0)
        right = not (wrong or error or stopped)
        addresses = {way: self._regions[way].address for way in WAYS}
        measured = right and request.role == "source"
        ways = {
            way: self._times[way].result(request.size_bytes, addresses[way]) if measured else None
            for way in WAYS
        }
        return StagedResult(
            completed=right,
            staged=ways["staged"],
            direct=ways["direct"],
            staged_address=addresses["staged"],
            direct_address=addresses["direct"],
            wrong_way=wrong.way if wrong else None,
            mismatch=wrong.mismatch if wrong else None,
            guard_broken=wrong.beside if wrong else None,
            completion_error=error,
            duration_s=time.monotonic() - begun,
        )

    def _messages(self) -> Iterator[_Message]:
        for number in range(len(WAYS) * (_WARM_UPS + self._request.iterations)):
            counted = number >= len(WAYS) * _WARM_UPS
            yield _Message(number, WAYS[number % len(WAYS)], counted)

    def _send(self) -> None:
        """Each message once the sink is ready for it, then the sink's verdict on all of them."""
        size, waiter = self._request.size_bytes, self._waiter
        ready = waiter.receive(None, "the sink's readiness")
        self._greet()
        for message in self._messages():
            self._gpu.fill(self._key(message), self._at, size, BESIDE_BYTES)
            self._heard_ready(ready, message.sequence)
            used = waiter.receive(None, f"word that message {message.sequence} can be used")
            ready = waiter.receive(None, "the sink's readiness")
            self._move(message, used)
        self._heard_ready(ready, message.sequence + 1)

    def _move(self, message: _Message, used: int) -> None:
        regions, clock = self._regions[message.way], time.perf_counter_ns
        begun = clock()
        if message.way == "staged":
            self._gpu.gpu.device_to_host(self._gpu.address + self._at, self._host_view)
        copied = clock()
        what = f"message {message.sequence}, {message.way}"
        number = message.sequence
        sent = self._waiter.post("WRITE_WITH_IMM", regions.place, regions.target, number, what)
        told = self._waiter.wait(used).immediate
        ended = clock()
        self._waiter.wait(sent)
        if message.counted:
            times = self._times[message.way]
            times.whole.append(ended - begun)
            their_copy = told * _TOLD_NS if message.way == "staged" else 0
            times.copies.append(copied - begun + their_copy if message.way == "staged" else 0)

    def _receive(self) -> None:
        """Poison, say so, let the message come, make it usable, say so, judge it."""
        size, waiter = self._request.size_bytes, self._waiter
        for message in self._messages():
            key = self._key(message)
            self._gpu.poison(key, self._at - BESIDE_BYTES, size + 2 * BESIDE_BYTES, 0)
            arrival = waiter.receive(None, f"message {message.sequence}, {message.way}")
            if message.sequence == 0:
                self._greet()
            waiter.wait(waiter.credit(message.sequence, "readiness"))
            heard = waiter.wait(arrival).immediate
            if heard != message.sequence:
                text = f"immediate number {message.sequence} was sent, {heard} came"
                raise Broken("PROTOCOL", "immediate number", text)
            waiter.wait(waiter.credit(self._make_usable(message.way), "word of arrival"))
            self._judge(message, key)
        waiter.wait(waiter.credit(message.sequence + 1, "verdict"))

    def _make_usable(self, way: Way) -> int:
        """What it takes until the GPU sees the message; for a copy how long, in ``_TOLD_NS``."""
        if way == "direct":
            self._gpu.flush(self._at)
            return 0
        begun = time.perf_counter_ns()
        self._gpu.gpu.host_to_device(self._gpu.address + self._at, self._host_view)
        return min((time.perf_counter_ns() - begun) // _TOLD_NS, _MOST_TOLD)

    def _judge(self, message: _Message, key: Key) -> None:
        size = self._request.size_bytes
        judged = self._gpu.judge(key, self._at, size, BESIDE_BYTES, BESIDE_BYTES)
        if not judged.right:
            # Without this the source only waits until its deadline.
            self._waiter.wait(self._waiter.credit(STOP, "verdict"))
            mismatch = judged.verdict.by_cpu or judged.verdict.by_gpu
            raise _Wrong(message.way, mismatch, judged.beside)

    def _heard_ready(self, ready: int, expected: int) -> None:
        heard = self._waiter.wait(ready).immediate
        if heard == STOP:
            raise _OtherEnd
        if heard != expected:
            raise Broken("PROTOCOL", "readiness", f"{expected} was awaited, {heard} came")

    def _greet(self) -> None:
        request = self._request
        agreed = request.model_dump(exclude={"command", "role"}), self._source_id
        self._waiter.greet(request.role, agreed)

    def _key(self, message: _Message) -> Key:
        return Key(self._request.run_tag, message.sequence, 0, self._source_id)

    def _found(self, own: RegionKey, far: RegionKey) -> _Regions:
        size = self._request.size_bytes
        found = _Regions(self._endpoint.local(own), self._endpoint.remote_region(far), size)
        for begin, length in (
            (found.begin, found.local.payload.length_bytes),
            (found.target.offset, found.remote.length_bytes),
        ):
            if begin + size + BESIDE_BYTES > length:
                text = f"{size} B from byte {begin} on do not fit into {length} B of {own.text()}"
                raise VerbsError(text, step="staged")
        return found


def _host_like(key: RegionKey) -> RegionKey:
    return RegionKey(memory="host", method="host", relaxed=key.relaxed)
