"""The ends of a transfer: a region in GPU or host memory, and the bytes around it.

Each end owns a zone of memory that is a little larger than its region. Between transfers the whole
zone holds the stream of a key, so that any byte that changes beside a message is seen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gdrcheck.gpu.buffers import Buffer
from gdrcheck.gpu.engine import engine_of
from gdrcheck.mismatch import Verdict
from gdrcheck.pattern import Bytes, Key, Pattern, verify_stream
from gdrcheck.verbs.buffer import HostBuffer
from gdrcheck.verbs.memory import Registration

Role = Literal["source", "sink"]

# The bytes of a zone come from this direction's stream of the transfer's key.
_BESIDE: dict[Role, int] = {"source": 1 << 32, "sink": (1 << 32) + 1}


@dataclass(frozen=True)
class Piece:
    """Where a message lies in an end's region."""

    offset_bytes: int
    length_bytes: int


@dataclass(frozen=True)
class Zone:
    """An end's memory: from ``start`` to ``end`` in its buffer, registered from ``region`` on."""

    start: int
    region: int
    end: int


class End(ABC):
    """One end. All places are counted from the region's first byte. CudaError from GPU memory."""

    is_gpu: bool

    def __init__(self, role: Role, zone: Zone, registration: Registration) -> None:
        self.role = role
        self.zone = zone
        self.registration = registration

    @property
    def name(self) -> str:
        """``source in GPU memory``."""
        return f"{self.role} in {'GPU' if self.is_gpu else 'host'} memory"

    def surround(self, key: Key) -> None:
        """Fill the whole zone with what must stay beside the message of ``key``."""
        start = self.zone.start
        self._fill(_beside(key, self), start, self.zone.end - start, start)

    def fill(self, key: Key, piece: Piece) -> None:
        """Put the message of ``key`` there, as the piece of its stream from its offset on."""
        at = self.zone.region + piece.offset_bytes
        self._fill(key, at, piece.length_bytes, piece.offset_bytes)

    def poison(self, key: Key, piece: Piece, start: int) -> None:
        """Put there what must be gone once the message of ``key``, from ``start``, has arrived."""
        self._poison(key, self.zone.region + piece.offset_bytes, piece.length_bytes, start)

    def verify(self, key: Key, piece: Piece, start: int, other: End) -> Verdict:
        """Whether the message of ``key``, from ``start``, is there; ``other`` is the other end."""
        at = self.zone.region + piece.offset_bytes
        neighbours = [
            (_beside(key, self), at),
            (_beside(key, other), other.zone.region + start),
        ]
        return self._verify(key, at, piece.length_bytes, start, neighbours)

    def damage(self, key: Key, piece: Piece) -> str | None:
        """What changed in the zone beside the piece since ``surround``; None if nothing."""
        message = self.zone.region + piece.offset_bytes
        after = message + piece.length_bytes
        for where, start, end in (
            ("before", self.zone.start, message),
            ("after", after, self.zone.end),
        ):
            if start == end:
                continue
            verdict = self._verify(_beside(key, self), start, end - start, start, [])
            wrong = verdict.by_cpu or verdict.by_gpu
            if wrong is not None:
                return (
                    f"{self.name}: of the {end - start} bytes {where} the message of "
                    f"{piece.length_bytes}, {wrong.bad_bytes} changed, the first of them is number "
                    f"{wrong.first_bad_offset}; it looks like {wrong.origin}"
                )
        return None

    def changed(self, key: Key, piece: Piece) -> str | None:
        """What changed in the message that ``fill`` put there; None if nothing."""
        at = self.zone.region + piece.offset_bytes
        verdict = self._verify(key, at, piece.length_bytes, piece.offset_bytes, [])
        wrong = verdict.by_cpu or verdict.by_gpu
        if wrong is None:
            return None
        return (
            f"{self.name}: {wrong.bad_bytes} of the {piece.length_bytes} bytes of the message "
            f"itself changed, the first of them is number {wrong.first_bad_offset}"
        )

    @abstractmethod
    def _fill(self, key: Key, at: int, length: int, start: int) -> None: ...

    @abstractmethod
    def _poison(self, key: Key, at: int, length: int, start: int) -> None: ...

    @abstractmethod
    def _verify(
        self, key: Key, at: int, length: int, start: int, neighbours: Sequence[tuple[Key, int]]
    ) -> Verdict: ...


class GpuEnd(End):
    """A zone of a GPU buffer, filled and verified by the GPU; the CPU verifies a copy as well."""

    is_gpu = True

    def __init__(self, role: Role, zone: Zone, registration: Registration, buffer: Buffer) -> None:
        super().__init__(role, zone, registration)
        self._buffer = buffer
        self._engine = engine_of(buffer.gpu)

    def _fill(self, key: Key, at: int, length: int, start: int) -> None:
        self._engine.fill(self._buffer, key, at, length, start)

    def _poison(self, key: Key, at: int, length: int, start: int) -> None:
        self._engine.poison(self._buffer, key, at, length, start)

    def _verify(
        self, key: Key, at: int, length: int, start: int, neighbours: Sequence[tuple[Key, int]]
    ) -> Verdict:
        return self._engine.verify(self._buffer, key, at, length, start, neighbours)


class HostEnd(End):
    """A zone that is the payload of a host buffer; its guards are part of what must not change."""

    is_gpu = False

    def __init__(
        self, role: Role, zone: Zone, registration: Registration, buffer: HostBuffer
    ) -> None:
        super().__init__(role, zone, registration)
        self._buffer = buffer
        self._pattern = Pattern(buffer.payload_bytes)

    def damage(self, key: Key, piece: Piece) -> str | None:
        found = super().damage(key, piece)
        guard = self._buffer.guard_damage()
        return found or (f"{self.name}: {guard}" if guard else None)

    def _fill(self, key: Key, at: int, length: int, start: int) -> None:
        self._pattern.fill(self._buffer.payload[at : at + length], key, start)

    def _poison(self, key: Key, at: int, length: int, start: int) -> None:
        self._pattern.poison(self._buffer.payload[at : at + length], key, start)

    def _verify(
        self, key: Key, at: int, length: int, start: int, neighbours: Sequence[tuple[Key, int]]
    ) -> Verdict:
        payload = self._buffer.payload

        def read(offset: int, size: int) -> Bytes:
            return payload[at + offset : at + offset + size]

        return Verdict(by_gpu=None, by_cpu=verify_stream(read, length, key, start, neighbours))


def _beside(key: Key, end: End) -> Key:
    """The key of what lies beside a message: of no message, and of this end only."""
    return replace(key, direction=_BESIDE[end.role])
