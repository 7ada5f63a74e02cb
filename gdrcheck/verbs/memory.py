"""Memory regions by each method: ``host``, ``peermem`` and ``dmabuf``.

Nothing here touches the memory: pyverbs' ``MR.read`` and ``MR.write`` copy with the CPU, which ends
the process when the memory is a GPU's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntFlag
from typing import Any

from gdrcheck.sizes import size_text
from gdrcheck.verbs.buffer import PAGE_BYTES, allocate
from gdrcheck.verbs.compat import MR, DmaBufMR, owned, verbs_step
from gdrcheck.verbs.device import Device
from gdrcheck.verbs.errors import VerbsError


class Access(IntFlag):
    """enum ibv_access_flags of libibverbs/verbs.h; the numbers are part of its ABI."""

    LOCAL_WRITE = 1
    REMOTE_WRITE = 1 << 1
    REMOTE_READ = 1 << 2
    REMOTE_ATOMIC = 1 << 3
    RELAXED_ORDERING = 1 << 20


REMOTE = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ


def access_of(*, relaxed: bool, atomics: bool) -> Access:
    """What a region that the other end uses needs: atomics only where they are wanted, since not
    every port has them.
    """
    access = REMOTE
    if relaxed:
        access |= Access.RELAXED_ORDERING
    if atomics:
        access |= Access.REMOTE_ATOMIC
    return access


@dataclass(frozen=True, slots=True)
class Registration:
    """A memory region as the library returned it, beside what it was asked for.

    ``address`` is where work requests address its first byte; ``at`` is for all others. Closed by
    the context manager that made it.
    """

    requested_address: int
    requested_bytes: int
    address: int
    length_bytes: int
    lkey: int
    rkey: int

    def at(self, offset_bytes: int, length_bytes: int) -> int:
        """The address for work requests of a piece of the region, by its place in the region.

        The one place that knows how regions are addressed: ``host`` and ``peermem`` regions by
        pointer, ``dmabuf`` regions by the offset in the dma-buf. ValueError if the piece is not
        within the region.
        """
        if offset_bytes < 0 or length_bytes < 0 or offset_bytes + length_bytes > self.length_bytes:
            raise ValueError(
                f"{length_bytes} bytes from byte {offset_bytes} on are not within a region of "
                f"{self.length_bytes} bytes"
            )
        return self.address + offset_bytes


@contextmanager
def register(
    device: Device, address: int, length_bytes: int, access: Access
) -> Iterator[Registration]:
    """Register host memory that the caller owns and keeps; deregistered at the end of the block.

    VerbsError with the errno if the device refuses it.
    """
    step = f"ibv_reg_mr {size_text(length_bytes)} on {device.name}"
    with verbs_step(step):
        region = MR(device.pd, length_bytes, int(access), address=address)
    with _registered(device, region, address, length_bytes, int(region.buf)) as registration:
        yield registration


@contextmanager
def register_host(
    device: Device, length_bytes: int, access: Access = REMOTE
) -> Iterator[Registration]:
    """Allocate ``length_bytes`` of page-aligned host memory and register exactly these.

    Both are undone at the end of the block. VerbsError with the errno if the device refuses.
    """
    memory = allocate(length_bytes)
    with register(device, int(memory.ctypes.data), length_bytes, access) as registration:
        yield registration


@contextmanager
def register_peermem(
    device: Device, pointer: int, length_bytes: int, access: Access = REMOTE
) -> Iterator[Registration]:
    """Register GPU memory by its device pointer, which takes a peer-memory module in the kernel.

    The caller owns the memory and frees it after the block, at whose end it is deregistered.
    VerbsError with the errno if the device refuses it.
    """
    step = f"ibv_reg_mr {size_text(length_bytes)} at device pointer {pointer:#x} on {device.name}"
    with verbs_step(step):
        region = MR(device.pd, length_bytes, int(access), address=pointer)
    with _registered(device, region, pointer, length_bytes, int(region.buf)) as registration:
        yield registration


@contextmanager
def register_dmabuf(
    device: Device, fd: int, offset_bytes: int, length_bytes: int, access: Access = REMOTE
) -> Iterator[Registration]:
    """Register a range of a dma-buf; deregistered at the end of the block.

    The caller owns the descriptor and may close it inside the block: the kernel holds a reference
    of its own. VerbsError with the errno if the device refuses it.
    """
    step = (
        f"ibv_reg_dmabuf_mr {size_text(length_bytes)} at offset {offset_bytes} of dma-buf {fd} "
        f"on {device.name}"
    )
    with verbs_step(step):
        region = DmaBufMR(device.pd, length_bytes, int(access), fd, offset=offset_bytes)
    # pyverbs asks for iova = offset (pyverbs/mr.pyx), and its ``buf`` stays 0.
    with _registered(device, region, offset_bytes, length_bytes, int(region.offset)) as made:
        yield made


def dmabuf_probe_errno(device: Device) -> int | None:
    """What ``ibv_reg_dmabuf_mr`` says of descriptor -1; None if it accepts it.

    EBADF: the call is there. EOPNOTSUPP: the provider or the kernel's driver lacks it.
    EPROTONOSUPPORT: the kernel does not know it. Source: src/transport/net_ib/gdr.cc of NCCL.
    VerbsError if it fails without an errno.
    """
    try:
        with register_dmabuf(device, -1, 0, PAGE_BYTES, Access.LOCAL_WRITE):
            return None
    except VerbsError as refused:
        if refused.error_number is None:
            raise
        return refused.error_number


@contextmanager
def _registered(
    device: Device, region: Any, requested_address: int, requested_bytes: int, address: int
) -> Iterator[Registration]:
    with owned(region, f"ibv_dereg_mr on {device.name}"):
        yield Registration(
            requested_address=requested_address,
            requested_bytes=requested_bytes,
            address=address,
            length_bytes=int(region.length),
            lkey=int(region.lkey),
            rkey=int(region.rkey),
        )
