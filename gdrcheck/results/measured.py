"""The numbers among the properties of cases, in columns. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from gdrcheck.results import data
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.plain import one_line

# More digits than these no property has, and no rate or time is that long.
NUMBER = re.compile(r"^(\d{1,9}(?:\.\d{1,6})?(?:e[+-]\d{1,2})?) (us|Gb/s)(?:$|, )")
SIZE = re.compile(r"^(\d{1,4}) (B|KiB|MiB|GiB)$")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# The properties of pair cases that are numbers, and their columns.
COLUMNS = {
    "p50": data.P50_US,
    "p99": data.P99_US,
    "min": data.MIN_US,
    "max": data.MAX_US,
    "perftest": data.GBPS,
    "perftest p50": data.P50_US,
    "perftest p99": data.P99_US,
    "perftest min": data.MIN_US,
    "perftest max": data.MAX_US,
    "expected": data.EXPECTED_GBPS,
}
# Both ways of one measurement, in each case of it: its own is the one from its source.
WAY = re.compile(r"^(?:out|back), from \S+$")
EXPECTED = "expected"


class Numbers:
    """The numbers among the properties of cases. Most names and texts are those of many cases."""

    def __init__(self) -> None:
        self._columns: dict[str, str] = {}
        self._parsed: dict[str, _Parsed] = {}
        # By the properties' identity, which many cases share, and the node that they are seen from.
        self._known: dict[tuple[int, str], tuple[dict[str, float], str]] = {}

    def of(self, case: CaseResult) -> tuple[dict[str, float], str]:
        """The numbers by column, and what limits the expected rate. ``case`` outlives this.

        A property that is no number in the form in which the checks write it is left out.
        """
        key = (id(case.properties), case.where.node)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.read(case.properties, case.where.node)
        return known

    def read(self, properties: Mapping[str, str], node: str) -> tuple[dict[str, float], str]:
        """The same of a case with these properties, whose data leaves ``node``."""
        found: dict[str, float] = {}
        limited_by = ""
        for name, text in properties.items():
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = _column(name)
            if not column:
                continue
            parsed = self._parsed.get(text)
            if parsed is None:
                parsed = self._parsed[text] = _parse(text)
            if parsed.number is None:
                continue
            if column == data.GBPS_BACK and name.endswith(f" {node}"):
                column = data.GBPS
            found[column] = parsed.number
            if name == EXPECTED:
                limited_by = parsed.rest
        return found, limited_by


def _column(name: str) -> str:
    """The column of a property's numbers; of both ways that of the other end's. Empty: none."""
    if size := SIZE.match(name):
        return f"gbps_{int(size[1]) * UNITS[size[2]]}"
    return data.GBPS_BACK if WAY.match(name) else COLUMNS.get(name, "")


class _Parsed(NamedTuple):
    """The number at the start of a text, None if there is none; what follows it and its unit."""

    number: float | None
    rest: str


def _parse(text: str) -> _Parsed:
    match = NUMBER.match(text)
    return _Parsed(float(match[1]), one_line(text[match.end() :])) if match else _Parsed(None, "")
