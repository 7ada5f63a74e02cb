"""Memory of one GPU for an endpoint child, registered by each method with and without relaxed
ordering.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gdrcheck.gpu.buffers import Buffer, allocate
from gdrcheck.gpu.context import Gpu
from gdrcheck.gpu.flush import BY_READ, flush_remote_writes
from gdrcheck.gpu.session import Session
from gdrcheck.memory.chosen import chosen_gpu
from gdrcheck.memory.opened import RELAXED, UNALIGNED_BYTES, Opened, Regions
from gdrcheck.memory.payload import GUARD_BYTES, GpuPayload
from gdrcheck.memory.recorder import Recorder, Stopped
from gdrcheck.memory.registering import Range, Registered, Registrar, insist, looked_at
from gdrcheck.memory.sizes import allowed
from gdrcheck.outcome import ProbeError
from gdrcheck.transfer import FAR_BYTES, RegionKey
from gdrcheck.verbs import protocol
from gdrcheck.verbs.loopback import open_loopback
from gdrcheck.verbs.memory import Registration, access_of, register_host
from gdrcheck.verbs.regions import LocalRegion

_PAYLOAD_OFFSET = GUARD_BYTES - UNALIGNED_BYTES


class GpuRefused(ProbeError):
    """Memory of the GPU could not be had or registered.

    ``cuda`` is the name of a CUDA error, None when it was the NIC's driver that refused.
    """

    def __init__(self, text: str, *, step: str, error_number: int | None, cuda: str | None) -> None:
        self.cuda = cuda
        super().__init__(text, step=step, error_number=error_number)


def open_gpu_memory(
    stack: contextlib.ExitStack, opened: Opened, request: protocol.OpenGpu
) -> tuple[protocol.GpuOpened, Regions]:
    """The GPU of the request and its registered memory, undone by ``stack``.

    CudaError, GpuRefused or another ProbeError if a step is refused.
    """
    session = Session()
    stack.callback(_close, session)
    gpu = chosen_gpu(session, request.gpu, emulated=request.emulated)
    recorder = Recorder()
    stack.enter_context(_told(recorder))
    buffer, far_refused = _allocated(stack, recorder, gpu, request)
    made = _registered(stack, recorder, opened, buffer, request)
    how = flush_remote_writes(gpu)
    read_back = None
    if how == BY_READ:
        read_back = _reader(stack, opened, next(iter(made.values())).registration)
    payload = GpuPayload(buffer, opened.pattern, read_back)
    regions = {
        key: LocalRegion(key, payload, one.registration, _PAYLOAD_OFFSET)
        for key, one in made.items()
    }
    described = protocol.GpuOpened(
        name=gpu.device.name,
        uuid=gpu.device.uuid,
        slot=gpu.device.slot,
        emulated=request.emulated,
        flush=how,
        payload_bytes=payload.length_bytes,
        far_refused=far_refused,
        regions=tuple(
            protocol.RegionInfo(
                key=key,
                address=regions[key].address(0, payload.length_bytes),
                mapping=one.exported.flag if one.exported else "",
            )
            for key, one in made.items()
        ),
    )
    return described, regions


def _allocated(
    stack: contextlib.ExitStack, recorder: Recorder, gpu: Gpu, request: protocol.OpenGpu
) -> tuple[Buffer, str]:
    """The memory, proven to be the GPU's, and why it does not reach far."""
    length, far_refused = request.buffer_bytes + 2 * GUARD_BYTES, ""
    if request.far:
        free_bytes, _ = gpu.memory_info()
        wanted = (length, length + FAR_BYTES)
        # Each registration may take its own part of BAR1.
        ways = len(request.methods) * len(RELAXED)
        bar1_bytes = None if request.bar1_bytes is None else request.bar1_bytes // ways
        sizes, why_not = allowed(wanted, free_bytes, bar1_bytes)
        if wanted[1] in sizes:
            length = wanted[1]
        else:
            far_refused = f"{why_not} (registered {ways} times)"
    memory = recorder.held(allocate(gpu, length), "allocate", "allocate", length_bytes=length)
    buffer = stack.enter_context(memory).resource
    insist(recorder, looked_at(recorder, buffer))
    return buffer, far_refused


def _registered(
    stack: contextlib.ExitStack,
    recorder: Recorder,
    opened: Opened,
    buffer: Buffer,
    request: protocol.OpenGpu,
) -> dict[RegionKey, Registered]:
    place = Range("interior", UNALIGNED_BYTES, buffer.length_bytes - 2 * UNALIGNED_BYTES)
    made = {}
    for method in request.methods:
        for relaxed in RELAXED:
            access = access_of(relaxed=relaxed, atomics=opened.request.atomics)
            registrar = Registrar(recorder, opened.device, method, access)
            key = RegionKey(memory="gpu", method=method, relaxed=relaxed)
            made[key] = stack.enter_context(registrar.registered(buffer, place))
    return made


def _reader(
    stack: contextlib.ExitStack, opened: Opened, written: Registration
) -> Callable[[int], None]:
    """Reads a byte of the payload through the NIC, which pushes its writes before it."""
    into = stack.enter_context(register_host(opened.device, 1))
    loopback = stack.enter_context(open_loopback(opened.device, opened.path))

    def read(offset: int) -> None:
        place = (written, _PAYLOAD_OFFSET + offset)
        loopback.move("READ", place, (into, 0), 1, opened.path.completion_s)

    return read


@contextmanager
def _told(recorder: Recorder) -> Iterator[None]:
    """GpuRefused for what the recorder was told of, be it while opening or while closing."""
    try:
        yield
    except Stopped as stopped:
        refusal = recorder.refusal
        if refusal is None:
            raise
        raise GpuRefused(
            refusal.text,
            step=f"{refusal.stage} GPU memory",
            error_number=refusal.errno,
            cuda=refusal.cuda,
        ) from stopped


def _close(session: Session) -> None:
    for error in session.close().values():
        raise error
