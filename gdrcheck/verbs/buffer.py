"""Host memory for a NIC: a payload between guards. Pure: registers nothing."""

from __future__ import annotations

import mmap

import numpy as np

from gdrcheck.mismatch import Verdict
from gdrcheck.pattern import Bytes, Key, Pattern
from gdrcheck.sizes import size_text
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.judging import spill
from gdrcheck.verbs.link import Judged

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
        """Which guard has changed since it was made, how much and where; None if neither has.

        What has changed is mended, so that it is told once.
        """
        for name, guard in self._guards.items():
            expected = np.frombuffer(self._expected[name], dtype=np.uint8)
            bad = np.flatnonzero(guard != expected)
            if len(bad):
                guard[:] = expected
                return (
                    f"guard {name}: {len(bad)} bytes changed, the first at byte {bad[0]} "
                    f"of {PAGE_BYTES}"
                )
        return None


class HostPayload:
    """The payload of a host buffer, filled and judged by the CPU; a ``link.Payload``.

    ``view`` is the memory itself, ``address`` where it begins. ``pattern`` has its capacity.
    """

    is_gpu = False

    def __init__(self, buffer: HostBuffer, pattern: Pattern) -> None:
        self._buffer = buffer
        self._pattern = pattern
        self.view = buffer.payload
        self.address = buffer.payload_address
        self.length_bytes = buffer.payload_bytes

    def fill(self, key: Key, offset: int, length: int, start: int) -> None:
        """Write the key's stream into the range."""
        self._pattern.fill(self._piece(offset, length), key, start)

    def poison(self, key: Key, offset: int, length: int, start: int) -> None:
        """Write what must not remain once the key's message has arrived."""
        self._pattern.poison(self._piece(offset, length), key, start)

    def flip(self, offset: int) -> None:
        """Spoil the lowest bit of one byte."""
        self.view[offset] ^= 1

    def flush(self, offset: int) -> str:  # noqa: ARG002
        """Nothing: the CPU sees what has completed."""
        return "not needed (host memory)"

    def verify(self, key: Key, offset: int, length: int, start: int) -> Verdict:
        """Whether the range holds the key's stream."""
        return Verdict(None, self._pattern.verify(self._piece(offset, length), key, start))

    def judge(self, key: Key, offset: int, length: int, start: int, beside: int) -> Judged:
        """``verify``, and whether so many bytes before and behind are still poisoned."""
        verdict = self.verify(key, offset, length, start)
        around = self._piece(offset - beside, length + 2 * beside)
        return Judged(verdict, spill(self._pattern, around, key, start - beside, beside))

    def read(self, offset: int, length: int) -> bytes:
        """The bytes as they are now."""
        return self._piece(offset, length).tobytes()

    def guard_damage(self) -> str | None:
        """What happened to the guards around the payload; None if nothing. Mends them."""
        return self._buffer.guard_damage()

    def _piece(self, offset: int, length: int) -> Bytes:
        if offset < 0 or length < 1 or offset + length > self.length_bytes:
            raise ValueError(
                f"{length} bytes at {offset} are not inside a payload of {self.length_bytes} bytes"
            )
        return self.view[offset : offset + length]
