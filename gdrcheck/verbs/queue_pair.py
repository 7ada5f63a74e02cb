"""A reliable queue pair and its way from RESET to RTS, whatever memory it is used with."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gdrcheck.verbs import gid
from gdrcheck.verbs.compat import (
    GID,
    QP,
    AHAttr,
    GlobalRoute,
    PyverbsError,
    QPAttr,
    QPCap,
    QPInitAttr,
    enums,
    owned,
    verbs_step,
)
from gdrcheck.verbs.completion_queue import CompletionQueue
from gdrcheck.verbs.device import Device, PortInfo
from gdrcheck.verbs.errors import VerbsError, status_name
from gdrcheck.verbs.link import Completion
from gdrcheck.verbs.mtu import Mtu, own_mtu
from gdrcheck.verbs.protocol import MODIFY_QP

# pyverbs' default of 1 does not pass a router.
_HOP_LIMIT = 255
# Of the IB specification: 4.096 us * 2^14 = 67 ms between retransmissions, at the least.
_TIMEOUT_MIN = 14
# Not 7: rxe takes the highest number for "for ever" (tried), and then a lost peer is only silence.
_RETRIES = 6
# Retry for ever when the receiver is not ready: our own deadline ends it, and names it.
_RNR_RETRIES = 7
_RNR_TIMER = 12
# IBV_WC_WITH_IMM of libibverbs/verbs.h.
_WITH_IMM = 2


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


@dataclass(frozen=True, slots=True)
class Address:
    """Where a queue pair is, for the one that connects to it."""

    qpn: int
    psn: int
    gid: str
    lid: int


class QueuePair:
    """A reliable queue pair. Made by ``open_queue_pair``, in state INIT."""

    def __init__(self, path: Path, qp: Any) -> None:
        self._path = path
        self.qp = qp
        self.address = Address(
            qpn=int(qp.qp_num),
            psn=secrets.randbelow(1 << 24),
            gid=path.gid.gid,
            lid=path.port.lid,
        )

    def connect(self, remote: Address, mtu: Mtu) -> None:
        """Bring the queue pair to RTS towards ``remote``.

        VerbsError naming the transition that the device refused.
        """
        path = self._path
        attributes = QPAttr(port_num=path.port.number)
        attributes.path_mtu = (mtu // 128).bit_length() - 1
        attributes.dest_qp_num = remote.qpn
        attributes.rq_psn = remote.psn
        attributes.sq_psn = self.address.psn
        attributes.max_rd_atomic = 1
        attributes.max_dest_rd_atomic = 1
        attributes.min_rnr_timer = _RNR_TIMER
        attributes.timeout = path.timeout
        attributes.retry_cnt = _RETRIES
        attributes.rnr_retry = _RNR_RETRIES
        attributes.ah_attr = self._route(remote)
        with verbs_step(f"{MODIFY_QP} INIT to RTR, towards {remote.gid} from {path.gid.gid}"):
            self.qp.to_rtr(attributes)
        with verbs_step(f"{MODIFY_QP} RTR to RTS"):
            self.qp.to_rts(attributes)

    def post_send(self, request: Any, what: str) -> None:
        """Post an operation. VerbsError, naming ``what``, if the device refuses it."""
        _post(self.qp.post_send, request, f"ibv_post_send {what}")

    def post_receive(self, request: Any, what: str) -> None:
        """Post a receive. VerbsError, naming ``what``, if the device refuses it."""
        _post(self.qp.post_recv, request, f"ibv_post_recv {what}")

    def _route(self, remote: Address) -> Any:
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


def next_completion(queue: CompletionQueue, wait_s: float = 0) -> Completion | None:
    """The next completion, None if there is none; blocks for ``wait_s`` at the most."""
    try:
        work = queue.next(wait_s) if wait_s > 0 else queue.poll()
    except PyverbsError as problem:
        raise VerbsError(f"poll for a completion: {problem}", step="poll") from problem
    if work is None:
        return None
    return Completion(
        work_id=int(work.wr_id),
        status=status_name(int(work.status)),
        vendor_error=int(work.vendor_err),
        # Without the flag the field is whatever was there before.
        immediate=socket.ntohl(int(work.imm_data)) if int(work.wc_flags) & _WITH_IMM else 0,
    )


def _post(call: Callable[[Any], Any], request: Any, step: str) -> None:
    # No step is announced here: it would cost more than the call.
    try:
        call(request)
    except PyverbsError as problem:
        number = abs(int(getattr(problem, "error_code", -1)))
        raise VerbsError(f"{step}: {problem}", step=step, error_number=number) from problem


@contextmanager
def open_queue_pair(
    device: Device,
    path: Path,
    queue: CompletionQueue,
    depth: int,
    *,
    receive_depth: int | None = None,
    atomics: bool = False,
) -> Iterator[QueuePair]:
    """A queue pair in state INIT with room for ``depth`` work requests in each direction, or for
    ``receive_depth`` receives. ``atomics``: the other end may do atomic operations.

    Destroyed at the end of the block, and its leftovers in the completion queue are dropped.
    """
    access = enums.ibv_access_flags
    initial = QPInitAttr(
        qp_type=enums.ibv_qp_type.IBV_QPT_RC,
        scq=queue.cq,
        rcq=queue.cq,
        cap=QPCap(
            max_send_wr=depth,
            max_recv_wr=depth if receive_depth is None else receive_depth,
            max_send_sge=1,
            max_recv_sge=1,
        ),
        sq_sig_all=0,
    )
    state = QPAttr(port_num=path.port.number)
    state.pkey_index = path.pkey_index
    state.qp_access_flags = (
        access.IBV_ACCESS_LOCAL_WRITE
        | access.IBV_ACCESS_REMOTE_WRITE
        | access.IBV_ACCESS_REMOTE_READ
        | (access.IBV_ACCESS_REMOTE_ATOMIC if atomics else 0)
    )
    with contextlib.ExitStack() as stack:
        with verbs_step(f"ibv_create_qp on {device.name}"):
            pair = stack.enter_context(owned(QP(device.pd, initial), "ibv_destroy_qp"))
        with verbs_step(f"{MODIFY_QP} RESET to INIT"):
            pair.to_init(state)
        yield QueuePair(path, pair)
    with verbs_step("drain the completion queue"):
        while queue.poll() is not None:
            pass
