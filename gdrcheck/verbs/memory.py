"""Registration of host memory: the method ``host``, plain ``ibv_reg_mr``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntFlag

from gdrcheck.verbs.buffer import allocate, size_text
from gdrcheck.verbs.compat import MR, owned, verbs_step
from gdrcheck.verbs.device import Device


class Access(IntFlag):
    """enum ibv_access_flags of libibverbs/verbs.h; the numbers are part of its ABI."""

    LOCAL_WRITE = 1
    REMOTE_WRITE = 1 << 1
    REMOTE_READ = 1 << 2
    REMOTE_ATOMIC = 1 << 3
    RELAXED_ORDERING = 1 << 20


REMOTE = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ


@dataclass(frozen=True, slots=True)
class Registration:
    """A memory region as the library returned it, beside what it was asked for.

    ``address`` is where work requests address it. Closed by the context manager that made it.
    """

    requested_address: int
    requested_bytes: int
    address: int
    length_bytes: int
    lkey: int
    rkey: int


@contextmanager
def register(
    device: Device, address: int, length_bytes: int, access: Access
) -> Iterator[Registration]:
    """Register memory that the caller owns and keeps; deregistered at the end of the block.

    VerbsError with the errno if the device refuses it.
    """
    step = f"ibv_reg_mr {size_text(length_bytes)} on {device.name}"
    with verbs_step(step):
        region = MR(device.pd, length_bytes, int(access), address=address)
    with owned(region, f"ibv_dereg_mr on {device.name}"):
        yield Registration(
            requested_address=address,
            requested_bytes=length_bytes,
            address=int(region.buf),
            length_bytes=int(region.length),
            lkey=int(region.lkey),
            rkey=int(region.rkey),
        )


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
