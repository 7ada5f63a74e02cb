"""One end of a reliable connection: completion queue, queue pair, and its work requests."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gdrcheck.pattern import Bytes
from gdrcheck.verbs import gid
from gdrcheck.verbs.buffer import HostBuffer
from gdrcheck.verbs.compat import (
    GID,
    QP,
    SGE,
    AHAttr,
    GlobalRoute,
    PyverbsError,
    QPAttr,
    QPCap,
    QPInitAttr,
    RecvWR,
    SendWR,
    enums,
    owned,
    verbs_step,
)
from gdrcheck.verbs.completion_queue import QUEUE_DEPTH, CompletionQueue
from gdrcheck.verbs.device import Device, PortInfo
from gdrcheck.verbs.errors import VerbsError, status_name
from gdrcheck.verbs.link import Completion, Verb
from gdrcheck.verbs.memory import Registration
from gdrcheck.verbs.mtu import Mtu, agreed_mtu, own_mtu
from gdrcheck.verbs.protocol import MODIFY_QP, EndpointInfo

# pyverbs' default of 1 does not pass a router.
_HOP_LIMIT = 255
# Of the IB specification: 4.096 us * 2^14 = 67 ms between retransmissions, at the least.
_TIMEOUT_MIN = 14
# Not 7: rxe takes the highest number for "for ever" (tried), and then a lost peer is only silence.
_RETRIES = 6
# Retry for ever when the receiver is not ready: our own deadline ends it, and names it.
_RNR_RETRIES = 7
_RNR_TIMER = 12


@dataclass(frozen=True, slots=True)
class Path:
    """How the ends reach each other, as the profile wants it.

    ``promised_mtu`` None: whatever the ports can.
    """

    port: PortInfo
    gid: gid.GidChoice
    pkey_index: int
    traffic_class: int
    service_level: int
    promised_mtu: Mtu | None
    completion_s: float

    @property
    def local_mtu(self) -> Mtu:
        """The MTU that this end offers, in bytes. VerbsError if the port cannot do it."""
        return own_mtu(self.port.active_mtu, self.promised_mtu)

    @property
    def timeout(self) -> int:
        """The exponent of the retransmission timeout (4.096 us * 2^n).

        All retries together take a quarter to half of ``completion_s``: a lost peer is reported as
        RETRY_EXC_ERR, not as silence, and a busy one is not taken for lost.
        """
        each_us = self.completion_s * 1e6 / (2 * (_RETRIES + 1))
        return max(_TIMEOUT_MIN, min(21, int(each_us / 4.096).bit_length() - 1))


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
        qp: Any,
    ) -> None:
        self._path = path
        self._buffer = buffer
        self._registration = registration
        self.queue = queue
        self.qp = qp
        self.psn = secrets.randbelow(1 << 24)
        self.remote: EndpointInfo | None = None
        self._sends: dict[tuple[Verb, int, int], Any] = {}
        self._receives: dict[tuple[int, int], Any] = {}

    # --- connecting -----------------------------------------------------------------------------

    def info(self) -> EndpointInfo:
        """What the other end needs to connect."""
        path = self._path
        return EndpointInfo(
            qpn=int(self.qp.qp_num),
            psn=self.psn,
            gid=path.gid.gid,
            lid=path.port.lid,
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
        path, local = self._path, self.info()
        if remote.link_layer != local.link_layer:
            raise VerbsError(
                f"this port is {local.link_layer}, the other end's is {remote.link_layer}",
                step="connect",
            )
        mtu = agreed_mtu(local.mtu, remote.mtu, path.promised_mtu)
        attributes = QPAttr(port_num=path.port.number)
        attributes.path_mtu = (mtu // 128).bit_length() - 1
        attributes.dest_qp_num = remote.qpn
        attributes.rq_psn = remote.psn
        attributes.sq_psn = self.psn
        attributes.max_rd_atomic = 1
        attributes.max_dest_rd_atomic = 1
        attributes.min_rnr_timer = _RNR_TIMER
        attributes.timeout = path.timeout
        attributes.retry_cnt = _RETRIES
        attributes.rnr_retry = _RNR_RETRIES
        attributes.ah_attr = self._address(remote)
        with verbs_step(f"{MODIFY_QP} INIT to RTR, towards {remote.gid} from {path.gid.gid}"):
            self.qp.to_rtr(attributes)
        with verbs_step(f"{MODIFY_QP} RTR to RTS"):
            self.qp.to_rts(attributes)
        self.remote = remote
        return mtu

    def _address(self, remote: EndpointInfo) -> Any:
        path = self._path
        if path.port.link_layer == "infiniband":
            return AHAttr(dlid=remote.lid, sl=path.service_level, port_num=path.port.number)
        route = GlobalRoute(
            dgid=GID(gid.exploded(remote.gid)),
            sgid_index=path.gid.index,
            hop_limit=_HOP_LIMIT,
            traffic_class=path.traffic_class,
        )
        return AHAttr(is_global=1, gr=route, sl=path.service_level, port_num=path.port.number)

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
        self._post(self.qp.post_recv, request, "ibv_post_recv", length)

    def post(self, work_id: int, verb: Verb, start: int, length: int, immediate: int) -> None:
        """Post an operation, signaled."""
        request = self._sends.get((verb, start, length))
        if request is None:
            request = self._sends[verb, start, length] = self.send_request(verb, start, length)
        request.wr_id = work_id
        request.imm_data = socket.htonl(immediate)
        self._post(self.qp.post_send, request, f"ibv_post_send {verb}", length)

    def poll(self, wait_s: float = 0) -> Completion | None:
        """The next completion, None if there is none; blocks for ``wait_s`` at the most."""
        try:
            work = self.queue.next(wait_s) if wait_s > 0 else self.queue.poll()
        except PyverbsError as problem:
            raise VerbsError(f"poll for a completion: {problem}", step="poll") from problem
        if work is None:
            return None
        return Completion(
            work_id=int(work.wr_id),
            status=status_name(int(work.status)),
            vendor_error=int(work.vendor_err),
            immediate=socket.ntohl(int(work.imm_data)),
        )

    def _post(self, call: Any, request: Any, name: str, length: int) -> None:
        # No step is announced here: it would cost more than the call.
        try:
            call(request)
        except PyverbsError as problem:
            number = abs(int(getattr(problem, "error_code", -1)))
            step = f"{name} of {length} B"
            raise VerbsError(f"{step}: {problem}", step=step, error_number=number) from problem

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
    access = enums.ibv_access_flags
    depth = QPCap(max_send_wr=QUEUE_DEPTH, max_recv_wr=QUEUE_DEPTH, max_send_sge=1, max_recv_sge=1)
    initial = QPInitAttr(
        qp_type=enums.ibv_qp_type.IBV_QPT_RC,
        scq=queue.cq,
        rcq=queue.cq,
        cap=depth,
        sq_sig_all=0,
    )
    state = QPAttr(port_num=path.port.number)
    state.pkey_index = path.pkey_index
    state.qp_access_flags = (
        access.IBV_ACCESS_LOCAL_WRITE
        | access.IBV_ACCESS_REMOTE_WRITE
        | access.IBV_ACCESS_REMOTE_READ
    )
    with contextlib.ExitStack() as stack:
        with verbs_step(f"ibv_create_qp on {device.name}"):
            pair = stack.enter_context(owned(QP(device.pd, initial), "ibv_destroy_qp"))
        with verbs_step(f"{MODIFY_QP} RESET to INIT"):
            pair.to_init(state)
        endpoint = Endpoint(path, buffer, registration, queue, pair)
        stack.callback(endpoint.close_requests)
        yield endpoint
    with verbs_step("drain the completion queue"):
        while queue.poll() is not None:
            pass
