"""The byte streams that buffers are filled with, for any position and on the CPU.

A stream is made of little-endian 64-bit words; its kind says how the word at an index is made, and
every word is XORed with the stream's tag. ``gpu/kernels/pattern.h`` is the same for the GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

# mixed: mix(index). even: 2 * index. constant: 0, so that every word is the tag.
Kind = Literal["mixed", "even", "constant"]

MASK = (1 << 64) - 1
# A word and the seven bytes before it: holds a whole word, wherever the words begin.
SAMPLE_BYTES = 15
# Right data is looked for up to this far from its place.
_SHIFT_LIMIT_BYTES = 1 << 40

_INCREMENT = 0x9E3779B97F4A7C15
_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31


def mix(word: int) -> int:
    """SplitMix64's finaliser for one 64-bit word."""
    word = (word + _INCREMENT) & MASK
    for shift, factor in _ROUNDS:
        word = ((word ^ (word >> shift)) * factor) & MASK
    return word ^ (word >> _LAST_SHIFT)


def unmix(word: int) -> int:
    """The word that ``mix`` makes this one of; ``mix`` is a bijection."""
    word = _unshifted(word, _LAST_SHIFT)
    for shift, factor in reversed(_ROUNDS):
        word = _unshifted((word * pow(factor, -1, 1 << 64)) & MASK, shift)
    return (word - _INCREMENT) & MASK


def _unshifted(word: int, shift: int) -> int:
    found = word
    for _ in range(64 // shift):
        found = word ^ (found >> shift)
    return found


def mixed_words(first: int, count: int) -> NDArray[Any]:
    """``mix(p)`` for ``count`` indices from ``first`` on, as little-endian 64-bit words."""
    words = np.arange(count, dtype=np.uint64)
    words += np.uint64((first + _INCREMENT) & MASK)
    shifted = np.empty_like(words)
    for shift, factor in _ROUNDS:
        np.right_shift(words, np.uint64(shift), out=shifted)
        words ^= shifted
        words *= np.uint64(factor)
    np.right_shift(words, np.uint64(_LAST_SHIFT), out=shifted)
    words ^= shifted
    return words.astype("<u8", copy=False)


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream; ``tag`` is an unsigned 64-bit number."""

    kind: Kind
    tag: int = 0

    def complement(self) -> Stream:
        """The stream of which no byte is like this one's at the same position."""
        return Stream(self.kind, self.tag ^ MASK)

    def piece(self, start: int, length_bytes: int) -> Bytes:
        """The bytes from ``start`` on; positions are taken modulo 2**64."""
        first, phase = divmod(start % (1 << 64), 8)
        words = self._words(first, (phase + length_bytes + 7) // 8)
        words ^= np.uint64(self.tag)
        return words.view(np.uint8)[phase : phase + length_bytes]

    def _words(self, first: int, count: int) -> NDArray[Any]:
        if self.kind == "mixed":
            return mixed_words(first, count)
        if self.kind == "constant":
            return np.zeros(count, dtype="<u8")
        words = np.arange(count, dtype=np.uint64)
        words += np.uint64(first)
        words *= np.uint64(2)
        return words.astype("<u8", copy=False)

    def locate(self, sample: bytes, near: int) -> int | None:
        """The position at which ``sample`` stands in this stream; None when nowhere near ``near``.

        Finds any distance when the sample holds ``SAMPLE_BYTES``. A shorter one may be missed, and
        one of less than a word always is.
        """
        for phase in range(len(sample) - 7):
            word = int.from_bytes(sample[phase : phase + 8], "little") ^ self.tag
            for index in self._indices(word):
                position = 8 * index - phase
                if (
                    position >= 0
                    and abs(position - near) <= _SHIFT_LIMIT_BYTES
                    and self.piece(position, len(sample)).tobytes() == sample
                ):
                    return position
        return None

    def _indices(self, word: int) -> Iterator[int]:
        if self.kind == "mixed":
            yield unmix(word)
        elif self.kind == "even" and word % 2 == 0:
            yield word // 2


ZEROS = Stream("constant")
