"""One end of a reliable connection: completion queue, queue pair, and its work requests."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gdrcheck.pattern import Bytes
from gdrcheck.verbs.buffer import HostBuffer
from gdrcheck.verbs.compat import (
    SGE,
    RecvWR,
    SendWR,
    enums,
)
from gdrcheck.verbs.completion_queue import QUEUE_DEPTH, CompletionQueue
from gdrcheck.verbs.device import Device
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.link import Completion, Verb
from gdrcheck.verbs.memory import Registration
from gdrcheck.verbs.mtu import agreed_mtu
from gdrcheck.verbs.protocol import EndpointInfo
from gdrcheck.verbs.queue_pair import (
    Address,
    Path,
    QueuePair,
    next_completion,
    open_queue_pair,
)


class Endpoint:
    """A reliable queue pair over a host buffer; a ``link.Link``. Made by ``open_endpoint``.

    One completion queue serves both directions. Work requests are built once per shape and reused:
    building one costs more than posting it.
    """

    def __init__(
        self,
        path: Path,
        buffer: HostBuffer,
        registration: Registration,
        queue: CompletionQueue,
        pair: QueuePair,
    ) -> None:
        self._path = path
        self._buffer = buffer
        self._registration = registration
        self.queue = queue
        self._pair = pair
        self.qp = pair.qp
        self.remote: EndpointInfo | None = None
        self._sends: dict[tuple[Verb, int, int], Any] = {}
        self._receives: dict[tuple[int, int], Any] = {}

    # --- connecting -----------------------------------------------------------------------------

    def info(self) -> EndpointInfo:
        """What the other end needs to connect."""
        path, address = self._path, self._pair.address
        return EndpointInfo(
            qpn=address.qpn,
            psn=address.psn,
            gid=address.gid,
            lid=address.lid,
            link_layer=path.port.link_layer,
            mtu=path.local_mtu,
            payload_address=self._registration.address
            + (self._buffer.payload_address - self._buffer.address),
            payload_rkey=self._registration.rkey,
            payload_bytes=self._buffer.payload_bytes,
        )

    def connect(self, remote: EndpointInfo) -> int:
        """Bring the queue pair to RTS towards ``remote``; the path MTU in bytes.

        VerbsError naming the transition that the device refused, or the promised path MTU that
        the other end does not offer.
        """
        local = self.info()
        if remote.link_layer != local.link_layer:
            raise VerbsError(
                f"this port is {local.link_layer}, the other end's is {remote.link_layer}",
                step="connect",
            )
        mtu = agreed_mtu(local.mtu, remote.mtu, self._path.promised_mtu)
        self._pair.connect(Address(remote.qpn, remote.psn, remote.gid, remote.lid), mtu)
        self.remote = remote
        return mtu

    @property
    def smaller_payload_bytes(self) -> int:
        """What fits into the payloads of both ends."""
        theirs = self.remote.payload_bytes if self.remote else self._buffer.payload_bytes
        return min(self._buffer.payload_bytes, theirs)

    # --- link.Link ------------------------------------------------------------------------------

    @property
    def payload(self) -> Bytes:
        """The memory that the NIC reads and writes."""
        return self._buffer.payload

    def guard_damage(self) -> str | None:
        """What happened to the guards around the payload; None if nothing."""
        return self._buffer.guard_damage()

    def post_receive(self, work_id: int, start: int, length: int) -> None:
        """Post a receive for a message; length 0 is for one without data."""
        request = self._receives.get((start, length))
        if request is None:
            request = self._receives[start, length] = self.receive_request(start, length)
        request.wr_id = work_id
        self._pair.post_receive(request, f"of {length} B")

    def post(self, work_id: int, verb: Verb, start: int, length: int, immediate: int) -> None:
        """Post an operation, signaled."""
        request = self._sends.get((verb, start, length))
        if request is None:
            request = self._sends[verb, start, length] = self.send_request(verb, start, length)
        request.wr_id = work_id
        request.imm_data = socket.htonl(immediate)
        self._pair.post_send(request, f"{verb} of {length} B")

    def poll(self, wait_s: float = 0) -> Completion | None:
        """The next completion, None if there is none; blocks for ``wait_s`` at the most."""
        return next_completion(self.queue, wait_s)

    # --- work requests --------------------------------------------------------------------------

    def receive_request(self, start: int, length: int) -> Any:
        """A receive for a piece of the payload. Close it after use."""
        element = self._element(start, length)
        request = RecvWR(num_sge=1, sg=[element])
        element.close()
        if length == 0:
            request.num_sge = 0
        return request

    def send_request(self, verb: Verb, start: int, length: int, *, signaled: bool = True) -> Any:
        """An operation on a piece of the payload; one-sided to the same place of the remote one.

        Close it after use.
        """
        codes = enums.ibv_wr_opcode
        code = {
            "CREDIT": codes.IBV_WR_SEND_WITH_IMM,
            "SEND": codes.IBV_WR_SEND,
            "WRITE": codes.IBV_WR_RDMA_WRITE,
            "WRITE_WITH_IMM": codes.IBV_WR_RDMA_WRITE_WITH_IMM,
            "READ": codes.IBV_WR_RDMA_READ,
        }[verb]
        flags = enums.ibv_send_flags.IBV_SEND_SIGNALED if signaled else 0
        element = self._element(start, length)
        request = SendWR(opcode=code, num_sge=1, sg=[element], send_flags=flags)
        element.close()
        if length == 0:
            request.num_sge = 0
        if verb in ("WRITE", "WRITE_WITH_IMM", "READ"):
            if self.remote is None:
                raise VerbsError(f"{verb} before the queue pair is connected", step=verb)
            request.set_wr_rdma(self.remote.payload_rkey, self.remote.payload_address + start)
        return request

    def _element(self, start: int, length: int) -> Any:
        base = self._registration.address + (self._buffer.payload_address - self._buffer.address)
        return SGE(base + start, length, self._registration.lkey)

    def close_requests(self) -> None:
        """Free the memory of all cached work requests (pyverbs up to 64 leaks it otherwise)."""
        for request in (*self._sends.values(), *self._receives.values()):
            request.close()
        self._sends.clear()
        self._receives.clear()


@contextmanager
def open_endpoint(
    device: Device,
    path: Path,
    buffer: HostBuffer,
    registration: Registration,
    queue: CompletionQueue,
) -> Iterator[Endpoint]:
    """A queue pair in state INIT, with the greeting's receive not yet posted.

    Destroyed at the end of the block, and its leftovers in the completion queue are dropped.
    """
    with (
        open_queue_pair(device, path, queue, QUEUE_DEPTH) as pair,
        contextlib.ExitStack() as stack,
    ):
        endpoint = Endpoint(path, buffer, registration, queue, pair)
        stack.callback(endpoint.close_requests)
        yield endpoint
