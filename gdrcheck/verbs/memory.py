"""Host memory for a NIC, and its registration by the method ``host`` (plain ``ibv_reg_mr``)."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntFlag

import numpy as np

from gdrcheck.pattern import Bytes, Key, Pattern
from gdrcheck.verbs.compat import MR, verbs_step
from gdrcheck.verbs.device import Device
from gdrcheck.verbs.errors import VerbsError

PAGE_BYTES = mmap.PAGESIZE


class Access(IntFlag):
    """enum ibv_access_flags of libibverbs/verbs.h; the numbers are part of its ABI."""

    LOCAL_WRITE = 1
    REMOTE_WRITE = 1 << 1
    REMOTE_READ = 1 << 2
    REMOTE_ATOMIC = 1 << 3
    RELAXED_ORDERING = 1 << 20


LOCAL = Access.LOCAL_WRITE
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


def _allocate(length_bytes: int) -> Bytes:
    """Page-aligned anonymous memory, freed with the last view of it."""
    step = f"allocate {_size(length_bytes)} of host memory"
    try:
        memory = mmap.mmap(-1, length_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as problem:
        raise VerbsError(f"{step}: {problem}", step=step, error_number=problem.errno) from problem
    view: Bytes = np.frombuffer(memory, dtype=np.uint8)
    return view


class HostBuffer:
    """Page-aligned anonymous memory: one guard page, the payload, one guard page.

    The memory is freed when the last view of it is gone, so close registrations first.
    """

    def __init__(self, payload_bytes: int) -> None:
        pages = -(-payload_bytes // PAGE_BYTES)
        self.payload_bytes = pages * PAGE_BYTES
        self.total_bytes = self.payload_bytes + 2 * PAGE_BYTES
        self._all = _allocate(self.total_bytes)
        self.address = int(self._all.ctypes.data)
        self.payload_address = self.address + PAGE_BYTES
        self.payload: Bytes = self._all[PAGE_BYTES : PAGE_BYTES + self.payload_bytes]
        self._guards = {
            "before the payload": self._all[:PAGE_BYTES],
            "after the payload": self._all[PAGE_BYTES + self.payload_bytes :],
        }
        pattern = Pattern(2 * PAGE_BYTES)
        for number, guard in enumerate(self._guards.values()):
            pattern.poison(guard, Key(self.address, number, 0, 0))
        self._expected = {name: guard.tobytes() for name, guard in self._guards.items()}

    def guard_damage(self) -> str | None:
        """Which guard has changed since it was made, how much and where; None if neither has."""
        for name, guard in self._guards.items():
            expected = self._expected[name]
            if guard.tobytes() != expected:
                bad = np.flatnonzero(guard != np.frombuffer(expected, dtype=np.uint8))
                return (
                    f"guard {name}: {len(bad)} bytes changed, the first at byte {bad[0]} "
                    f"of {PAGE_BYTES}"
                )
        return None


@contextmanager
def register(
    device: Device, address: int, length_bytes: int, access: Access
) -> Iterator[Registration]:
    """Register memory that the caller owns and keeps; deregistered at the end of the block.

    VerbsError with the errno if the device refuses it.
    """
    step = f"ibv_reg_mr {_size(length_bytes)} on {device.name}"
    with verbs_step(step):
        region = MR(device.pd, length_bytes, int(access), address=address)
    with region:
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
    memory = _allocate(length_bytes)
    with register(device, int(memory.ctypes.data), length_bytes, access) as registration:
        yield registration


def _size(length_bytes: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if length_bytes >= factor and length_bytes % factor == 0:
            return f"{length_bytes // factor} {unit}"
    return f"{length_bytes} B"
