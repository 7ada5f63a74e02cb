"""Comparing bytes with a stream, and naming what wrong bytes are. One judge for CPU and GPU.

A verifier says where the first wrong byte is, how many there are, and how many of them each of the
candidates accounts for. What the bytes look like follows from these numbers alone, so two
verifiers that saw the same bytes say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gdrcheck.mismatch import LooksLike, Mismatch
from gdrcheck.stream import SAMPLE_BYTES, ZEROS, Bytes, Stream

# Returns the bytes of the range: offset, length. What it returns is used before the next call.
Read = Callable[[int, int], Bytes]

CHUNK_BYTES = 4 << 20
# Pieces of a stream that stay in the processor's caches are made at thrice the rate of large ones.
_PIECE_BYTES = 64 << 10
_EXCERPT_BYTES = 16
_EXCERPT_BEFORE_BYTES = 4
# One or two wrong bytes can look like anything.
_EVIDENCE_BYTES = 8


@dataclass(frozen=True, slots=True)
class Candidate:
    """A stream that all wrong bytes may come from; ``start`` is where the first byte would be."""

    looks_like: LooksLike
    stream: Stream
    start: int


@dataclass(frozen=True, slots=True)
class Expected:
    """What ``length_bytes`` bytes must be: the stream from byte ``start`` on.

    ``previous`` is the stream that they held before; each neighbour is the stream of an adjoining
    range, and the position in it that would lie at the first byte.
    """

    stream: Stream
    start: int
    length_bytes: int
    previous: Stream | None = None
    neighbours: tuple[tuple[Stream, int], ...] = ()

    def __post_init__(self) -> None:
        if self.start < 0 or self.length_bytes < 1:
            raise ValueError(
                f"{self.length_bytes} bytes from byte {self.start} on cannot be verified: "
                "at least one byte, from byte 0 or later"
            )

    def piece(self, offset: int, length_bytes: int) -> Bytes:
        """The expected bytes of a range of the buffer."""
        return self.stream.piece(self.start + offset, length_bytes)

    def sample_range(self, first_bad: int) -> tuple[int, int]:
        """Offset and length of what ``candidates`` needs to see."""
        return first_bad, min(SAMPLE_BYTES, self.length_bytes - first_bad)

    def excerpt_range(self, first_bad: int) -> tuple[int, int]:
        """Offset and length of what a mismatch shows."""
        offset = max(0, first_bad - _EXCERPT_BEFORE_BYTES)
        end = min(self.length_bytes, first_bad + _EXCERPT_BYTES - _EXCERPT_BEFORE_BYTES)
        return offset, end - offset

    def candidates(self, first_bad: int, sample: bytes) -> tuple[Candidate, ...]:
        """What the wrong bytes may be, likeliest first; ``sample`` begins at the first one."""
        found = [
            Candidate("poison", self.stream.complement(), self.start),
            Candidate("zeros", ZEROS, 0),
        ]
        if self.previous:
            found.append(Candidate("previous iteration", self.previous, self.start))
        here = self.start + first_bad
        for stream, start in self.neighbours:
            found.append(Candidate("neighbour", stream, start))
            # A neighbour of the same stream is right data in the wrong place.
            if stream != self.stream:
                found += _moved("neighbour", stream, start + first_bad, sample, first_bad)
        found += _moved("shifted", self.stream, here, sample, first_bad)
        return tuple(found)

    def mismatch(
        self,
        first_bad: int,
        bad_bytes: int,
        excerpt: Bytes,
        candidates: Sequence[Candidate],
        counts: Sequence[int],
    ) -> Mismatch:
        """What a verifier found, in words. ``counts``: wrong bytes that each candidate explains."""
        offset, length = self.excerpt_range(first_bad)
        return Mismatch(
            first_bad_offset=first_bad,
            bad_bytes=bad_bytes,
            excerpt_offset=offset,
            expected_hex=self.piece(offset, length).tobytes().hex(),
            got_hex=excerpt.tobytes().hex(),
            looks_like=self._looks_like(bad_bytes, candidates, counts),
        )

    def _looks_like(
        self, bad_bytes: int, candidates: Sequence[Candidate], counts: Sequence[int]
    ) -> LooksLike:
        few = bad_bytes < min(_EVIDENCE_BYTES, self.length_bytes)
        for candidate, count in zip(candidates, counts, strict=True):
            if count == bad_bytes and (candidate.looks_like == "poison" or not few):
                return candidate.looks_like
        return "other"


def _moved(
    looks_like: LooksLike, stream: Stream, near: int, sample: bytes, first_bad: int
) -> list[Candidate]:
    position = stream.locate(sample, near)
    return [] if position is None else [Candidate(looks_like, stream, position - first_bad)]


def verify(read: Read, expected: Expected, chunk_bytes: int = CHUNK_BYTES) -> Mismatch | None:
    """None if every byte is as expected. Holds no more than a few chunks."""
    wrong: _Wrong | None = None
    for offset in range(0, expected.length_bytes, chunk_bytes):
        data = read(offset, min(chunk_bytes, expected.length_bytes - offset))
        bad = _bad_bytes(offset, data, expected)
        if not len(bad):
            continue
        if wrong is None:
            # A copy: reading what lies around it may reuse the memory.
            data = data.copy()
            wrong = _Wrong.at(offset, int(bad[0]), data, read, expected)
        wrong.add(offset, data, bad)
    return wrong.mismatch() if wrong else None


def _bad_bytes(offset: int, data: Bytes, expected: Expected) -> NDArray[np.intp]:
    """Where the wrong bytes of a chunk are, from its first byte on."""
    found = []
    for at in range(0, len(data), _PIECE_BYTES):
        got = data[at : at + _PIECE_BYTES]
        piece = expected.piece(offset + at, len(got))
        # Compared once: memory that a NIC writes may be right at a second look.
        different = got != piece
        if different.any():
            found.append(np.flatnonzero(different) + at)
    return np.concatenate(found) if found else np.empty(0, dtype=np.intp)


@dataclass(slots=True)
class _Wrong:
    """The wrong bytes so far."""

    expected: Expected
    first_bad: int
    excerpt: Bytes
    candidates: tuple[Candidate, ...]
    counts: list[int]
    bad_bytes: int = 0

    @classmethod
    def at(cls, offset: int, bad: int, data: Bytes, read: Read, expected: Expected) -> _Wrong:
        first = offset + bad
        seen = [
            _overlaid(read, *wanted, offset, data)
            for wanted in (expected.excerpt_range(first), expected.sample_range(first))
        ]
        candidates = expected.candidates(first, seen[1].tobytes())
        return cls(expected, first, seen[0], candidates, [0] * len(candidates))

    def add(self, offset: int, data: Bytes, bad: NDArray[np.intp]) -> None:
        got = data[bad]
        for number, candidate in enumerate(self.candidates):
            theirs = candidate.stream.piece(candidate.start + offset, len(data))[bad]
            self.counts[number] += int(np.count_nonzero(got == theirs))
        self.bad_bytes += len(bad)

    def mismatch(self) -> Mismatch:
        return self.expected.mismatch(
            self.first_bad, self.bad_bytes, self.excerpt, self.candidates, self.counts
        )


def _overlaid(read: Read, offset: int, length: int, chunk_offset: int, chunk: Bytes) -> Bytes:
    """A range as it was seen in the chunk, and as it is now where it reaches beyond."""
    first, end = max(offset, chunk_offset), min(offset + length, chunk_offset + len(chunk))
    seen = chunk[first - chunk_offset : end - chunk_offset]
    if len(seen) == length:
        return seen.copy()
    out = read(offset, length).copy()
    out[first - offset : end - offset] = seen
    return out
