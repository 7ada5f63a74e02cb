"""Host memory for a NIC: a payload between guards. Pure: registers nothing."""

from __future__ import annotations

import mmap

import numpy as np

from gdrcheck.pattern import Bytes, Key, Pattern
from gdrcheck.sizes import size_text
from gdrcheck.verbs.errors import VerbsError

PAGE_BYTES = mmap.PAGESIZE


def allocate(length_bytes: int) -> Bytes:
    """Page-aligned anonymous memory, freed with the last view of it."""
    step = f"allocate {size_text(length_bytes)} of host memory"
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
        self._all = allocate(self.total_bytes)
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
