"""pyverbs without a NIC: its classes as far as gdrcheck uses them, over the memory of this process.

Transfers happen at once, between whatever memory the regions cover; ``nic`` records and spoils.
GPU memory of the emulated driver is reached as the lab's stand-in for verbs reaches it.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

# The rooms that see pyverbs, and so must be imported anew.
ROOMS = ("gdrcheck.verbs", "gdrcheck.memory")


@dataclass
class Nic:
    """What the one device of the fake does, and what was done with it."""

    # errno by call: reg_mr, reg_dmabuf_mr, dereg_mr, create_qp, to_rtr, post_send, poll.
    refuses: dict[str, int] = field(default_factory=dict)
    # So many calls of each work before.
    after: dict[str, int] = field(default_factory=dict)
    # So many calls of each fail, and those after them work.
    times: dict[str, int] = field(default_factory=dict)
    # Completion status (and vendor error) of transfers; None: no completion at all, ever.
    status: int | None = 0
    vendor_error: int = 0
    # Called with sink, source and length of each transfer, instead of copying.
    copy: Callable[[int, int, int], None] = ctypes.memmove
    alive: list[str] = field(default_factory=list)
    transfers: list[tuple[str, int]] = field(default_factory=list)
    regions: dict[int, MR] = field(default_factory=dict)
    pairs: dict[int, QP] = field(default_factory=dict)
    numbers: int = 0

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def call(self, name: str) -> None:
        """PyverbsRDMAError when the call is to fail."""
        if name not in self.refuses:
            return
        left = self.after.get(name, 0)
        self.after[name] = left - 1
        if left <= 0 and -left < self.times.get(name, 1 - left):
            raise PyverbsRDMAError(f"{name} failed", self.refuses[name])

    def find(self, key: int, address: int, length: int) -> int | None:
        """Where the CPU finds a piece of the region with this key; None if it is not inside."""
        region = self.regions.get(key)
        if region is None:
            return None
        offset = address - region.iova
        inside = offset >= 0 and offset + length <= region.length
        return region.alias + offset if inside else None


nic = Nic()


def reset() -> None:
    """A healthy device of which nothing is open."""
    nic.__init__()  # type: ignore[misc]


class PyverbsError(Exception):
    pass


class PyverbsRDMAError(PyverbsError):
    def __init__(self, message: str, error_code: int = -1) -> None:
        self.error_code = error_code
        super().__init__(message)


class _Closable:
    what = ""

    def __init__(self) -> None:
        self.open = True
        nic.alive.append(self.what)

    def close(self) -> None:
        assert self.open, f"{self.what} closed twice"
        self.open = False
        nic.alive.remove(self.what)


class Context(_Closable):
    what = "context"

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class PD(_Closable):
    what = "pd"

    def __init__(self, _context: Context) -> None:
        super().__init__()


class _EmulatedRange(ctypes.Structure):
    """struct gdrcheck_emulated_range of lab/emulated_gpu/memory.h."""

    _fields_ = (
        ("gpu", ctypes.c_int),
        ("bar1_bytes", ctypes.c_ulonglong),
        ("alias", ctypes.c_void_p),
        ("bytes", ctypes.c_ulonglong),
        ("pointer", ctypes.c_ulonglong),
    )


def _emulated(function: str, *arguments: Any) -> tuple[int, _EmulatedRange]:
    found = _EmulatedRange()
    try:
        library = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return errno.ENOENT, found
    return int(getattr(library, function)(*arguments, ctypes.byref(found))), found


class MR(_Closable):
    what = "mr"
    call = "reg_mr"

    def __init__(self, _pd: PD, length: int, _access: int, address: int) -> None:
        nic.call(self.call)
        pointer, size = ctypes.c_ulonglong(address), ctypes.c_ulonglong(length)
        status, found = _emulated("gdrcheck_emulated_range_of", pointer, size)
        if status not in (0, errno.ENOENT):
            raise PyverbsRDMAError("Failed to register a MR", status)
        self.buf = address
        self._become(length, iova=address, alias=address if status else int(found.alias))

    def _become(self, length: int, *, iova: int, alias: int) -> None:
        self.length, self.iova, self.alias = length, iova, alias
        self.lkey = self.rkey = nic.number()
        nic.regions[self.lkey] = self
        super().__init__()

    def close(self) -> None:
        nic.call("dereg_mr")
        super().close()
        del nic.regions[self.lkey]

    def read(self, *_: Any) -> None:
        raise AssertionError("a copy by the CPU")

    write = read


class DmaBufMR(MR):
    call = "reg_dmabuf_mr"

    def __init__(self, _pd: PD, length: int, _access: int, dmabuf: int, offset: int = 0) -> None:
        nic.call(self.call)
        status, found = _emulated("gdrcheck_emulated_export_of", dmabuf)
        if status:
            raise PyverbsRDMAError("Failed to register a dma-buf MR", errno.EBADF)
        if offset + length > found.bytes:
            raise PyverbsRDMAError("Failed to register a dma-buf MR", errno.EINVAL)
        self.offset = offset
        self.buf = 0
        self._become(length, iova=offset, alias=int(found.alias) + offset)


class CompChannel(_Closable):
    what = "channel"

    def __init__(self, _context: Context) -> None:
        super().__init__()
        self.fd = os.eventfd(0)

    def close(self) -> None:
        super().close()
        os.close(self.fd)


class CQ(_Closable):
    what = "cq"

    def __init__(self, _context: Context, _entries: int, _user: object, _channel: object) -> None:
        super().__init__()
        self.work: deque[SimpleNamespace] = deque()

    def complete(self, wr_id: int, status: int, vendor_error: int) -> None:
        self.work.append(
            SimpleNamespace(wr_id=wr_id, status=status, vendor_err=vendor_error, imm_data=0)
        )

    def poll(self, _count: int) -> tuple[int, list[SimpleNamespace]]:
        nic.call("poll")
        return (1, [self.work.popleft()]) if self.work else (0, [])

    def req_notify(self) -> None:
        pass


class SGE:
    def __init__(self, addr: int, length: int, lkey: int) -> None:
        self.addr, self.length, self.lkey = addr, length, lkey

    def close(self) -> None:
        pass


class RecvWR(_Closable):
    what = "work request"

    def __init__(self, wr_id: int = 0, num_sge: int = 0, sg: list[SGE] | None = None) -> None:
        super().__init__()
        self.wr_id, self.num_sge, self.sg = wr_id, num_sge, sg or []


class SendWR(RecvWR):
    def __init__(self, opcode: str, send_flags: str, **fields: Any) -> None:
        super().__init__(**fields)
        assert send_flags == "SIGNALED", "only signaled sends are known here, and no inline ones"
        self.opcode = opcode
        self.rkey = self.remote = 0

    def set_wr_rdma(self, rkey: int, remote: int) -> None:
        self.rkey, self.remote = rkey, remote


class QP(_Closable):
    what = "qp"

    def __init__(self, _pd: PD, initial: SimpleNamespace) -> None:
        nic.call("create_qp")
        super().__init__()
        self.cq: CQ = initial.scq
        self.qp_num = nic.number()
        self.receives: deque[int] = deque()
        self.state, self.peer = "RESET", 0
        nic.pairs[self.qp_num] = self

    def to_init(self, _attributes: SimpleNamespace) -> None:
        self.state = "INIT"

    def to_rtr(self, attributes: SimpleNamespace) -> None:
        nic.call("to_rtr")
        self.state, self.peer = "RTR", attributes.dest_qp_num

    def to_rts(self, _attributes: SimpleNamespace) -> None:
        self.state = "RTS"

    def post_recv(self, request: RecvWR) -> None:
        self.receives.append(request.wr_id)

    def post_send(self, request: SendWR) -> None:
        nic.call("post_send")
        assert self.state in ("RTS", "ERR")
        if nic.status is None:
            return
        if self.state == "ERR":
            # WR_FLUSH_ERR
            self.cq.complete(request.wr_id, 5, 0)
            return
        if nic.status:
            self.state = "ERR"
            self.cq.complete(request.wr_id, nic.status, nic.vendor_error)
            return
        status = 0
        if request.opcode != "SEND":
            status = self._transfer(request)
        elif receives := nic.pairs[self.peer].receives:
            self.cq.complete(receives.popleft(), 0, 0)
        self.cq.complete(request.wr_id, status, 0)

    def _transfer(self, request: SendWR) -> int:
        """LOC_PROT_ERR, REM_ACCESS_ERR, or SUCCESS, as enum ibv_wc_status numbers them."""
        element = request.sg[0]
        local = nic.find(element.lkey, element.addr, element.length)
        remote = nic.find(request.rkey, request.remote, element.length)
        if local is None or remote is None:
            return 4 if local is None else 10
        sink, source = (remote, local) if request.opcode == "WRITE" else (local, remote)
        nic.transfers.append((request.opcode, element.length))
        nic.copy(sink, source, element.length)
        return 0


def _record(**fields: Any) -> SimpleNamespace:
    return SimpleNamespace(**fields)


def _modules() -> dict[str, ModuleType]:
    names: dict[str, dict[str, Any]] = {
        "pyverbs": {},
        "pyverbs.addr": {"GID": str, "AHAttr": _record, "GlobalRoute": _record},
        "pyverbs.cq": {"CQ": CQ, "CompChannel": CompChannel},
        "pyverbs.device": {
            "Context": Context,
            "get_device_list": lambda: [SimpleNamespace(name=b"sim0")],
        },
        "pyverbs.mr": {"MR": MR, "DmaBufMR": DmaBufMR},
        "pyverbs.pd": {"PD": PD},
        "pyverbs.pyverbs_error": {
            "PyverbsError": PyverbsError,
            "PyverbsRDMAError": PyverbsRDMAError,
        },
        "pyverbs.qp": {"QP": QP, "QPAttr": _record, "QPCap": _record, "QPInitAttr": _record},
        "pyverbs.wr": {"SGE": SGE, "RecvWR": RecvWR, "SendWR": SendWR},
        "pyverbs.libibverbs_enums": {
            "ibv_qp_type": SimpleNamespace(IBV_QPT_RC=2),
            "ibv_access_flags": SimpleNamespace(
                IBV_ACCESS_LOCAL_WRITE=1, IBV_ACCESS_REMOTE_WRITE=2, IBV_ACCESS_REMOTE_READ=4
            ),
            "ibv_wr_opcode": SimpleNamespace(
                IBV_WR_RDMA_WRITE="WRITE", IBV_WR_RDMA_READ="READ", IBV_WR_SEND="SEND"
            ),
            "ibv_send_flags": SimpleNamespace(IBV_SEND_SIGNALED="SIGNALED"),
        },
    }
    modules = {}
    for name, members in names.items():
        modules[name] = ModuleType(name)
        modules[name].__dict__.update(members)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, modules[name])
    return modules


@contextmanager
def installed() -> Iterator[None]:
    """The fake in the place of pyverbs, for what is imported inside; put back afterwards."""

    def affected() -> dict[str, ModuleType]:
        return {
            name: module
            for name, module in sys.modules.items()
            if name.split(".")[0] == "pyverbs" or ".".join(name.split(".")[:2]) in ROOMS
        }

    before = affected()
    for name in before:
        del sys.modules[name]
    sys.modules.update(_modules())
    reset()
    try:
        yield
    finally:
        for name in affected():
            del sys.modules[name]
        sys.modules.update(before)
        for name, module in before.items():
            parent, _, child = name.rpartition(".")
            if parent in sys.modules:
                setattr(sys.modules[parent], child, module)


def load(name: str) -> Any:
    """A module of the rooms that see pyverbs, imported inside of ``installed``."""
    return importlib.import_module(name)
