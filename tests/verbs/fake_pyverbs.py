"""pyverbs without a NIC: its classes as far as gdrcheck uses them, over the memory of this process.

Transfers happen when they are posted, by the thread that posts, between whatever memory the regions
cover; ``nic`` records and spoils. Two ends of one connection may live in two threads.
GPU memory of the emulated driver is reached as the lab's stand-in for verbs reaches it.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

from tests.verbs.fake_nic import (
    LOCAL_WRITE,
    REMOTE_ATOMIC,
    REMOTE_READ,
    REMOTE_WRITE,
    Closable,
    Nic,
    PyverbsError,
    PyverbsRDMAError,
    nic,
    reset,
)
from tests.verbs.fake_queue_pair import QP, SGE, RecvWR, SendWR

__all__ = ["QP", "Nic", "installed", "load", "nic", "reset"]

# The rooms that see pyverbs, and so must be imported anew.
ROOMS = ("gdrcheck.verbs", "gdrcheck.memory")


class Context(Closable):
    what = "context"

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def query_port(self, _port: int) -> SimpleNamespace:
        nic.call("query_port")
        return SimpleNamespace(
            state=4,
            phys_state=5,
            link_layer=2,
            lid=0,
            sm_lid=0,
            active_mtu=5,
            pkey_tbl_len=1,
        )

    def query_device(self) -> SimpleNamespace:
        return SimpleNamespace(node_guid=0x1122)

    def query_gid_table(self, _entries: int) -> list[SimpleNamespace]:
        def entry(index: int, gid: str) -> SimpleNamespace:
            return SimpleNamespace(
                gid_str=lambda: gid, gid_index=index, gid_type=2, port_num=1, ndev_ifindex=1
            )

        return [entry(0, "fe80::1"), entry(3, "::ffff:192.0.2.1")]


class PD(Closable):
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


class MR(Closable):
    what = "mr"
    call = "reg_mr"

    def __init__(self, _pd: PD, length: int, access: int, address: int) -> None:
        nic.call(self.call)
        self.access = access
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

    def __init__(self, _pd: PD, length: int, access: int, dmabuf: int, offset: int = 0) -> None:
        nic.call(self.call)
        self.access = access
        status, found = _emulated("gdrcheck_emulated_export_of", dmabuf)
        if status:
            raise PyverbsRDMAError("Failed to register a dma-buf MR", errno.EBADF)
        if offset + length > found.bytes:
            raise PyverbsRDMAError("Failed to register a dma-buf MR", errno.EINVAL)
        self.offset = offset
        self.buf = 0
        self._become(length, iova=offset, alias=int(found.alias) + offset)


class CompChannel(Closable):
    what = "channel"

    def __init__(self, _context: Context) -> None:
        super().__init__()
        self.fd = os.eventfd(0)

    def get_cq_event(self, _queue: object) -> None:
        os.eventfd_read(self.fd)

    def close(self) -> None:
        super().close()
        os.close(self.fd)


class CQ(Closable):
    what = "cq"

    def __init__(self, _context: Context, entries: int, _user: object, channel: Any) -> None:
        super().__init__()
        self.entries = entries
        self.channel = channel
        self.work: deque[SimpleNamespace] = deque()
        self.notify = False

    def complete(self, wr_id: int, status: int, vendor_error: int, imm: int | None = None) -> None:
        assert len(self.work) < self.entries, "the completion queue overflows"
        self.work.append(
            SimpleNamespace(
                wr_id=wr_id,
                status=status,
                vendor_err=vendor_error,
                # As a real one: what was there before, unless the flag says that it is a number.
                imm_data=0xFFFFFFFF if imm is None else imm,
                wc_flags=0 if imm is None else 2,
            )
        )
        if self.notify:
            self.notify = False
            os.eventfd_write(self.channel.fd, 1)

    def poll(self, _count: int) -> tuple[int, list[SimpleNamespace]]:
        nic.call("poll")
        return (1, [self.work.popleft()]) if self.work else (0, [])

    def req_notify(self) -> None:
        self.notify = True

    def ack_events(self, _count: int) -> None:
        pass


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
                IBV_ACCESS_LOCAL_WRITE=LOCAL_WRITE,
                IBV_ACCESS_REMOTE_WRITE=REMOTE_WRITE,
                IBV_ACCESS_REMOTE_READ=REMOTE_READ,
                IBV_ACCESS_REMOTE_ATOMIC=REMOTE_ATOMIC,
            ),
            "ibv_wr_opcode": SimpleNamespace(
                IBV_WR_RDMA_WRITE="WRITE",
                IBV_WR_RDMA_WRITE_WITH_IMM="WRITE_WITH_IMM",
                IBV_WR_RDMA_READ="READ",
                IBV_WR_SEND="SEND",
                IBV_WR_SEND_WITH_IMM="SEND_WITH_IMM",
                IBV_WR_ATOMIC_FETCH_AND_ADD="FETCH_ADD",
                IBV_WR_ATOMIC_CMP_AND_SWP="CMP_SWAP",
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
