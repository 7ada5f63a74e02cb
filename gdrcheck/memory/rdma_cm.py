"""Numbers made by a GPU's kernel, sent by rdma_cm: from mapped pinned memory, and from the GPU's.

One end of one exchange. The source's kernel writes even numbers, a SEND_WITH_IMM carries them, and
the sink checks the immediate and every number, by its GPU and by its CPU.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from gdrcheck import likeness, steps
from gdrcheck.gpu.buffers import Buffer, allocate
from gdrcheck.gpu.engine import EVEN, Engine, engine_of
from gdrcheck.gpu.flush import BY_READ, flush_remote_writes
from gdrcheck.gpu.session import Session
from gdrcheck.memory.chosen import chosen_gpu
from gdrcheck.memory.path import loopback_path
from gdrcheck.memory.recorder import Recorder, Stopped
from gdrcheck.memory.registering import Range, Registrar, insist, looked_at
from gdrcheck.mismatch import Verdict
from gdrcheck.profile import Profile
from gdrcheck.verbs.buffer import HostBuffer
from gdrcheck.verbs.cm import CmEnd, Piece, open_end
from gdrcheck.verbs.cm_protocol import (
    IMMEDIATE,
    MESSAGE_BYTES,
    CmMessage,
    CmMethod,
    CmReport,
    Go,
    Prepare,
    Prepared,
)
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.link import Completion
from gdrcheck.verbs.loopback import open_loopback
from gdrcheck.verbs.memory import REMOTE, Registration, register
from gdrcheck.verbs.protocol import DEADLINE, CompletionError

_SHOWN = 5


class RegistrationRefused(VerbsError):
    """GPU memory does not register. ``name`` is that of the CUDA error, None if it was verbs'."""

    def __init__(self, recorder: Recorder) -> None:
        refusal = recorder.refusal
        text = refusal.text if refusal else "refused"
        self.name = refusal.cuda if refusal else None
        step = refusal.stage if refusal else "register"
        super().__init__(text, step=step, error_number=refusal.errno if refusal else None)


class _Broken(Exception):
    """A message did not complete; ends the exchange."""

    def __init__(self, error: CompletionError) -> None:
        self.error = error
        super().__init__(error.text)


