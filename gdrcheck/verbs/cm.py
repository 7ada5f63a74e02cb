"""Connections by rdma_cm, by address and port, over memory that the caller registers.

The queue pairs that pyverbs makes for a connection can send neither an immediate nor a dma-buf; so
they are made here, and rdma_cm tells their attributes (rdma_init_qp_attr(3)). Its calls block, hold
the GIL and know no deadline: call them in a process that can be killed. The traffic class is the
node's default: pyverbs has no way to set it (``CMID.set_option`` in pyverbs/cmid.pyx).
"""

from __future__ import annotations

import contextlib
import errno
import random
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from gdrcheck.verbs.cm_compat import CMID, AddrInfo, CMEvent, CMEventChannel, ConnParam
from gdrcheck.verbs.compat import (
    QP,
    SGE,
    QPCap,
    QPInitAttr,
    RecvWR,
    SendWR,
    enums,
    owned,
    verbs_step,
)
from gdrcheck.verbs.completion_queue import CompletionQueue, open_completion_queue
from gdrcheck.verbs.device import Device
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.link import Completion
from gdrcheck.verbs.queue_pair import next_completion

# enum rdma_port_space, enum rdma_cm_event_type and the flags of rdma_addrinfo of rdma/rdma_cma.h,
# enum ibv_qp_state of libibverbs/verbs.h; the numbers are part of their ABIs.
_TCP = 0x0106
_ADDR_RESOLVED, _ROUTE_RESOLVED, _CONNECT_REQUEST, _CONNECT_RESPONSE, _ESTABLISHED = 0, 2, 4, 5, 9
_PASSIVE, _NUMERIC = 1, 2
_STATES = {"INIT": 1, "RTR": 2, "RTS": 3}
# pyverbs does not tell the port that rdma_cm would choose, so it is chosen here.
_PORTS = (20_000, 30_000)
_TRIES = 20
_RESOLVE_MS = 5000
_DEPTH = 16
# As for our other queue pairs: rxe takes the highest number for "for ever".
_RETRIES = 6
_STRANGERS = 16


@dataclass(frozen=True, slots=True)
class Piece:
    """One message's memory, as a work request names it."""

    address: int
    length_bytes: int
    lkey: int


class CmEnd:
    """One end of a connection: bound to an address, with a queue pair. Made by ``open_end``.

    ``device`` is what memory is registered with; ``port`` the number that was bound.
    """

    def __init__(
        self,
        stack: contextlib.ExitStack,
        channel: Any,
        identifier: Any,
        device: Device,
        port: int,
    ) -> None:
        self.device = device
        self.port = port
        self._stack = stack
        self._channel = channel
        self._identifier = identifier
        self._queue: CompletionQueue = stack.enter_context(open_completion_queue(device))
        self._pair = stack.enter_context(_queue_pair(device, self._queue))

    def listen(self) -> None:
        """Take calls from now on. VerbsError if it is refused."""
        with verbs_step(f"rdma_listen on port {self.port}"):
            self._identifier.listen(1)

    def accept(self, token: bytes, receives: Sequence[Piece]) -> None:
        """Wait for the call that brings ``token``, and for its connection to stand.

        The receives are posted before the caller can send, numbered from 0. Others are turned away.
        """
        caller = self._caller(token)
        self._become(caller, "INIT")
        for number, piece in enumerate(receives):
            self._post_receive(number, piece)
        self._become(caller, "RTR")
        self._become(caller, "RTS")
        with verbs_step("rdma_accept"):
            caller.accept(self._parameters())
        with self._event("wait for the accepted connection to stand", _ESTABLISHED):
            pass

    def connect(self, address: str, port: int, token: bytes) -> None:
        """Call ``address`` and ``port`` and wait for the connection to stand. VerbsError."""
        there = f"{address} port {port}"
        identifier = self._identifier
        with verbs_step(f"rdma_resolve_addr {there}"):
            info = AddrInfo(dst=address, dst_service=str(port), port_space=_TCP, flags=_NUMERIC)
            with contextlib.closing(info):
                identifier.resolve_addr(info, _RESOLVE_MS)
        with self._event(f"resolve the address {address}", _ADDR_RESOLVED):
            pass
        with verbs_step(f"rdma_resolve_route {there}"):
            identifier.resolve_route(_RESOLVE_MS)
        with self._event(f"resolve the route to {address}", _ROUTE_RESOLVED):
            pass
        with verbs_step(f"rdma_connect {there}"):
            identifier.connect(self._parameters(token))
        with self._event(f"wait for the answer of {there}", _CONNECT_RESPONSE):
            pass
        for state in _STATES:
            self._become(identifier, state)
        with verbs_step("rdma_establish"):
            identifier.establish()

    def send(self, number: int, piece: Piece, immediate: int) -> None:
        """Post a SEND_WITH_IMM. VerbsError if the device refuses it."""
        element = SGE(piece.address, piece.length_bytes, piece.lkey)
        request = SendWR(
            wr_id=number,
            opcode=enums.ibv_wr_opcode.IBV_WR_SEND_WITH_IMM,
            num_sge=1,
            sg=[element],
            send_flags=enums.ibv_send_flags.IBV_SEND_SIGNALED,
        )
        request.imm_data = socket.htonl(immediate)
        step = f"ibv_post_send SEND_WITH_IMM, message {number}"
        with contextlib.closing(element), contextlib.closing(request), verbs_step(step):
            self._pair.post_send(request)

    def next(self, wait_s: float) -> Completion | None:
        """The next completion; None if none came within ``wait_s``, or earlier."""
        return next_completion(self._queue, wait_s)

    def _post_receive(self, number: int, piece: Piece) -> None:
        element = SGE(piece.address, piece.length_bytes, piece.lkey)
        request = RecvWR(wr_id=number, num_sge=1, sg=[element])
        step = f"ibv_post_recv, message {number}"
        with contextlib.closing(element), contextlib.closing(request), verbs_step(step):
            self._pair.post_recv(request)

    def _caller(self, token: bytes) -> Any:
        """The identifier of the call that brings ``token``."""
        step = f"wait for the connection on port {self.port}"
        for _ in range(_STRANGERS):
            with self._event(step, _CONNECT_REQUEST) as event:
                came = bytes(event.private_data)[: len(token)]
                caller = CMID(creator=event, listen_id=self._identifier)
                # Closed at the end only: closing one takes the listener's device along.
                self._stack.enter_context(owned(caller, "rdma_destroy_id of a call"))
            if came == token:
                return caller
            with verbs_step("rdma_reject of a stranger's call"):
                caller.reject()
        raise VerbsError(f"{step}: {_STRANGERS} calls, none of them the other end's", step=step)

    def _become(self, identifier: Any, state: str) -> None:
        with verbs_step(f"ibv_modify_qp to {state} with the attributes of rdma_cm"):
            attributes, mask = identifier.init_qp_attr(_STATES[state])
            self._pair.modify(attributes, mask)

    def _parameters(self, token: bytes = b"") -> Any:
        parameters = ConnParam(
            retry=_RETRIES,
            rnr_retry=_RETRIES,
            qp_num=int(self._pair.qp_num),
            data_len=len(token),
        )
        if token:
            parameters.set_private_data(token)
        return parameters

    @contextmanager
    def _event(self, step: str, expected: int) -> Iterator[Any]:
        """The next event, acknowledged at the end of the block. VerbsError if it is another."""
        with verbs_step(step):
            event = CMEvent(self._channel)
        with owned(event, "rdma_ack_cm_event"):
            if int(event.event_type) != expected:
                came = str(event.event_str()).removeprefix("RDMA_CM_EVENT_")
                raise VerbsError(f"{step}: rdma_cm says {came}", step=step, status=came)
            yield event


