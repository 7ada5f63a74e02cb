"""Runs in a process with the preload: calls as pyverbs makes them, and what they gave as JSON.

Started by test_verbs_preload.py, which says on the command line what shall be done.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import json
import os
import sys
from typing import Any

from cuda.bindings import driver

PAGE = os.sysconf("SC_PAGESIZE")
# Local write, remote write, remote read, remote atomic.
ACCESS = 15
ON_DEVICE = 1 << 40


class Region(ctypes.Structure):
    """struct ibv_mr of infiniband/verbs.h."""

    _fields_ = (
        ("context", ctypes.c_void_p),
        ("pd", ctypes.c_void_p),
        ("addr", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("handle", ctypes.c_uint32),
        ("lkey", ctypes.c_uint32),
        ("rkey", ctypes.c_uint32),
    )


class Piece(ctypes.Structure):
    """struct ibv_sge."""

    _fields_ = (("addr", ctypes.c_uint64), ("length", ctypes.c_uint32), ("lkey", ctypes.c_uint32))


class Request(ctypes.Structure):
    """struct ibv_send_wr, as far as ibv_post_send looks at it."""

    _fields_ = (
        ("wr_id", ctypes.c_uint64),
        ("next", ctypes.c_void_p),
        ("sg_list", ctypes.POINTER(Piece)),
        ("num_sge", ctypes.c_int),
        ("opcode", ctypes.c_int),
    )


class Context(ctypes.Structure):
    """struct ibv_context, up to the function that ibv_post_send calls."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("before", ctypes.c_void_p * 25),
        ("post_send", ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)),
    )


# As in Python's own extension modules, whose symbols are looked up in the global scope first.
verbs: Any = ctypes.CDLL(None, use_errno=True)
below: Any = ctypes.CDLL("libibverbs.so.1")
for name in ("ibv_reg_mr", "ibv_reg_mr_iova", "ibv_reg_mr_iova2", "ibv_reg_dmabuf_mr"):
    getattr(verbs, name).restype = ctypes.POINTER(Region)


def register(name: str, *arguments: Any) -> tuple[dict[str, Any], Any]:
    """What a registration gave, and the region, None when it was refused."""
    wide = [ctypes.c_uint64(one) if isinstance(one, int) else one for one in arguments]
    region = getattr(verbs, name)(None, *wide)
    if not region:
        return {"errno": errno.errorcode[ctypes.get_errno()]}, None
    return {
        "addr": region.contents.addr or 0,
        "length": region.contents.length,
        "by": region.contents.lkey,
        "access": ctypes.c_int.in_dll(below, "fake_access").value,
        "iova": ctypes.c_uint64.in_dll(below, "fake_iova").value,
        "alias": ctypes.c_void_p.in_dll(below, "fake_addr").value,
    }, region


def result(function: Any, *arguments: Any) -> Any:
    """What a CUDA call that must succeed gave."""
    status, *values = function(*arguments)
    assert int(status) == 0, f"{function.__name__}: {status}"
    return values[0] if values else None


def gpu_memory(length: int) -> int:
    """Memory of GPU 0 whose first bytes are known."""
    result(driver.cuInit, 0)
    result(driver.cuCtxSetCurrent, result(driver.cuDevicePrimaryCtxRetain, 0))
    pointer = int(result(driver.cuMemAlloc, length))
    result(driver.cuMemcpyHtoD, pointer + PAGE, b"gpu bytes", 9)
    return pointer


def exported(pointer: int, length: int) -> int:
    """A descriptor of the range."""
    kind = driver.CUmemRangeHandleType.CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
    return int(result(driver.cuMemGetHandleForAddressRange, pointer, length, kind, 0))


def host() -> Any:
    """Memory of the host, by each function."""
    memory = ctypes.create_string_buffer(PAGE)
    at = ctypes.addressof(memory)
    return [
        register("ibv_reg_mr", at, PAGE, ACCESS)[0] | {"asked": at},
        register("ibv_reg_mr_iova", at, PAGE, 0, ACCESS)[0] | {"asked": at},
        register("ibv_reg_mr_iova2", at, PAGE, 0, ACCESS)[0] | {"asked": at},
    ]


