"""Queue pairs and work requests of the simulated pyverbs: everything happens when it is posted."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.verbs.fake_nic import (
    LOCAL_WRITE,
    REMOTE_ATOMIC,
    REMOTE_READ,
    REMOTE_WRITE,
    Closable,
    nic,
)

if TYPE_CHECKING:
    from tests.verbs.fake_pyverbs import CQ, PD


class SGE:
    def __init__(self, addr: int, length: int, lkey: int) -> None:
        self.addr, self.length, self.lkey = addr, length, lkey

    def close(self) -> None:
        pass


class RecvWR(Closable):
    what = "work request"

    def __init__(self, wr_id: int = 0, num_sge: int = 0, sg: list[SGE] | None = None) -> None:
        super().__init__()
        self.wr_id, self.num_sge, self.sg = wr_id, num_sge, sg or []


class SendWR(RecvWR):
    def __init__(self, opcode: str, send_flags: Any, **fields: Any) -> None:
        super().__init__(**fields)
        assert send_flags in ("SIGNALED", 0), "nothing is ever sent inline"
        self.opcode = opcode
        self.signaled = send_flags == "SIGNALED"
        self.rkey = self.remote = self.compare_add = self.swap = self.imm_data = 0
        self.next_wr: SendWR | None = None

    def set_wr_rdma(self, rkey: int, remote: int) -> None:
        self.rkey, self.remote = rkey, remote

    def set_wr_atomic(self, rkey: int, remote: int, compare_add: int, swap: int = 0) -> None:
        self.rkey, self.remote, self.compare_add, self.swap = rkey, remote, compare_add, swap


_NEEDS = {"READ": REMOTE_READ, "FETCH_ADD": REMOTE_ATOMIC, "CMP_SWAP": REMOTE_ATOMIC}
_LOC_LEN_ERR, _LOC_PROT_ERR, _WR_FLUSH_ERR, _REM_ACCESS_ERR, _REM_OP_ERR = 1, 4, 5, 10, 11


class QP(Closable):
    what = "qp"

    def __init__(self, _pd: PD, initial: SimpleNamespace) -> None:
        nic.call("create_qp")
        super().__init__()
        self.cq: CQ = initial.scq
        self.cap = initial.cap
        self.qp_num = nic.number()
        # Work id and where to put the message; None for a receive without memory.
        self.receives: deque[tuple[int, SGE | None]] = deque()
        # What came before its receive: each takes the receive and gives the sender's status.
        self.early: deque[Callable[[], None]] = deque()
        self.state, self.peer, self.access = "RESET", 0, 0
        nic.pairs[self.qp_num] = self

    def to_init(self, attributes: SimpleNamespace) -> None:
        self.state, self.access = "INIT", attributes.qp_access_flags

    def to_rtr(self, attributes: SimpleNamespace) -> None:
        nic.call("to_rtr")
        self.state, self.peer = "RTR", attributes.dest_qp_num

    def to_rts(self, _attributes: SimpleNamespace) -> None:
        self.state = "RTS"

    def post_recv(self, request: RecvWR) -> None:
        with nic.lock:
            assert len(self.receives) < self.cap.max_recv_wr, "the receive queue overflows"
            element = request.sg[0] if request.num_sge else None
            self.receives.append((request.wr_id, element))
            while self.early and self.receives:
                self.early.popleft()()

    def post_send(self, request: SendWR | None) -> None:
        with nic.lock:
            while request is not None:
                self._post(request)
                request = request.next_wr

    def _post(self, request: SendWR) -> None:
        nic.call("post_send")
        assert self.state in ("RTS", "ERR")
        if nic.status is None:
            return
        if self.state == "ERR":
            self.cq.complete(request.wr_id, _WR_FLUSH_ERR, 0)
            return
        if nic.status:
            self.state = "ERR"
            self.cq.complete(request.wr_id, nic.status, nic.vendor_error)
            return
        if not request.opcode.startswith("SEND"):
            self._end(request, self._transfer(request))
            if request.opcode != "WRITE_WITH_IMM":
                return
        peer = nic.pairs.get(self.peer)
        if peer is None or not peer.open:
            return
        # What a SEND carries is read when it is posted: its memory may change before the receive.
        data = self._outgoing(request) if request.opcode.startswith("SEND") else b""
        if data is None:
            self._end(request, _LOC_PROT_ERR)
            return
        peer.early.append(lambda: self._deliver(request.opcode, ends, peer, data))
        ends = (request.wr_id, request.signaled, request.imm_data)
        while peer.early and peer.receives:
            peer.early.popleft()()

    def _deliver(self, opcode: str, ends: tuple[int, bool, int], peer: QP, data: bytes) -> None:
        work_id, signaled, imm = ends
        receive, element = peer.receives.popleft()
        status = peer._take_in(element, data)
        peer.cq.complete(receive, status, 0, imm if opcode.endswith("WITH_IMM") else None)
        if opcode == "WRITE_WITH_IMM":
            return
        if status:
            self.state = peer.state = "ERR"
        if signaled or status:
            self.cq.complete(work_id, _REM_OP_ERR if status else 0, 0)

    def _end(self, request: SendWR, status: int) -> None:
        if status:
            self.state = "ERR"
        if request.signaled or status:
            self.cq.complete(request.wr_id, status, nic.vendor_error if status else 0)

    def _outgoing(self, request: SendWR) -> bytes | None:
        if not request.num_sge:
            return b""
        element = request.sg[0]
        source = nic.find(element.lkey, element.addr, element.length)
        return None if source is None else ctypes.string_at(source, element.length)

    def _take_in(self, element: SGE | None, data: bytes) -> int:
        if not data:
            return 0
        if element is None or element.length < len(data):
            return _LOC_LEN_ERR
        sink = nic.find(element.lkey, element.addr, len(data), LOCAL_WRITE)
        if sink is None:
            return _LOC_PROT_ERR
        nic.transfers.append(("SEND", len(data)))
        buffer = ctypes.create_string_buffer(data, len(data))
        nic.copy(sink, ctypes.addressof(buffer), len(data))
        if nic.spoil is not None:
            nic.spoil(sink, len(data))
        return 0

    def _transfer(self, request: SendWR) -> int:
        """LOC_PROT_ERR, REM_ACCESS_ERR, or SUCCESS, as enum ibv_wc_status numbers them."""
        element = request.sg[0]
        peer = nic.pairs[self.peer]
        needs = _NEEDS.get(request.opcode, REMOTE_WRITE)
        brought = LOCAL_WRITE if request.opcode in _NEEDS else 0
        local = nic.find(element.lkey, element.addr, element.length, brought)
        remote = nic.find(request.rkey, request.remote, element.length, needs)
        if local is None or remote is None or not peer.access & needs:
            return _LOC_PROT_ERR if local is None else _REM_ACCESS_ERR
        nic.transfers.append((request.opcode, element.length))
        if needs == REMOTE_ATOMIC:
            self._reckon(request, local, remote)
            return 0
        sink, source = (local, remote) if request.opcode == "READ" else (remote, local)
        nic.copy(sink, source, element.length)
        if nic.spoil is not None:
            nic.spoil(sink, element.length)
        return 0

    @staticmethod
    def _reckon(request: SendWR, local: int, remote: int) -> None:
        assert remote % 8 == 0, "an atomic operation on an address that is not aligned"
        word = ctypes.c_uint64.from_address(remote)
        found = word.value
        ctypes.c_uint64.from_address(local).value = found
        if request.opcode == "FETCH_ADD":
            word.value = (found + request.compare_add) % (1 << 64)
        elif found == request.compare_add:
            word.value = request.swap
        if nic.spoil is not None:
            nic.spoil(remote, 8)