@contextmanager
def open_end(address: str, device: str, number: int) -> Iterator[CmEnd]:
    """An end bound to ``address``, which must be of port ``number`` of ``device``.

    Everything is undone at the end of the block: undo first what was registered. VerbsError.
    """
    _check_address(address)
    with contextlib.ExitStack() as stack:
        with verbs_step("rdma_create_event_channel"):
            channel = stack.enter_context(owned(CMEventChannel(), "rdma_destroy_event_channel"))
        identifier, port = _bound(stack, channel, address)
        _check_port(identifier, address, device, number)
        opened = Device(device, identifier.context, identifier.pd)
        yield CmEnd(stack, channel, identifier, opened, port)


def _bound(stack: contextlib.ExitStack, channel: Any, address: str) -> tuple[Any, int]:
    """An identifier bound to the address and a free port."""
    for attempt in range(_TRIES):
        port = random.randrange(*_PORTS)
        try:
            with contextlib.ExitStack() as trial:
                with verbs_step("rdma_create_id"):
                    identifier = CMID(creator=channel, port_space=_TCP)
                trial.enter_context(owned(identifier, "rdma_destroy_id"))
                with verbs_step(f"rdma_bind_addr {address} port {port}"):
                    info = AddrInfo(
                        src=address,
                        src_service=str(port),
                        port_space=_TCP,
                        flags=_PASSIVE | _NUMERIC,
                    )
                    with contextlib.closing(info):
                        identifier.bind_addr(info)
                stack.push(trial.pop_all())
                return identifier, port
        except VerbsError as refused:
            taken = (errno.EADDRINUSE, errno.EADDRNOTAVAIL)
            if refused.error_number not in taken or attempt == _TRIES - 1:
                raise
    raise AssertionError("unreachable")


def _check_address(address: str) -> None:
    # Bound to one of these, an identifier has no device, and pyverbs follows a null pointer.
    step = f"rdma_bind_addr {address}"
    try:
        parsed = ip_address(address)
    except ValueError as problem:
        raise VerbsError(f"{step}: not an IP address", step=step) from problem
    if parsed.is_unspecified or parsed.is_loopback or parsed.is_multicast:
        raise VerbsError(f"{step}: not the address of a port", step=step)


def _check_port(identifier: Any, address: str, device: str, number: int) -> None:
    found, its_number = str(identifier.dev_name), int(identifier.port_num)
    if (found, its_number) != (device, number):
        step = f"rdma_bind_addr {address}"
        text = f"{step}: is of {found} port {its_number}, not of {device} port {number}"
        raise VerbsError(text, step=step)


@contextmanager
def _queue_pair(device: Device, queue: CompletionQueue) -> Iterator[Any]:
    initial = QPInitAttr(
        qp_type=enums.ibv_qp_type.IBV_QPT_RC,
        scq=queue.cq,
        rcq=queue.cq,
        cap=QPCap(max_send_wr=_DEPTH, max_recv_wr=_DEPTH, max_send_sge=1, max_recv_sge=1),
        sq_sig_all=0,
    )
    with verbs_step(f"ibv_create_qp on {device.name}"):
        pair = QP(device.pd, initial)
    with owned(pair, "ibv_destroy_qp"):
        yield pair
