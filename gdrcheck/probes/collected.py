"""What the host collector left: values that a least-privilege container cannot read itself.

The format is that of gdrcheck/host_collector, see docs/collector.md.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from gdrcheck.facts import SLOT_PATTERN, Collector, Unreadable

FOLDER = "run/gdrcheck/host"
HOST_FILE = "host.json"
# Written in place of host.json when the collector was run and failed as a whole.
FAILURE_FILE = "failure.txt"
CONFIG_FOLDER = "config"
VERSION = 1
MAX_BYTES = 4 << 20
CONFIG_BYTES = 4096
WHY_CHARACTERS = 200

COMPLAINTS = TypeAdapter(tuple[str, ...])


@dataclass(frozen=True, slots=True)
class Collected:
    """The collector's files. ``values`` is empty when ``collector`` is Unreadable."""

    collector: Collector | Unreadable
    values: dict[str, Any]
    folder: Path

    def value(self, key: str) -> Any:
        """The JSON value of ``key``; Unreadable (by privilege when the collector did not run)."""
        if isinstance(self.collector, Unreadable):
            return self.collector
        value = self.values.get(key)
        if value is None:
            return Unreadable(unreadable=f"{HOST_FILE}: {key} is missing")
        return as_unreadable(value, key) or value

    def config_space(self, slot: str) -> bytes | Unreadable:
        """The raw configuration space of the function at ``slot``, never empty."""
        if isinstance(self.collector, Unreadable):
            return self.collector
        if not re.fullmatch(SLOT_PATTERN, slot):
            return Unreadable(unreadable=f"config: {slot[:40]!r} is no PCI function")
        try:
            with (self.folder / CONFIG_FOLDER / slot).open("rb") as stream:
                data = stream.read(CONFIG_BYTES)
        except OSError as error:
            why = Unreadable(unreadable=f"config/{slot}: {error.strerror}")
            return self._reason(slot) or why
        return data or Unreadable(unreadable=f"config/{slot}: empty")

    def _reason(self, slot: str) -> Unreadable | None:
        """Why the collector could not save a configuration space, as far as it said so."""
        said = self.values.get("config_spaces")
        if not isinstance(said, dict):
            return None
        if whole := as_unreadable(said, "config_spaces"):
            return whole
        failed = said.get("failed")
        return (
            as_unreadable(failed.get(slot), f"config/{slot}") if isinstance(failed, dict) else None
        )


def as_unreadable(value: object, key: str) -> Unreadable | None:
    """What ``{"unreadable": why}`` stands for; None for every other value."""
    if not isinstance(value, dict) or set(value) != {"unreadable"}:
        return None
    why = str(value["unreadable"])[:WHY_CHARACTERS]
    return Unreadable(unreadable=f"{HOST_FILE}: {key}: {why}")


def read(root: Path) -> Collected:
    """The collector's files below ``root``; a broken host.json makes all of it Unreadable."""
    folder = root / FOLDER
    try:
        with (folder / HOST_FILE).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return _absent(folder)
    except OSError as error:
        return _broken(folder, str(error.strerror))
    if len(data) > MAX_BYTES:
        return _broken(folder, f"larger than {MAX_BYTES} bytes")
    try:
        values = _parse(data)
    except (ValueError, RecursionError):
        return _broken(folder, "not JSON")
    if not isinstance(values, dict) or values.get("version") != VERSION:
        return _broken(folder, f"not version {VERSION} of its format")
    try:
        collector = Collector(
            version=VERSION,
            ran_at_s=values.get("ran_at_s"),
            complaints=COMPLAINTS.validate_python(values.get("complaints", [])),
        )
    except ValueError:
        return _broken(folder, "ran_at_s or complaints of the wrong type")
    return Collected(collector, values, folder)


def _parse(data: bytes) -> Any:
    """The JSON in ``data``. ValueError also for what could not be written to facts.json: numbers
    that are not finite, halves of surrogate pairs.
    """
    values = json.loads(data, parse_constant=_refused, parse_float=_finite)
    json.dumps(values, ensure_ascii=False).encode()
    return values


def _refused(text: str) -> float:
    raise ValueError(text)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refused(text)


def _absent(folder: Path) -> Collected:
    """Without host.json: the collector failed and said why, or it was never run."""
    try:
        with (folder / FAILURE_FILE).open(encoding="ascii", errors="replace") as stream:
            said = " ".join(stream.read(WHY_CHARACTERS).split())
    except FileNotFoundError:
        why = "least privilege: the host collector did not run"
        return Collected(Unreadable(unreadable=why, privilege=True), {}, folder)
    except OSError as error:
        said = f"{FAILURE_FILE}: {error.strerror}"
    why = f"the host collector failed: {said or 'no reason given'}"
    return Collected(Unreadable(unreadable=why), {}, folder)


def _broken(folder: Path, why: str) -> Collected:
    return Collected(Unreadable(unreadable=f"{HOST_FILE}: {why}"), {}, folder)
