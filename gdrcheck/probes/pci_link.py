"""A function's link to the port above it, as sysfs shows it.

Source: Linux drivers/pci/pci-sysfs.c and drivers/pci/pci.c. The four files exist for every function
with a PCI Express capability. Registers without content print ``Unknown`` (on older kernels
``Unknown speed``) and 0 lanes, the maximum 255 (on older kernels 0). An emulated port may announce
no capability and tell a status all the same. A function that has left the bus answers all ones,
which print as 63 lanes.
"""

from __future__ import annotations

import re
from pathlib import Path

from gdrcheck.facts import Link, Unreadable
from gdrcheck.probes import pci_files
from gdrcheck.probes.reading import read_text

FILES = ("current_link_speed", "max_link_speed", "current_link_width", "max_link_width")
SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) GT/s(?: PCIe)?")
UNKNOWN_SPEEDS = ("Unknown", "Unknown speed")
MOST_LANES = 32
NO_WIDTH = 0xFF  # PCIE_LNK_WIDTH_UNKNOWN of include/linux/pci.h
ALL_ONES_LANES = 63


def read_link(path: Path, root: Path) -> Link | None:
    """The link of the function whose folder is ``path``; None when it tells of none.

    A virtual function has no link of its own: it has that of its physical function.
    """
    physical = pci_files.inside(root, path / "physfn")
    if isinstance(physical, Path):
        path = physical
    if not any(pci_files.exists(path / name) for name in FILES) or _is_blank(path):
        return None
    return Link(
        current_gts=_speed_gts(path / "current_link_speed"),
        max_gts=_speed_gts(path / "max_link_speed"),
        current_width=_width(path / "current_link_width"),
        max_width=_width(path / "max_link_width"),
    )


def _is_blank(path: Path) -> bool:
    """Whether the link's status or its capability has no content."""
    return any(
        pci_files.number(path / f"{which}_link_width", NO_WIDTH) in (0, NO_WIDTH)
        and read_text(path / f"{which}_link_speed") in UNKNOWN_SPEEDS
        for which in ("current", "max")
    )


def _speed_gts(path: Path) -> float | Unreadable:
    text = read_text(path)
    if isinstance(text, Unreadable):
        return text
    match = SPEED.fullmatch(text)
    if match is None:
        return Unreadable(unreadable=f"{path.name}: {text[:40]!r}")
    return float(match.group(1))


def _width(path: Path) -> int | Unreadable:
    width = pci_files.number(path, NO_WIDTH)
    if width == ALL_ONES_LANES:
        return Unreadable(unreadable=f"{path.name}: the function does not answer any more")
    if isinstance(width, int) and not 1 <= width <= MOST_LANES:
        return Unreadable(unreadable=f"{path.name}: {width} lanes")
    return width
