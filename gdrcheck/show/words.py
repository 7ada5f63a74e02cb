"""Words for values, and the list of what could not be read, each reason told once."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from gdrcheck.facts import Acs, Link, Unreadable

T = TypeVar("T")

UNKNOWN = "?"
# Columns of a page that is no terminal's, and the least that lines are broken to.
USUAL_WIDTH = 96
LEAST_WIDTH = 60
LABEL = 13
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
SLOT = re.compile(r"\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b")
# Up to which age in seconds a unit is used, and its length.
AGES = ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h"))
DAY_S = 86_400


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
        paragraphs = []
        for title, reasons in alike(self._whats).items():
            whats = [what for reason in reasons for what in self._whats[reason]]
            paragraphs.append(f"{title}: {', '.join(_counted(whats))}")
        return ["not read:", *(line for text in paragraphs for line in wrapped(text))]


def alike(reasons: Iterable[str]) -> dict[str, list[str]]:
    """``reasons`` in groups that differ in a PCI slot only, in their order.

    The title of a group is its reason, or says ``<slot>`` where its reasons name several.
    """
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for reason in reasons:
        groups[SLOT.sub("<slot>", reason)].append(reason)
    return {
        title if len(set(members)) > 1 else members[0]: members for title, members in groups.items()
    }


def counted(reasons: Iterable[str]) -> list[str]:
    """Each group of ``alike`` once, with its number of members if there are several."""
    return [
        title if len(members) == 1 else f"{title} ({len(members)} times)"
        for title, members in alike(reasons).items()
    ]


def by_place(sentences: Iterable[str]) -> list[str]:
    """Sentences ``PLACE: what is the matter``, those that say the same of several places once."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for sentence in sentences:
        place, _, rest = sentence.partition(": ")
        places[rest].append(place)
    return [
        f"{', '.join(name for rest in rests for name in places[rest])}: {title}"
        for title, rests in alike(places).items()
    ]


def row(label: str, text: str) -> list[str]:
    """The lines of a section's entry: what it is about, and the text beside it."""
    return _wrap(text, f"  {label:<{LABEL}}  ", " " * (LABEL + 4))


def wrapped(text: str, indent: str = "  ") -> list[str]:
    """``text`` in lines of the page's width, the later ones indented deeper."""
    return _wrap(text, indent, f"{indent}  ")


def page_width() -> int:
    """Columns to break lines at: the terminal's, if standard output is one."""
    return max(LEAST_WIDTH, shutil.get_terminal_size((USUAL_WIDTH, 0)).columns)


def _wrap(text: str, first: str, later: str) -> list[str]:
    lines = textwrap.wrap(
        text,
        page_width(),
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


def acs(value: Acs | Unreadable | None, gaps: Gaps) -> str:
    """``ACS off``, ``no ACS capability``, or which of its controls are on."""
    if value is None:
        return "no ACS capability"
    return f"ACS {gaps.text(value, 'ACS', _controls)}"


def _controls(value: Acs) -> str:
    controls = " ".join(value.enabled) or "off"
    return f"redirects ({controls})" if value.redirects else controls


def moment(at_s: float, now_s: float) -> str:
    """``2026-11-30 04:12:05 UTC (3 h ago)``: a time in seconds since 1970, and its age."""
    try:
        text = datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{at_s:g} s after the start of 1970"
    return f"{text} ({_age(now_s - at_s)})"


def _age(age_s: float) -> str:
    if age_s < 0:
        return "later than this machine's clock"
    for most_s, unit_s, unit in AGES:
        if age_s < most_s:
            return f"{age_s / unit_s:.0f} {unit} ago"
    return f"{age_s / DAY_S:.0f} days ago"
