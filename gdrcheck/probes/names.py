"""The RDMA devices of a machine and the ports of a device, by the names in sysfs."""

from __future__ import annotations

import re
from pathlib import Path

from gdrcheck.facts import DEVICE_NAME_PATTERN, Unreadable
from gdrcheck.probes.reading import list_names

CLASS = "sys/class/infiniband"
# A port number is 8 bits wide (ibv_query_port(3)); the index of a table 16.
NUMBER = re.compile(r"0|[1-9][0-9]{0,4}")


def device_names(root: Path) -> tuple[str, ...] | Unreadable:
    """Every RDMA device below ``root``, by name; an empty tuple when the subsystem has none.

    Unreadable as a whole when a device has a name that cannot be used.
    """
    base = root / CLASS
    if not base.is_dir() and (root / "sys/class").is_dir():
        return ()
    names = list_names(base)
    if isinstance(names, Unreadable):
        return names
    for name in names:
        # Such a name would be taken for something else in paths and in the names of cases.
        if not re.fullmatch(DEVICE_NAME_PATTERN, name):
            return Unreadable(unreadable=f"{base.name}: {name!r} is no plain device name")
    return names


def port_numbers(device: Path) -> tuple[int, ...]:
    """The numbers of the ports of the device whose folder is ``device``, in order."""
    names = list_names(device / "ports")
    return () if isinstance(names, Unreadable) else numbers(names)


def numbers(names: tuple[str, ...]) -> tuple[int, ...]:
    """Those of ``names`` that are numbers, in order: ports, or slots of a table."""
    return tuple(sorted(int(name) for name in names if NUMBER.fullmatch(name)))
