"""What the host collector left: values that a least-privilege container cannot read itself.

The format is that of gdrcheck/host_collector, see docs/collector.md.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from gdrcheck.facts import SLOT_PATTERN, Collector, Unreadable
from gdrcheck.probes.reading import open_regular, read_bytes

FOLDER = "run/gdrcheck/host"
HOST_FILE = "host.json"
# Written in place of host.json when the collector was run and failed as a whole.
FAILURE_FILE = "failure.txt"
CONFIG_FOLDER = "config"
VERSION = 1
MAX_BYTES = 4 << 20
CONFIG_BYTES = 4096
WHY_CHARACTERS = 200
# When the kernel started, in seconds since 1970 (proc_stat(5)).
BOOTED = "proc/stat"
BTIME = re.compile(rb"^btime ([0-9]{1,15})$", re.MULTILINE)
# Clocks that are wrong by less are common, before a time service has set them.
MAX_AHEAD_S = 86_400.0
REMEDY = "sudo python3 -m gdrcheck.host_collector --out /run/gdrcheck/host (from a checkout)"

COMPLAINTS = TypeAdapter(tuple[str, ...])


@dataclass(frozen=True, slots=True)
class Collected:
    """The collector's files. ``values`` is empty when ``collector`` is Unreadable."""

    collector: Collector | Unreadable
    values: dict[str, Any]
    folder: Path

    def value(self, key: str) -> Any:
        """The JSON value of ``key``; Unreadable, by privilege when the collector did not run.

        Nor does one count that ran before the machine was started.
        """
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
            with open_regular(self.folder / CONFIG_FOLDER / slot) as stream:
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
    """The collector's files below ``root``; a broken or old host.json makes all Unreadable."""
    folder = root / FOLDER
    try:
        with open_regular(folder / HOST_FILE) as stream:
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
    if stale := _stale(collector.ran_at_s, root):
        return Collected(stale, {}, folder)
    return Collected(collector, values, folder)


def _stale(ran_at_s: float, root: Path) -> Unreadable | None:
    """Why what was read at ``ran_at_s`` says nothing of the running machine; None when it does.

    What counts starts anew with each boot: modules, settings of PCI functions, the kernel's log.
    A captured tree that does not say when its machine was started is taken as it is.
    """
    if not os.path.lexists(root / BOOTED):
        return None
    data = read_bytes(root / BOOTED, MAX_BYTES)
    if isinstance(data, Unreadable):
        return Unreadable(
            unreadable=f"whether the host collector ran since boot: {data.unreadable}"
        )
    found = BTIME.search(data)
    if found is None:
        return Unreadable(unreadable="whether the host collector ran since boot: stat: no btime")
    if ran_at_s < int(found[1]):
        why = f"the host collector ran before this boot: run it again: {REMEDY}"
        return Unreadable(unreadable=why, privilege=True)
    if ran_at_s > time.time() + MAX_AHEAD_S:
        why = f"the host collector ran in the future, by its clock: run it again: {REMEDY}"
        return Unreadable(unreadable=why, privilege=True)
    return None


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
        with open_regular(folder / FAILURE_FILE) as stream:
            said = " ".join(stream.read(WHY_CHARACTERS).decode("ascii", "replace").split())
    except FileNotFoundError:
        why = f"least privilege: the host collector did not run: {REMEDY}"
        return Collected(Unreadable(unreadable=why, privilege=True), {}, folder)
    except OSError as error:
        said = f"{FAILURE_FILE}: {error.strerror}"
    why = f"the host collector failed: {said or 'no reason given'}"
    return Collected(Unreadable(unreadable=why), {}, folder)


def _broken(folder: Path, why: str) -> Collected:
    return Collected(Unreadable(unreadable=f"{HOST_FILE}: {why}"), {}, folder)
