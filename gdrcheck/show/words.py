"""Words for values, and the list of what could not be read, each reason told once."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from gdrcheck.facts import Link, Unreadable

T = TypeVar("T")

UNKNOWN = "?"
WIDTH = 96
LABEL = 13
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class Gaps:
    """What could not be read. ``text`` notes it and says ``?``; ``lines`` tells all, by reason."""

    def __init__(self) -> None:
        self._whats: defaultdict[str, list[str]] = defaultdict(list)

    def text(self, value: T | Unreadable, what: str, form: Callable[[T], str] = str) -> str:
        """``value`` in words, or ``?`` and a note that ``what`` was not read."""
        if isinstance(value, Unreadable):
            self.note(value, what)
            return UNKNOWN
        return form(value)

    def note(self, value: Unreadable, what: str) -> None:
        """Notes that ``what`` was not read, and why."""
        self._whats[value.unreadable].append(what)

    def lines(self) -> list[str]:
        """A paragraph for each reason, with everything that was not read for it."""
        if not self._whats:
            return []
        paragraphs = [
            f"{reason}: {', '.join(_counted(whats))}" for reason, whats in self._whats.items()
        ]
        return ["not read:", *(line for text in paragraphs for line in wrapped(text))]


def row(label: str, text: str) -> list[str]:
    """The lines of a section's entry: what it is about, and the text beside it."""
    return _wrap(text, f"  {label:<{LABEL}}  ", " " * (LABEL + 4))


def wrapped(text: str, indent: str = "  ") -> list[str]:
    """``text`` in lines of the page's width, the later ones indented deeper."""
    return _wrap(text, indent, f"{indent}  ")


def _wrap(text: str, first: str, later: str) -> list[str]:
    lines = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [first.rstrip()]


def settings(values: Mapping[str, str], usual: str | None = None) -> str:
    """``a=1, b=2``; of those that have the ``usual`` value only that there are some."""
    shown = [f"{key}={value}" for key, value in values.items() if value != usual]
    rest = len(values) - len(shown)
    if rest and not shown:
        return f"all {rest} are {usual}"
    return ", ".join([*shown, *([f"{rest} others are {usual}"] if rest else [])]) or "none"


def _counted(whats: Iterable[str]) -> list[str]:
    counts: dict[str, int] = {}
    for what in whats:
        counts[what] = counts.get(what, 0) + 1
    return [what if count == 1 else f"{what} ({count} times)" for what, count in counts.items()]


def size(value_bytes: int) -> str:
    """``16 GiB``: bytes in the largest binary unit that shows at least one."""
    for power, unit in enumerate(UNITS):
        if abs(value_bytes) < 1024 ** (power + 1):
            return f"{value_bytes / 1024**power:.4g} {unit}"
    return f"{value_bytes} B"


def link(value: Link, gaps: Gaps, what: str) -> str:
    """``16 GT/s x8 (can 32 GT/s x16)``: a link's speed and width."""
    speed = gaps.text(value.current_gts, what, lambda gts: f"{gts:g}")
    width = gaps.text(value.current_width, what)
    most_speed = gaps.text(value.max_gts, what, lambda gts: f"{gts:g}")
    most_width = gaps.text(value.max_width, what)
    less = (most_speed, most_width) != (speed, width)
    return f"{speed} GT/s x{width}" + (f" (can {most_speed} GT/s x{most_width})" if less else "")
