"""Bytes that say where they belong, so that any wrong byte is seen and most wrongs are named.

The byte stream of a key is made of little-endian 64-bit words: the word at position p (in units of
8 bytes from the start of the payload) is ``mix(p) XOR mix(key)``. Every message is a piece of that
stream, from the byte at which it starts in the payload. ``mix`` is the finaliser of SplitMix64
(Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014), a bijection,
so two iterations of one exchange differ in every word, and a GPU can compute it.

Poison is the complement of the stream, so an unwritten byte is never right by accident.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gdrcheck import likeness
from gdrcheck.likeness import Expected, Read
from gdrcheck.mismatch import Mismatch
from gdrcheck.stream import MASK, Bytes, Stream, mix, mixed_words

__all__ = ["Bytes", "Key", "Pattern", "expected", "fill_stream", "mix", "verify_stream"]


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
            word = mix(word ^ (part & MASK))
        return word

    @property
    def stream(self) -> Stream:
        """The bytes of this key."""
        return Stream("mixed", self.tag)

    def previous(self) -> Key | None:
        """The key of the message before this one; None for the first."""
        return replace(self, iteration=self.iteration - 1) if self.iteration else None


def expected(
    key: Key, length_bytes: int, start: int = 0, neighbours: Sequence[tuple[Key, int]] = ()
) -> Expected:
    """What a message of this key must be, and what it may be instead.

    A neighbour is the key of an adjoining range, and the position in its stream that would lie at
    the message's first byte. ValueError when there is nothing to verify.
    """
    earlier = key.previous()
    return Expected(
        key.stream,
        start,
        length_bytes,
        previous=earlier.stream if earlier else None,
        neighbours=tuple((other.stream, at) for other, at in neighbours),
    )


def fill_stream(
    write: Callable[[int, Bytes], object],
    length_bytes: int,
    key: Key,
    start: int = 0,
    chunk_bytes: int = likeness.CHUNK_BYTES,
) -> None:
    """Hand the key's stream to ``write`` (offset, bytes) chunk by chunk, for any length."""
    for offset in range(0, length_bytes, chunk_bytes):
        size = min(chunk_bytes, length_bytes - offset)
        write(offset, key.stream.piece(start + offset, size))


def verify_stream(
    read: Read,
    length_bytes: int,
    key: Key,
    start: int = 0,
    neighbours: Sequence[tuple[Key, int]] = (),
) -> Mismatch | None:
    """None if every byte that ``read`` (offset, length) returns is the key's stream.

    Reads chunk by chunk, so any length takes the memory of a few chunks.
    """
    return likeness.verify(read, expected(key, length_bytes, start, neighbours))


class Pattern:
    """Fills, poisons and verifies pieces of a payload of up to ``capacity_bytes``.

    Holds the position table and scratch space, twice the capacity in all. Not for two threads.
    """

    def __init__(self, capacity_bytes: int) -> None:
        words = capacity_bytes // 8 + 2
        self.capacity_bytes = capacity_bytes
        self._table: Bytes = mixed_words(0, words).view(np.uint8)
        self._scratch: Bytes = np.empty(words * 8, dtype=np.uint8)
        self._equal = np.empty(words, dtype=np.bool_)

    def fill(self, out: Bytes, key: Key, start: int = 0) -> None:
        """Write the key's stream into ``out``; its first byte is byte ``start`` of the stream."""
        self._stream(out, key.tag, start)

    def poison(self, out: Bytes, key: Key, start: int = 0) -> None:
        """Write what must not remain once the key's message has arrived."""
        self._stream(out, key.tag ^ MASK, start)

    def is_poison(self, data: Bytes, key: Key, start: int = 0) -> bool:
        """Whether ``data`` is as ``poison`` left it."""
        return self._matches(data, key.tag ^ MASK, start)

    def verify(self, data: Bytes, key: Key, start: int = 0) -> Mismatch | None:
        """None if every byte of ``data`` is the key's stream from byte ``start`` on."""
        if self._matches(data, key.tag, start):
            return None
        found = verify_stream(lambda at, size: data[at : at + size], len(data), key, start)
        return found or self._right_too_late(data, key, start)

    def _right_too_late(self, data: Bytes, key: Key, start: int) -> Mismatch:
        """What was wrong at first sight and is right now. Nothing may arrive after completion."""
        equal = self._equal[: len(data) // 8]
        first = 8 * (len(equal) if equal.all() else int(np.argmin(equal)))
        wanted = expected(key, len(data), start)
        at, size = wanted.excerpt_range(first)
        bad = max(1, len(equal) - int(np.count_nonzero(equal)))
        return wanted.mismatch(first, bad, data[at : at + size], (), ())

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
        right = self._scratch[:size]
        self._stream(right, tag, start)
        body = size - size % 8
        equal = self._equal[: body // 8]
        np.equal(right[:body].view("<u8"), data[:body].view("<u8"), out=equal)
        return bool(equal.all()) and right[body:].tobytes() == data[body:].tobytes()


def _rotated(tag: int, start: int) -> np.uint64:
    """The tag as it lies over words that begin at byte ``start``."""
    data = tag.to_bytes(8, "little")
    phase = start % 8
    return np.uint64(int.from_bytes(data[phase:] + data[:phase], "little"))
