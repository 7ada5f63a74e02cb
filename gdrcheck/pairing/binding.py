"""Binding an endpoint child to the cores next to its NIC, within what this process is allowed.

Memory follows: the kernel places a page on the node of the core that touches it first, and the
child touches its buffers after it was bound (set_mempolicy(2), the default policy).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from gdrcheck.facts import Unreadable
from gdrcheck.probes.reading import read_text

# How it begins when the process may run nowhere near its NIC, so that its speed says nothing of it.
NO_CORE = "not bound: no core next to "
RANGE = re.compile(r"^(\d{1,6})(?:-(\d{1,6}))?$")


def bind(pid: int, root: Path, device: str) -> str:
    """Bind process ``pid`` near ``device`` as sysfs below ``root`` shows it; says what was done.

    A binding that cannot be had is said too, and is no error: the process runs unbound.
    """
    local = local_cores(root, device)
    if isinstance(local, Unreadable):
        return f"not bound: {local.unreadable}"
    allowed = os.sched_getaffinity(0)
    cores = local & allowed
    if not cores:
        return f"{NO_CORE}{device} ({_text(local)}) is among those allowed"
    try:
        os.sched_setaffinity(pid, cores)
    except OSError as error:
        return f"not bound: sched_setaffinity: {error.strerror}"
    return f"bound to cores {_text(cores)} next to {device}, memory by first touch"


def local_cores(root: Path, device: str) -> frozenset[int] | Unreadable:
    """The cores next to ``device``; a software device is where its netdev's function is."""
    place = root / "sys/class/infiniband" / device
    link = place / "device"
    if not link.exists():
        parent = read_text(place / "parent")
        if isinstance(parent, Unreadable):
            return Unreadable(unreadable=f"{device} has neither a device link nor a parent")
        link = root / "sys/class/net" / parent / "device"
    if not link.exists():
        return Unreadable(unreadable=f"{device} is on no PCI function")
    function = link.resolve()
    for path in (function, *function.parents):
        if (path / "local_cpulist").is_file():
            return _parsed(read_text(path / "local_cpulist"))
    return Unreadable(unreadable=f"{device}: no local_cpulist above {function.name}")


def _parsed(text: str | Unreadable) -> frozenset[int] | Unreadable:
    """``0-3,8`` as a set; the form is that of Documentation/admin-guide/cputopology.rst."""
    if isinstance(text, Unreadable):
        return text
    cores: set[int] = set()
    for part in text.split(","):
        match = RANGE.match(part)
        if match is None:
            return Unreadable(unreadable=f"local_cpulist: unknown form {text[:40]!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        cores.update(range(first, last + 1))
    return frozenset(cores)


def _text(cores: frozenset[int] | set[int]) -> str:
    """The set in the kernel's form, ``0-3,8``."""
    ranges: list[list[int]] = []
    for core in sorted(cores):
        if ranges and core == ranges[-1][1] + 1:
            ranges[-1][1] = core
        else:
            ranges.append([core, core])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)
