"""Bytes that say where they belong, so that any wrong byte is seen and most wrongs are named.

The byte stream of a key is made of little-endian 64-bit words: the word at position p (in units of
8 bytes from the start of the payload) is ``mix(p) XOR mix(key)``. Every message is a piece of that
stream, from the byte at which it starts in the payload. ``mix`` is the finaliser of SplitMix64
(Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014), a bijection,
so two iterations of one exchange differ in every word, and a GPU can compute it.

Poison is the complement of the stream, so an unwritten byte is never right by accident.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gdrcheck.mismatch import LooksLike, Mismatch

Bytes = NDArray[np.uint8]

_MASK = (1 << 64) - 1
_EXCERPT_BYTES = 16
# How far from its place right data is looked for, and how many bytes must agree to say so.
_SHIFT_BYTES = 4096
_EVIDENCE_BYTES = 8


@dataclass(frozen=True, slots=True)
class Key:
    """What a message's bytes depend on, apart from their place. Each is an unsigned 64-bit number.

    ``source`` names the sending queue pair; ``iteration`` counts all messages of an exchange.
    """

    run_tag: int
    iteration: int
    direction: int
    source: int

    @property
    def tag(self) -> int:
        """The 64-bit word that the stream of this key is XORed with."""
        word = 0
        for part in (self.run_tag, self.source, self.direction, self.iteration):
            word = mix(word ^ (part & _MASK))
        return word

    def previous(self) -> Key | None:
        """The key of the message before this one; None for the first."""
        return replace(self, iteration=self.iteration - 1) if self.iteration else None


def mix(word: int) -> int:
    """SplitMix64's finaliser for one 64-bit word."""
    word = (word + 0x9E3779B97F4A7C15) & _MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)


def _position_table(words: int) -> NDArray[Any]:
    """``mix(p)`` for every p below ``words``, as little-endian 64-bit words."""
    table = np.arange(words, dtype=np.uint64)
    table += np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        table ^= table >> np.uint64(shift)
        table *= np.uint64(factor)
    table ^= table >> np.uint64(31)
    return table.astype("<u8", copy=False)


class Pattern:
    """Fills, poisons and verifies pieces of a payload of up to ``capacity_bytes``.

    Holds the position table and scratch space, twice the capacity in all. Not for two threads.
    """

    def __init__(self, capacity_bytes: int) -> None:
        words = capacity_bytes // 8 + 2
        self.capacity_bytes = capacity_bytes
        self._table: Bytes = _position_table(words).view(np.uint8)
        self._scratch: Bytes = np.empty(words * 8, dtype=np.uint8)
        self._equal = np.empty(words, dtype=np.bool_)

    def fill(self, out: Bytes, key: Key, start: int = 0) -> None:
        """Write the key's stream into ``out``; its first byte is byte ``start`` of the stream."""
        self._stream(out, key.tag, start)

    def poison(self, out: Bytes, key: Key, start: int = 0) -> None:
        """Write what must not remain once the key's message has arrived."""
        self._stream(out, key.tag ^ _MASK, start)

    def is_poison(self, data: Bytes, key: Key, start: int = 0) -> bool:
        """Whether ``data`` is as ``poison`` left it."""
        return self._matches(data, key.tag ^ _MASK, start)

    def verify(self, data: Bytes, key: Key, start: int = 0) -> Mismatch | None:
        """None if every byte of ``data`` is the key's stream from byte ``start`` on."""
        if self._matches(data, key.tag, start):
            return None
        expected = self._piece(key.tag, start, len(data))
        bad = np.flatnonzero(expected != data)
        first = int(bad[0])
        excerpt = slice(max(0, first - 4), first + _EXCERPT_BYTES - 4)
        return Mismatch(
            first_bad_offset=first,
            bad_bytes=len(bad),
            excerpt_offset=excerpt.start,
            expected_hex=expected[excerpt].tobytes().hex(),
            got_hex=data[excerpt].tobytes().hex(),
            looks_like=self._classify(data, bad, key, start),
        )

    def _stream(self, out: Bytes, tag: int, start: int) -> None:
        size = len(out)
        if start < 0 or start + size > self.capacity_bytes:
            raise ValueError(
                f"{size} bytes from byte {start} on do not fit into {self.capacity_bytes}"
            )
        word = _rotated(tag, start)
        body = size - size % 8
        table = self._table[start : start + size]
        np.bitwise_xor(table[:body].view("<u8"), word, out=out[:body].view("<u8"))
        if body < size:
            tail = np.frombuffer(int(word).to_bytes(8, "little"), dtype=np.uint8)[: size - body]
            np.bitwise_xor(table[body:], tail, out=out[body:])

    def _matches(self, data: Bytes, tag: int, start: int) -> bool:
        size = len(data)
        expected = self._scratch[:size]
        self._stream(expected, tag, start)
        body = size - size % 8
        equal = self._equal[: body // 8]
        np.equal(expected[:body].view("<u8"), data[:body].view("<u8"), out=equal)
        return bool(equal.all()) and expected[body:].tobytes() == data[body:].tobytes()

    def _piece(self, tag: int, start: int, size: int) -> Bytes:
        out = np.empty(size, dtype=np.uint8)
        self._stream(out, tag, start)
        return out

    def _classify(self, data: Bytes, bad: NDArray[np.intp], key: Key, start: int) -> LooksLike:
        got = data[bad]
        if np.array_equal(got, self._piece(key.tag ^ _MASK, start, len(data))[bad]):
            return "poison"
        # One or two bytes can look like anything.
        if len(bad) < min(_EVIDENCE_BYTES, len(data)):
            return "other"
        if not got.any():
            return "zeros"
        earlier = key.previous()
        if earlier and np.array_equal(got, self._piece(earlier.tag, start, len(data))[bad]):
            return "previous iteration"
        return "shifted" if self._is_shifted(data, bad, key, start) else "other"

    def _is_shifted(self, data: Bytes, bad: NDArray[np.intp], key: Key, start: int) -> bool:
        """Whether the wrong bytes are the stream's bytes from one distance away."""
        lowest = max(0, start - _SHIFT_BYTES)
        highest = min(self.capacity_bytes, start + len(data) + _SHIFT_BYTES)
        stream = self._piece(key.tag, lowest, highest - lowest)
        first = int(bad[0])
        sample = data[first : first + _EVIDENCE_BYTES].tobytes()
        if len(sample) < _EVIDENCE_BYTES:
            return False
        found = stream.tobytes().find(sample)
        if found < 0:
            return False
        moved = bad - first + found
        inside = moved[moved < len(stream)]
        return bool(np.array_equal(data[bad[: len(inside)]], stream[inside]))


def _rotated(tag: int, start: int) -> np.uint64:
    """The tag as it lies over words that begin at byte ``start``."""
    data = tag.to_bytes(8, "little")
    phase = start % 8
    return np.uint64(int.from_bytes(data[phase:] + data[:phase], "little"))
