"""Columns of bytes as text for a page, and numbers as steps that fit a byte. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gdrcheck.results.data_blocks import packed

MAX_STEPS = 250
LEAST_SHARE = 0.001


class Blobs:
    """Texts, each once: zlib and base64 of columns of bytes."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._known: dict[str, int] = {}

    def add(self, raw: bytes | bytearray) -> int:
        """The number of the text of ``raw``."""
        return self.add_text(packed(raw))

    def add_text(self, text: str) -> int:
        """The number of ``text``."""
        number = self._known.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number


@dataclass(frozen=True, slots=True)
class Step:
    """The numbers from ``low`` to ``high``, which are shown as one."""

    low: float
    high: float

    @property
    def value(self) -> float:
        """What is shown for them."""
        return self.low if self.low == self.high else float(f"{(self.low + self.high) / 2:.5g}")

    @property
    def error(self) -> float:
        """The most by which a number differs from ``value``, as a share of that."""
        most = max(self.value - self.low, self.high - self.value)
        return most / abs(self.value) if most and self.value else 0.0


@dataclass(frozen=True, slots=True)
class Rounded:
    """A column of numbers as ``text`` of bytes: a byte is an index into ``steps`` plus 1."""

    steps: tuple[Step, ...]
    text: str

    @property
    def error(self) -> float:
        """The most by which any number differs from the one that is shown, as a share of it."""
        return max(step.error for step in self.steps)


def rounded(column: Sequence[float | None], most_bytes: int) -> Rounded:
    """``column``, which has a number, exactly if its text then has at most ``most_bytes``; else
    rounded by no more than that takes.
    """
    values = sorted({value for value in column if value is not None})
    return rounded_by(values, most_bytes, lambda byte_of: bytes(map(byte_of.__getitem__, column)))


def rounded_by(
    values: Sequence[float],
    most_bytes: int,
    made: Callable[[Mapping[float | None, int]], bytes],
) -> Rounded:
    """The same of a column whose numbers are ``values``, ascending: ``made`` gives its bytes, by
    the byte of each value; that of None is 0.
    """
    steps = [Step(value, value) for value in values]
    groups = list(range(len(steps)))
    share = LEAST_SHARE
    while len(steps) > MAX_STEPS:
        steps, groups = _joined([Step(value, value) for value in values], share)
        share *= 2
    byte_of: dict[float | None, int] = {
        value: group + 1 for value, group in zip(values, groups, strict=True)
    }
    byte_of[None] = 0
    raw = made(byte_of)
    text = packed(raw)
    while len(text) > most_bytes and len(steps) > 1:
        steps, groups = _joined(steps, share)
        share *= 2
        raw = raw.translate(bytes([0, *(group + 1 for group in groups)]).ljust(256, b"\0"))
        text = packed(raw)
    return Rounded(tuple(steps), text)


def _joined(steps: Sequence[Step], share: float) -> tuple[list[Step], list[int]]:
    """``steps``, ascending, those within ``share`` of the higher as one; and which went where.

    With a share of 1 all are one.
    """
    found: list[Step] = []
    groups = []
    for step in steps:
        if found and step.high - found[-1].low <= share * step.high:
            found[-1] = Step(found[-1].low, step.high)
        else:
            found.append(step)
        groups.append(len(found) - 1)
    return found, groups