def pointer() -> Any:
    """A range inside memory of the GPU, and ranges that leave it."""
    memory = gpu_memory(4 * PAGE)
    inside, region = register("ibv_reg_mr", memory + PAGE, 2 * PAGE, ACCESS)
    seen = ctypes.string_at(inside["alias"], 9).decode() if region else ""
    beyond, _ = register("ibv_reg_mr", memory, 1 << 30, ACCESS)
    moved, _ = register("ibv_reg_mr_iova2", memory, PAGE, 0, ACCESS)
    return {
        "inside": inside,
        "asked": memory + PAGE,
        "seen": seen,
        "beyond": beyond,
        "moved": moved,
    }


def descriptor() -> Any:
    """A range inside an export, one that leaves it, and descriptors of something else."""
    memory = gpu_memory(4 * PAGE)
    fd = exported(memory, 4 * PAGE)
    inside, region = register("ibv_reg_dmabuf_mr", PAGE, PAGE, PAGE, fd, ACCESS)
    seen = ctypes.string_at(inside["alias"], 9).decode() if region else ""
    return {
        "inside": inside,
        "seen": seen,
        "beyond": register("ibv_reg_dmabuf_mr", PAGE, 4 * PAGE, PAGE, fd, ACCESS)[0],
        "none": register("ibv_reg_dmabuf_mr", 0, PAGE, 0, -1, ACCESS)[0],
        "other": register("ibv_reg_dmabuf_mr", 0, PAGE, 0, 0, ACCESS)[0],
    }


def window() -> Any:
    """As many registrations of 16 MiB as there is room for, then again after one was undone."""
    length = 16 << 20
    memory = gpu_memory(length)
    given = [register("ibv_reg_mr", memory, length, ACCESS) for _ in range(3)]
    fd = exported(memory, length)
    full, _ = register("ibv_reg_dmabuf_mr", 0, length, 0, fd, ACCESS)
    undone = verbs.ibv_dereg_mr(given[0][1])
    again, _ = register("ibv_reg_dmabuf_mr", 0, length, 0, fd, ACCESS)
    return {
        "given": [one.get("errno", "works") for one, _ in given],
        "full": full,
        "undone": undone,
        "again": again.get("errno", "works"),
    }


def post(opcodes: list[int], key: int) -> Any:
    """The keys that libibverbs saw of a list of requests over one piece, and the piece's after."""
    context = ctypes.POINTER(Context).in_dll(below, "fake_qp")
    posted = ctypes.c_int.in_dll(below, "fake_posted")
    keys = (ctypes.c_uint32 * 16).in_dll(below, "fake_posted_keys")
    piece = Piece(0, PAGE, key)
    requests = [Request(0, None, ctypes.pointer(piece), 1, opcode) for opcode in opcodes]
    for one, following in itertools.pairwise(requests):
        one.next = ctypes.addressof(following)
    posted.value = 0
    queue_pair = ctypes.addressof(context)
    context.contents.post_send(queue_pair, ctypes.addressof(requests[0]), None)
    return {"seen": keys[: posted.value], "after": piece.lkey}


def refusal() -> Any:
    """What the NIC is asked of memory by pointer and by descriptor, and once that is undone."""
    memory = gpu_memory(2 * PAGE)
    by_pointer, region = register("ibv_reg_mr", memory, PAGE, ACCESS)
    by_descriptor, other = register("ibv_reg_dmabuf_mr", 0, PAGE, 0, exported(memory, PAGE), ACCESS)
    reading, others = [2, 0, 9], [4, 5, 6]
    found = {
        "access": {by_pointer["access"], by_descriptor["access"]},
        "reading": post(reading, by_pointer["by"]),
        "mixed": post(others + reading, by_pointer["by"]),
        "another key": post(reading, by_pointer["by"] + 1),
    }
    for one in (region, other):
        verbs.ibv_dereg_mr(one)
    return {
        **found,
        "access": sorted(found["access"]),
        "undone": post(reading, by_pointer["by"]),
        "host": host()[0]["access"],
    }


WHAT = {
    "host": host,
    "pointer": pointer,
    "descriptor": descriptor,
    "window": window,
    "refusal": refusal,
}
print(json.dumps(WHAT[sys.argv[1]]()))