class CmExchange:
    """One end, ready: memory made, filled or poisoned, registered; the sink listens.

    ``go`` it once, then ``close`` it in any case. VerbsError and CudaError as the drivers refuse.
    """

    def __init__(self, request: Prepare, session: Session) -> None:
        self._request = request
        with contextlib.ExitStack() as stack:
            self._gpu = chosen_gpu(session, request.gpu, emulated=request.emulated)
            self._engine: Engine = engine_of(self._gpu)
            kind = request.memory
            length = MESSAGE_BYTES * len(request.methods)
            self._buffer = stack.enter_context(allocate(self._gpu, length, kind))
            self._end: CmEnd = stack.enter_context(
                open_end(request.address, request.device, request.port)
            )
            self._regions = {
                method: stack.enter_context(self._registered(method))
                for method in dict.fromkeys(request.methods)
            }
            for number in range(len(request.methods)):
                self._prepare(number)
            # The NIC must neither read nor write before the GPU is done.
            self._gpu.synchronize()
            if request.role == "sink":
                self._end.listen()
            self._stack = stack.pop_all()

    def prepared(self) -> Prepared:
        """Where the sink listens."""
        return Prepared(port=self._end.port if self._request.role == "sink" else None)

    def go(self, request: Go) -> CmReport:
        """Connect, move every message, judge. What went wrong with the data is in the report."""
        begun = time.monotonic()
        token = bytes.fromhex(self._request.token)
        pieces = [self._piece(number) for number in range(len(self._request.methods))]
        sink = self._request.role == "sink"
        if sink:
            self._end.accept(token, pieces)
        else:
            self._end.connect(request.address, request.port, token)
        connect_s = time.monotonic() - begun
        messages: list[CmMessage] = []
        error: CompletionError | None = None
        try:
            for number, piece in enumerate(pieces):
                move = self._arrived if sink else self._sent
                messages.append(move(number, piece))
        except _Broken as broken:
            error = broken.error
        right = error is None and all(message.wrong == "" for message in messages)
        return CmReport(
            role=self._request.role,
            memory=self._request.memory,
            messages=tuple(messages),
            completed=right,
            completion_error=error,
            gpu=f"{self._gpu.device.name} at {self._gpu.device.slot}",
            connect_s=connect_s,
        )

    def close(self) -> None:
        """Undo everything, the last first."""
        self._stack.close()

    def _offset(self, number: int) -> int:
        return number * MESSAGE_BYTES

    def _piece(self, number: int) -> Piece:
        region = self._regions[self._request.methods[number]]
        return Piece(region.at(self._offset(number), MESSAGE_BYTES), MESSAGE_BYTES, region.lkey)

    def _prepare(self, number: int) -> None:
        what = "fill" if self._request.role == "source" else "poison"
        with steps.step(f"cuLaunchKernel to {what} message {number} on {self._gpu.device.slot}"):
            write = (
                self._engine.fill_even
                if self._request.role == "source"
                else self._engine.poison_even
            )
            write(self._buffer, self._offset(number), MESSAGE_BYTES)

    @contextmanager
    def _registered(self, method: CmMethod) -> Iterator[Registration]:
        if method == "host":
            address = _host_address(self._buffer)
            with register(self._end.device, address, self._buffer.length_bytes, REMOTE) as region:
                yield region
            return
        recorder = Recorder()
        whole = Range("whole", 0, self._buffer.length_bytes)
        with contextlib.ExitStack() as stack:
            try:
                insist(recorder, looked_at(recorder, self._buffer))
                registrar = Registrar(recorder, self._end.device, method)
                made = stack.enter_context(registrar.registered(self._buffer, whole))
            except Stopped as stopped:
                raise RegistrationRefused(recorder) from stopped
            yield made.registration

    def _sent(self, number: int, piece: Piece) -> CmMessage:
        self._end.send(number, piece, IMMEDIATE)
        self._completion(number, f"SEND_WITH_IMM, message {number}")
        return CmMessage(
            method=self._request.methods[number], address=piece.address, first=self._first(number)
        )

    def _arrived(self, number: int, piece: Piece) -> CmMessage:
        completion = self._completion(number, f"receive of message {number}")
        flushed = self._flush(number)
        with steps.step(f"cuLaunchKernel to verify message {number} on {self._gpu.device.slot}"):
            verdict = self._verdict(number)
        return CmMessage(
            method=self._request.methods[number],
            address=piece.address,
            first=self._first(number),
            immediate=completion.immediate,
            by_gpu=verdict.by_gpu,
            by_cpu=verdict.by_cpu,
            flushed=flushed,
        )

    def _completion(self, number: int, what: str) -> Completion:
        """The completion of a work request. _Broken if it fails or takes too long."""
        deadline = time.monotonic() + self._request.completion_s
        with steps.step(f"wait for the {what}"):
            while (wait_s := deadline - time.monotonic()) > 0:
                completion = self._end.next(wait_s)
                if completion is None:
                    continue
                if completion.status != "SUCCESS" or completion.work_id != number:
                    text = (
                        f"{what}: completed with {completion.status}, "
                        f"vendor error {completion.vendor_error:#x}"
                    )
                    raise _broken(number, what, text, completion.status, completion.vendor_error)
                return completion
        text = f"{what}: not completed within {self._request.completion_s:g} s"
        raise _broken(number, what, text, DEADLINE)

    def _flush(self, number: int) -> str:
        """Make what the NIC wrote visible to the GPU, as its attributes call for."""
        if self._request.memory == "pinned":
            return "not needed (host memory)"
        flushed = flush_remote_writes(self._gpu)
        if flushed == BY_READ:
            self._read_back(number)
        return flushed

    def _read_back(self, number: int) -> None:
        device, completion_s = self._end.device, self._request.completion_s
        path = loopback_path(device, self._request.port, Profile(), completion_s)
        byte = HostBuffer(1)
        place = (self._regions[self._request.methods[number]], self._offset(number))
        with (
            register(device, byte.payload_address, 1, REMOTE) as region,
            open_loopback(device, path) as loopback,
        ):
            loopback.move("READ", place, (region, 0), 1, completion_s)

    def _verdict(self, number: int) -> Verdict:
        offset = self._offset(number)
        verdict = self._engine.verify_even(self._buffer, offset, MESSAGE_BYTES)
        view = self._buffer.host_view
        if view is None:
            return verdict
        # The CPU's own look at pinned memory, not a copy by the driver.
        expected = likeness.Expected(EVEN, 0, MESSAGE_BYTES)
        by_cpu = likeness.verify(lambda at, size: view[offset + at :][:size], expected)
        return Verdict(verdict.by_gpu, by_cpu)

    def _first(self, number: int) -> tuple[int, ...]:
        """The first elements of a message as they lie in memory."""
        offset = self._offset(number)
        shown = np.empty(8 * _SHOWN, dtype=np.uint8)
        if self._buffer.host_view is not None:
            shown[:] = self._buffer.host_view[offset : offset + len(shown)]
        else:
            self._gpu.device_to_host(self._buffer.address + offset, shown)
        return tuple(int(element) for element in shown.view("<u8"))


def _broken(number: int, what: str, text: str, status: str, vendor_error: int = 0) -> _Broken:
    return _Broken(
        CompletionError(
            status=status,
            vendor_error=vendor_error,
            operation=what,
            iteration=number,
            size_bytes=MESSAGE_BYTES,
            text=text,
        )
    )


def _host_address(buffer: Buffer) -> int:
    if buffer.host_view is None:
        raise VerbsError("memory of the GPU does not register as host memory", step="register")
    return int(buffer.host_view.ctypes.data)
