"""The part of ``data.json.gz`` that wide runs have: pairs in columns of bytes. Pure.

A wide run has hundreds of millions of cases. Its pairs are rows of a block; of each row there is
one index into the texts of outcomes and one into those of expectations, and of each number one
index into the values of its column.
"""

from __future__ import annotations

import base64
import sys
import zlib
from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gdrcheck.outcome import InputError
from gdrcheck.transfer import Direction

# The case is a row of a series; so are those whose character is a letter.
APART = "-"
TYPES: dict[int, Literal["B", "H", "I"]] = {1: "B", 2: "H", 4: "I"}
# Far more than all pairs of the largest run: what is unpacked of one column at most.
MAX_COLUMN_BYTES = 1 << 28
# Of a long column the fastest level finds nearly all, in a fifth of the time.
LEVEL, LARGE_LEVEL, LARGE_BYTES = 6, 1, 1 << 18


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Column(_Model):
    """Numbers from 0 on, ``width`` bytes each, the lowest byte first: zlib, then base64."""

    width: Literal[1, 2, 4]
    packed: str

    @classmethod
    def of(cls, numbers: Sequence[int]) -> Column:
        """The column of ``numbers``."""
        most = max(numbers, default=0)
        width: Literal[1, 2, 4] = 1 if most < 1 << 8 else 2 if most < 1 << 16 else 4
        found = array(TYPES[width], numbers)
        if sys.byteorder == "big":
            found.byteswap()
        return cls(width=width, packed=packed(found.tobytes()))

    def numbers(self) -> bytes | array[int]:
        """The numbers. InputError when the column is damaged."""
        unpacker = zlib.decompressobj()
        try:
            raw = unpacker.decompress(base64.b64decode(self.packed), MAX_COLUMN_BYTES)
        except (zlib.error, ValueError) as error:
            raise InputError(f"a column of pairs is damaged: {error}") from error
        if not unpacker.eof or len(raw) % self.width:
            raise InputError("a column of pairs is cut off")
        if self.width == 1:
            return raw
        found = array(TYPES[self.width], raw)
        if sys.byteorder == "big":
            found.byteswap()
        return found


class BlockCase(_Model):
    """One case of each pair of a block. ``source`` and ``sink`` are places without their nodes.

    ``direction``: ``out`` is the data that leaves the initiator.
    """

    check: str
    mode: str
    operation: str
    rail: int | None
    direction: Direction
    source: str
    sink: str


class BlockNumbers(_Model):
    """A column of numbers of one case of the block: ``codes`` are 0 for none, else an index into
    ``values``, which ascend, plus 1.
    """

    case: int = Field(ge=0)
    name: str
    values: tuple[float, ...]
    codes: Column


class Expectation(_Model):
    """An expected rate, and what limits it."""

    gbps: float
    limited_by: str


class Block(_Model):
    """Pairs of the same cases. ``initiators`` and ``responders`` are indices into the nodes.

    ``outcomes``: texts with a character a case, as series have it, or one that says that the case
    is a row of a series. ``wanted``: for each case an index into the expectations, -1 for none.
    """

    cases: tuple[BlockCase, ...]
    initiators: Column
    responders: Column
    outcomes: tuple[Annotated[str, Field(pattern=r"^[0-7sn-]*$")], ...]
    outcome: Column
    wanted: tuple[tuple[int, ...], ...]
    expectation: Column
    numbers: tuple[BlockNumbers, ...]

    @model_validator(mode="after")
    def _whole(self) -> Block:
        told: tuple[Sequence[object], ...] = (*self.outcomes, *self.wanted)
        if any(len(one) != len(self.cases) for one in told):
            raise ValueError("a pair has more or fewer outcomes than cases")
        if any(one.case >= len(self.cases) for one in self.numbers):
            raise ValueError("a column of numbers is of no case")
        return self

    def columns(self, nodes: int) -> tuple[Sequence[int], ...]:
        """Initiators, responders, and the numbers of the texts of outcomes and of expectations.

        InputError when they do not fit each other, or the run's number of nodes.
        """
        limits = nodes, nodes, len(self.outcomes), len(self.wanted)
        packed = self.initiators, self.responders, self.outcome, self.expectation
        found = tuple(one.numbers() for one in packed)
        if len({len(one) for one in found}) != 1:
            raise InputError("columns of pairs have different lengths")
        for one, limit in zip(found, limits, strict=True):
            if max(one, default=-1) >= limit:
                raise InputError("a column of pairs has an index beyond its end")
        return found

    def counts(self) -> Counter[str]:
        """How many cases have each digit, of those that are no row of a series. InputError when a
        column is damaged."""
        found: Counter[str] = Counter()
        numbers = self.outcome.numbers()
        if max(numbers, default=-1) >= len(self.outcomes):
            raise InputError("a column of pairs has an index beyond its end")
        for number, pairs in Counter(numbers).items():
            for character, cases in Counter(self.outcomes[number]).items():
                if character.isdigit():
                    found[character] += cases * pairs
        return found

    def codes(self, numbers: BlockNumbers, rows: int) -> bytes | array[int]:
        """The codes of a column of numbers. InputError when they are not ``rows``, or too large."""
        found = numbers.codes.numbers()
        if len(found) != rows or max(found, default=0) > len(numbers.values):
            raise InputError("a column of numbers of pairs does not fit its block")
        return found


def packed(raw: bytes | bytearray) -> str:
    """``raw`` compressed by zlib, as base64."""
    # Scattering numbers have no repetitions to be found; looking for them takes longest of all.
    maker = zlib.compressobj(strategy=zlib.Z_HUFFMAN_ONLY)
    found = maker.compress(raw) + maker.flush()
    if len(found) < len(raw) / 4:
        level = LEVEL if len(raw) < LARGE_BYTES else LARGE_LEVEL
        found = min(found, zlib.compress(raw, level), key=len)
    return base64.b64encode(found).decode("ascii")
