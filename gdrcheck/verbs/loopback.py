"""Two queue pairs of one port, connected to each other: data through one NIC, without another end.

Every transfer is between places of two registrations, which may be of any memory: nothing is sent
inline, and ``open_device`` has switched off what would copy with the CPU.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gdrcheck.registration import Operation
from gdrcheck.sizes import size_text
from gdrcheck.verbs.compat import SGE, RecvWR, SendWR, enums, verbs_step
from gdrcheck.verbs.completion_queue import CompletionQueue, open_completion_queue
from gdrcheck.verbs.device import Device
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.link import Completion
from gdrcheck.verbs.memory import Registration
from gdrcheck.verbs.protocol import DEADLINE
from gdrcheck.verbs.queue_pair import Path, QueuePair, next_completion, open_queue_pair

# A place in a registration: it, and the offset in it.
Place = tuple[Registration, int]

_DEPTH = 16
_DATA, _TOLD, _HEARD = 1, 2, 3


class Loopback:
    """Moves data within one device. Made by ``open_loopback``.

    After a VerbsError of ``move`` the queue pairs are used up: open another.
    """

    def __init__(
        self, device: Device, queue: CompletionQueue, near: QueuePair, far: QueuePair
    ) -> None:
        self._device = device
        self._queue = queue
        self._near = near
        self._far = far

    def move(
        self,
        operation: Operation,
        source: Place,
        sink: Place,
        length_bytes: int,
        deadline_s: float,
    ) -> None:
        """Move ``length_bytes`` from ``source`` to ``sink`` by one RDMA operation.

        When this returns, the end that owns the sink has a completion: of the READ itself, or of an
        empty SEND that followed the WRITE. The completion of a WRITE alone would not order what the
        sink's owner reads. Flushing what the NIC wrote towards a GPU is the caller's.

        VerbsError, with ``status`` and ``vendor_error``, if a completion says so; with the status
        ``DEADLINE`` if what was posted has not completed within ``deadline_s``.
        """
        what = f"RDMA {operation} of {size_text(length_bytes)} through {self._device.name}"
        awaited = {_DATA: what}
        with verbs_step(what), contextlib.ExitStack() as stack:
            request = _kept(stack, _transfer(operation, source, sink, length_bytes))
            if operation == "WRITE":
                awaited |= {_HEARD: f"receive after {what}", _TOLD: f"SEND after {what}"}
                self._far.post_receive(_kept(stack, _receive(_HEARD)), awaited[_HEARD])
            self._near.post_send(request, what)
            if operation == "WRITE":
                self._near.post_send(_kept(stack, _empty_send(_TOLD)), awaited[_TOLD])
            self._wait_for(awaited, deadline_s)

    def _wait_for(self, awaited: dict[int, str], deadline_s: float) -> None:
        deadline = time.monotonic() + deadline_s
        flushed: VerbsError | None = None
        while awaited:
            wait_s = deadline - time.monotonic()
            if wait_s <= 0:
                step = next(iter(awaited.values()))
                text = f"{step}: not completed within {deadline_s:g} s"
                raise flushed or VerbsError(text, step=step, status=DEADLINE)
            completion = next_completion(self._queue, wait_s)
            if completion is None:
                continue
            what = awaited.pop(completion.work_id, f"work request {completion.work_id}")
            if completion.status == "SUCCESS":
                continue
            if completion.status != "WR_FLUSH_ERR":
                raise _failed(what, completion)
            # It only repeats a fault that another completion is about to tell.
            flushed = flushed or _failed(what, completion)
        if flushed is not None:
            raise flushed


def _failed(what: str, completion: Completion) -> VerbsError:
    return VerbsError(
        f"{what}: completed with {completion.status}, vendor error {completion.vendor_error:#x}",
        step=what,
        status=completion.status,
        vendor_error=completion.vendor_error,
    )


def _kept(stack: contextlib.ExitStack, request: Any) -> Any:
    # pyverbs up to 64 leaks the memory of work requests that are not closed.
    stack.callback(request.close)
    return request


def _transfer(operation: Operation, source: Place, sink: Place, length_bytes: int) -> Any:
    """The work request: a WRITE is posted where the source is local, a READ where the sink is."""
    (local, local_offset), (remote, remote_offset) = (
        (source, sink) if operation == "WRITE" else (sink, source)
    )
    here = local.at(local_offset, length_bytes)
    there = remote.at(remote_offset, length_bytes)
    codes = enums.ibv_wr_opcode
    opcode = codes.IBV_WR_RDMA_WRITE if operation == "WRITE" else codes.IBV_WR_RDMA_READ
    request = _send(_DATA, opcode, SGE(here, length_bytes, local.lkey))
    request.set_wr_rdma(remote.rkey, there)
    return request


def _empty_send(work_id: int) -> Any:
    request = _send(work_id, enums.ibv_wr_opcode.IBV_WR_SEND, SGE(0, 0, 0))
    request.num_sge = 0
    return request


def _send(work_id: int, opcode: int, element: Any) -> Any:
    signaled = enums.ibv_send_flags.IBV_SEND_SIGNALED
    request = SendWR(wr_id=work_id, opcode=opcode, num_sge=1, sg=[element], send_flags=signaled)
    element.close()
    return request


def _receive(work_id: int) -> Any:
    element = SGE(0, 0, 0)
    request = RecvWR(wr_id=work_id, num_sge=1, sg=[element])
    element.close()
    request.num_sge = 0
    return request


@contextmanager
def open_loopback(device: Device, path: Path) -> Iterator[Loopback]:
    """Two queue pairs of the path's port, connected to each other; destroyed at the block's end.

    Close it before the registrations that it used. VerbsError if the device refuses a step.
    """
    with (
        open_completion_queue(device) as queue,
        open_queue_pair(device, path, queue, _DEPTH) as near,
        open_queue_pair(device, path, queue, _DEPTH) as far,
    ):
        near.connect(far.address, path.local_mtu)
        far.connect(near.address, path.local_mtu)
        yield Loopback(device, queue, near, far)
