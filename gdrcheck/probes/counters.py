"""The counters of RDMA ports.

``counters/`` holds those of the InfiniBand performance management agent, ``hw_counters/`` the
driver's own. Source: Linux Documentation/ABI/stable/sysfs-class-infiniband and
drivers/infiniband/core/sysfs.c.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gdrcheck.facts import CountersAfter, DeviceCounters, Unreadable
from gdrcheck.probes.names import CLASS, device_names, port_numbers
from gdrcheck.probes.reading import list_names, read_text
from gdrcheck.probes.side_by_side import side_by_side

FOLDERS = ("counters", "hw_counters")
# VL15_dropped is the one of the core's with capitals.
NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
VALUE = re.compile(r"[0-9]{1,20}")
# How often the driver renews hw_counters, in ms: a setting, not a counter.
SETTING = "lifespan"
# What the kernel writes for a counter that the device does not have.
ABSENT = "N/A (no PMA)"
# A counter may cost the driver a command to its firmware; a port has dozens.
DEADLINE_S = 15.0


@dataclass(frozen=True, slots=True)
class Counters:
    """The values by name; ``unreadable`` has the reason for each that could not be read."""

    values: dict[str, int] | Unreadable
    unreadable: dict[str, str] = field(default_factory=dict)


def read_counters(port: Path) -> Counters:
    """The counters of the port whose folder in sysfs is ``port``.

    No values for one that has no counters, as software devices may; Unreadable as a whole when a
    folder of counters is there and cannot be listed.
    """
    values: dict[str, int] = {}
    unreadable: dict[str, str] = {}
    listed = list_names(port)
    if isinstance(listed, Unreadable):
        return Counters(listed)
    for folder in FOLDERS:
        if folder not in listed:
            continue
        names = list_names(port / folder)
        if isinstance(names, Unreadable):
            return Counters(names)
        for name in names:
            if name == SETTING or not NAME.fullmatch(name) or name in values:
                continue
            value = _value(port / folder / name)
            if isinstance(value, int):
                values[name] = value
                unreadable.pop(name, None)
            elif value is not None:
                unreadable[name] = value.unreadable
    return Counters(values, unreadable)


def read_counters_after(node: str, root: Path, deadline_s: float = DEADLINE_S) -> CountersAfter:
    """The counters of every port of ``node`` as they are now, below ``root``.

    Unreadable are those of a port whose driver does not give all of them in time.
    """
    base = root / CLASS
    names = device_names(root)
    if isinstance(names, Unreadable):
        return CountersAfter(node=node, ports=names)
    ports = {
        f"{name} port {number}": (name, number)
        for name in names
        for number in port_numbers(base / name)
    }
    reads = {
        place: partial(read_counters, base / name / "ports" / str(number))
        for place, (name, number) in ports.items()
    }
    found = side_by_side(reads, deadline_s)
    return CountersAfter(
        node=node, ports=tuple(_of_port(*ports[place], found[place]) for place in ports)
    )


def _of_port(device: str, number: int, found: Counters | Unreadable) -> DeviceCounters:
    if isinstance(found, Unreadable):
        found = Counters(found)
    return DeviceCounters(
        device=device, port=number, counters=found.values, unreadable_counters=found.unreadable
    )


def _value(path: Path) -> int | Unreadable | None:
    """The count; None for a counter that the device does not have."""
    text = read_text(path)
    if isinstance(text, Unreadable):
        return text
    if text == ABSENT:
        return None
    if not VALUE.fullmatch(text):
        return Unreadable(unreadable=f"{path.name}: {text[:40]!r} is not a count")
    return int(text)
