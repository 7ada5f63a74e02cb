"""Data through one NIC's loop-back, in and out of GPU memory, every byte verified.

A registration proves nothing: with a wrong mapping type or a wrong offset the memory registers, and
the first transfer fails or lands elsewhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gdrcheck import steps
from gdrcheck.gpu.buffers import Buffer, allocate
from gdrcheck.gpu.context import Gpu
from gdrcheck.gpu.export import Flag
from gdrcheck.gpu.flush import BY_READ, flush_remote_writes
from gdrcheck.memory.ends import End, GpuEnd, HostEnd, Piece, Zone
from gdrcheck.memory.recorder import Recorder, Stopped
from gdrcheck.memory.registering import Range, Registrar, insist, looked_at
from gdrcheck.pattern import Key
from gdrcheck.registration import WAYS, Method, Moved, Movement, Operation, Way
from gdrcheck.verbs.buffer import PAGE_BYTES, HostBuffer
from gdrcheck.verbs.device import Device
from gdrcheck.verbs.loopback import Loopback, Place, open_loopback
from gdrcheck.verbs.memory import REMOTE, Registration, register
from gdrcheck.verbs.queue_pair import Path

OPERATIONS: tuple[Operation, ...] = ("WRITE", "READ")


@dataclass(frozen=True)
class Shape:
    """One message: its length, and where it lies in the region of either end."""

    length_bytes: int
    source_offset: int
    sink_offset: int


# Source and sink.
Ends = tuple[End, End]


@dataclass(frozen=True)
class _Opened:
    """``byte`` is one of host memory, for flushing by a READ."""

    ends: dict[Way, Ends]
    loopback: Loopback
    byte: Registration


# One byte; one word; up to a cache line, a page, 64 KiB and 1 MiB, and past them. Starts that are
# aligned neither to each other nor to a word.
SHAPES = (
    Shape(1, 0, 7),
    Shape(8, 1, 0),
    Shape(63, 13, 4093),
    Shape(4096, 5, 2),
    Shape(65_537, 4095, 1),
    Shape((1 << 20) + 13, 3, 11),
)
# Regions begin inside of a page, and their ends lie beyond the largest message.
_BEGIN = 12_345
_REGION_BYTES = (1 << 20) + 2 * PAGE_BYTES + 1
_BUFFER_BYTES = _BEGIN + 2 * _REGION_BYTES + 3 * PAGE_BYTES


def move(
    gpu: Gpu,
    device: Device,
    path: Path,
    method: Method,
    *,
    shapes: tuple[Shape, ...] = SHAPES,
) -> Movement:
    """What became of moving data between memory of ``gpu`` and itself, and it and host memory.

    Each way by WRITE and by READ, a message of each shape, through two queue pairs of ``path``'s
    port. Before each, the sink is poisoned and all around both messages is known; after it, what
    the NIC wrote is flushed towards the GPU, and every byte is verified, those around as well.
    Wrong bytes are in the result and do not end it; the first refusal of a driver does. Everything
    is undone on return: queue pairs, regions, descriptors, memory. Raises only ProbeError, when a
    verifier did not do its work.
    """
    return _Move(gpu, device, path, method).run(shapes)


class _Move:
    def __init__(self, gpu: Gpu, device: Device, path: Path, method: Method) -> None:
        self._gpu = gpu
        self._device = device
        self._path = path
        self._method: Method = method
        self._recorder = Recorder()
        self._moved: list[Moved] = []
        # What is being done.
        self._way: Way | None = None
        self._operation: Operation | None = None
        self._flag: Flag | None = None
        identity = f"{gpu.device.uuid} {device.name}".encode()
        self._source_id = int.from_bytes(hashlib.sha256(identity).digest()[:8], "little")
        # No pattern of an earlier run, left in memory, can be taken for this one's.
        self._run_tag = secrets.randbits(64)

    def run(self, shapes: tuple[Shape, ...]) -> Movement:
        """All transfers, and what became of them."""
        with contextlib.suppress(Stopped), self._opened() as opened:
            for way in WAYS:
                for operation in OPERATIONS:
                    self._way, self._operation = way, operation
                    for shape in shapes:
                        with self._recorder.stage("move", length_bytes=shape.length_bytes):
                            self._moved.append(self._transfer(opened, way, operation, shape))
            self._way = self._operation = None
        failure = self._recorder.failure
        return Movement(
            method=self._method,
            moved=tuple(self._moved),
            refusal=self._recorder.refusal,
            way=self._way,
            operation=self._operation,
            status=failure.status if failure else None,
            vendor_error=failure.vendor_error if failure else None,
            flag=self._flag,
        )

    def _transfer(self, opened: _Opened, way: Way, operation: Operation, shape: Shape) -> Moved:
        """One message: prepare both ends, move it, flush, verify."""
        source, sink = opened.ends[way]
        length, start = shape.length_bytes, shape.source_offset
        sent, arrived = Piece(start, length), Piece(shape.sink_offset, length)
        key = self._key(way, operation)
        slot = self._gpu.device.slot
        with steps.only(f"cuLaunchKernel to fill and poison {length} B on {slot}, {way}"):
            source.surround(key)
            sink.surround(key)
            source.fill(key, sent)
            sink.poison(key, arrived, start)
            # The NIC must neither read nor write before the GPU is done.
            self._gpu.synchronize()
        from_place = (source.registration, sent.offset_bytes)
        to_place = (sink.registration, arrived.offset_bytes)
        opened.loopback.move(operation, from_place, to_place, length, self._path.completion_s)
        flushed = self._flush(opened, to_place) if sink.is_gpu else "not needed (host memory)"
        with steps.only(f"cuLaunchKernel to verify {length} B on {slot}, {way}"):
            verdict = sink.verify(key, arrived, start, source)
            spilled = (
                sink.damage(key, arrived) or source.damage(key, sent) or source.changed(key, sent)
            )
        return Moved(
            way=way,
            operation=operation,
            length_bytes=length,
            sink_is_gpu=sink.is_gpu,
            by_gpu=verdict.by_gpu,
            by_cpu=verdict.by_cpu,
            spilled=spilled,
            flushed=flushed,
        )

    def _key(self, way: Way, operation: Operation) -> Key:
        direction = len(OPERATIONS) * WAYS.index(way) + OPERATIONS.index(operation)
        return Key(self._run_tag, len(self._moved), direction, self._source_id)

    def _flush(self, opened: _Opened, written: Place) -> str:
        """Make what the NIC wrote visible to the GPU, as its attributes call for."""
        flushed = flush_remote_writes(self._gpu)
        if flushed == BY_READ:
            opened.loopback.move("READ", written, (opened.byte, 0), 1, self._path.completion_s)
        return flushed

    @contextmanager
    def _opened(self) -> Iterator[_Opened]:
        """Memory on both sides, registered; the queue pairs above it, so that they close first."""
        recorder, device = self._recorder, self._device
        registrar = Registrar(recorder, device, self._method)
        with contextlib.ExitStack() as stack:
            memory = allocate(self._gpu, _BUFFER_BYTES)
            held = recorder.held(memory, "allocate", "allocate", length_bytes=_BUFFER_BYTES)
            buffer = stack.enter_context(held).resource
            insist(recorder, looked_at(recorder, buffer))
            low, high = (
                stack.enter_context(registrar.registered(buffer, place))
                for place in (
                    Range("first neighbour", _BEGIN, _REGION_BYTES),
                    Range("second neighbour", _BEGIN + _REGION_BYTES, _REGION_BYTES),
                )
            )
            self._flag = low.exported.flag if low.exported else None
            with recorder.stage("allocate"):
                host = HostBuffer(_BEGIN + _REGION_BYTES + PAGE_BYTES)
                byte = HostBuffer(1)
            host_region = self._host_region(stack, host.payload_address + _BEGIN, _REGION_BYTES)
            byte_region = self._host_region(stack, byte.payload_address, 1)
            opening = recorder.held(open_loopback(device, self._path), "connect", "connect")
            loopback = stack.enter_context(opening).resource
            with recorder.stage("allocate"):
                ends = _ends(buffer, host, low.registration, high.registration, host_region)
            yield _Opened(ends, loopback, byte_region)

    def _host_region(
        self, stack: contextlib.ExitStack, address: int, length_bytes: int
    ) -> Registration:
        region = register(self._device, address, length_bytes, REMOTE)
        held = self._recorder.held(region, "register", "deregister", length_bytes=length_bytes)
        return stack.enter_context(held).resource


def _ends(
    buffer: Buffer, host: HostBuffer, low: Registration, high: Registration, far: Registration
) -> dict[Way, Ends]:
    """The ends of each way. What lies in GPU memory outside the sink's zone is in the source's."""
    border, end = _BEGIN + _REGION_BYTES, buffer.length_bytes
    in_host = Zone(0, _BEGIN, host.payload_bytes)
    return {
        "gpu to gpu": (
            GpuEnd("source", Zone(0, _BEGIN, border), low, buffer),
            GpuEnd("sink", Zone(border, border, end), high, buffer),
        ),
        "gpu to host": (
            GpuEnd("source", Zone(0, _BEGIN, end), low, buffer),
            HostEnd("sink", in_host, far, host),
        ),
        "host to gpu": (
            HostEnd("source", in_host, far, host),
            GpuEnd("sink", Zone(0, border, end), high, buffer),
        ),
    }
