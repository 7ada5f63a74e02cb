"""GPU memory that NICs read and write, between guards, filled and judged by the GPU and the CPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gdrcheck import likeness, steps
from gdrcheck.gpu.buffers import Buffer
from gdrcheck.gpu.engine import engine_of
from gdrcheck.gpu.flush import BY_READ, flush_remote_writes
from gdrcheck.likeness import Expected
from gdrcheck.mismatch import Verdict
from gdrcheck.pattern import Bytes, Key, Pattern, expected
from gdrcheck.verbs.judging import poisoned, spill, spill_text
from gdrcheck.verbs.link import Judged

# A page of the host on either side.
GUARD_BYTES = 4096
# Guards are poisoned with keys that no message has.
_GUARD_DIRECTION = 1 << 33


class GpuPayload:
    """The middle of a buffer in GPU memory; a ``link.Payload``. Closes nothing.

    ``address`` is the device pointer of its first byte. ``pattern`` is scratch space of the CPU
    with room for the largest message; it may be another payload's as well. ``read_back`` reads a
    byte at an offset through the NIC that wrote it, for GPUs that have no other flush.
    """

    is_gpu = True

    def __init__(
        self, buffer: Buffer, pattern: Pattern, read_back: Callable[[int], None] | None = None
    ) -> None:
        self.buffer = buffer
        self.gpu = buffer.gpu
        self.length_bytes = buffer.length_bytes - 2 * GUARD_BYTES
        self.address = buffer.address + GUARD_BYTES
        self._pattern = pattern
        self._read_back = read_back
        self._engine = engine_of(buffer.gpu)
        self._copy: Bytes = np.empty(0, dtype=np.uint8)
        self._slot = buffer.gpu.device.slot
        self._guards = {
            "before the payload": (0, Key(buffer.address, 0, _GUARD_DIRECTION, 0)),
            "after the payload": (
                GUARD_BYTES + self.length_bytes,
                Key(buffer.address, 1, _GUARD_DIRECTION, 0),
            ),
        }
        for at, key in self._guards.values():
            self._engine.poison(buffer, key, at, GUARD_BYTES)

    def fill(self, key: Key, offset: int, length: int, start: int) -> None:
        """Write the key's stream into the range."""
        with steps.only(f"cuLaunchKernel to fill {length} B on {self._slot}"):
            self._engine.fill(self.buffer, key, self._at(offset, length), length, start)

    def poison(self, key: Key, offset: int, length: int, start: int) -> None:
        """Write what must not remain once the key's message has arrived."""
        with steps.only(f"cuLaunchKernel to poison {length} B on {self._slot}"):
            self._engine.poison(self.buffer, key, self._at(offset, length), length, start)

    def flip(self, offset: int) -> None:
        """Spoil the lowest bit of one byte."""
        byte = self._copied(offset, 1)
        byte ^= 1
        self.gpu.host_to_device(self.address + offset, byte)

    def flush(self, offset: int) -> str:
        """Make what a NIC has written visible to the GPU, as the GPU's attributes call for."""
        with steps.only(f"flush what the NIC wrote to {self._slot}"):
            how = flush_remote_writes(self.gpu)
            if how == BY_READ and self._read_back is not None:
                self._read_back(offset)
        return how

    def verify(self, key: Key, offset: int, length: int, start: int) -> Verdict:
        """What GPU and CPU say of the range, which must hold the key's stream."""
        with steps.only(f"cuLaunchKernel to verify {length} B on {self._slot}"):
            piece = (self._at(offset, length), expected(key, length, start))
            (by_gpu,) = self._engine.gpu_verify_pieces(self.buffer, [piece])
            by_cpu = self._pattern.verify(self._copied(offset, length), key, start)
        return Verdict(by_gpu, by_cpu)

    def judge(self, key: Key, offset: int, length: int, start: int, beside: int) -> Judged:
        """``verify``, and whether so many bytes before and behind are still poisoned.

        Three kernels in one turn, and one copy for the CPU.
        """
        first, last = offset - beside, offset + length
        pieces: list[tuple[int, Expected]] = [
            (self._at(offset, length), expected(key, length, start)),
            (self._at(first, beside), poisoned(key, start - beside, beside)),
            (self._at(last, beside), poisoned(key, start + length, beside)),
        ]
        with steps.only(f"cuLaunchKernel to verify {length} B on {self._slot}"):
            message, before, behind = self._engine.gpu_verify_pieces(self.buffer, pieces)
            zone = self._copied(first, length + 2 * beside)
            by_cpu = self._pattern.verify(zone[beside : beside + length], key, start)
        spilled = spill(self._pattern, zone, key, start - beside, beside)
        for where, wrong in (("before", before), ("behind", behind)):
            if wrong is not None and spilled is None:
                spilled = f"{spill_text(where, beside, wrong)}, as the GPU sees it alone"
        return Judged(Verdict(message, by_cpu), spilled)

    def read(self, offset: int, length: int) -> bytes:
        """The bytes as they are now."""
        return self._copied(offset, length).tobytes()

    def guard_damage(self) -> str | None:
        """What happened to the guards around the payload; None if nothing. Mends them."""
        with steps.only(f"cuLaunchKernel to verify the guards on {self._slot}"):
            pieces = [(at, poisoned(key, 0, GUARD_BYTES)) for at, key in self._guards.values()]
            by_gpu = self._engine.gpu_verify_pieces(self.buffer, pieces)
            for (name, (at, key)), seen, (_, wanted) in zip(
                self._guards.items(), by_gpu, pieces, strict=True
            ):
                data = self._copied(at - GUARD_BYTES, GUARD_BYTES)
                wrong = seen or likeness.verify(_reader(data), wanted)
                if wrong is not None:
                    self._engine.poison(self.buffer, key, at, GUARD_BYTES)
                    return (
                        f"guard {name} in GPU memory: {wrong.bad_bytes} bytes changed, the first "
                        f"at byte {wrong.first_bad_offset} of {GUARD_BYTES}"
                    )
        return None

    def _at(self, offset: int, length: int) -> int:
        """The place in the buffer. ValueError if it is not inside the payload."""
        if offset < 0 or length < 1 or offset + length > self.length_bytes:
            raise ValueError(
                f"{length} bytes at {offset} are not inside a payload of {self.length_bytes} bytes"
            )
        return GUARD_BYTES + offset

    def _copied(self, offset: int, length: int) -> Bytes:
        """A copy of the memory as it is now, used again by the next; guards can be copied too."""
        if len(self._copy) < length:
            self._copy = np.empty(length, dtype=np.uint8)
        out = self._copy[:length]
        self.gpu.device_to_host(self.address + offset, out)
        return out


def _reader(data: Bytes) -> likeness.Read:
    return lambda at, size: data[at : at + size]
