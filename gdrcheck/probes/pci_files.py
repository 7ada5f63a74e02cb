"""The small files of one PCI function in sysfs."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gdrcheck.facts import Unreadable
from gdrcheck.probes.reading import open_regular, read_text, refused

FIRST_ROM = 6  # the lines of ``resource`` before this one are BARs (PCI_ROM_RESOURCE)
MEMORY = 0x200  # IORESOURCE_MEM, Linux include/linux/ioport.h
RESOURCE = re.compile(r"0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16})")
NUMBER = re.compile(r"-?[0-9]{1,9}|0x[0-9a-f]{1,8}")


def exists(path: Path) -> bool:
    """Whether there is anything of this name, be it a link to nowhere."""
    return os.path.lexists(path)


def content(path: Path, most_bytes: int) -> bytes | Unreadable:
    """The first ``most_bytes`` of a plain file."""
    try:
        with open_regular(path) as stream:
            return stream.read(most_bytes)
    except OSError as error:
        return refused(path, error)


def number(path: Path, most: int, least: int = 0) -> int | Unreadable:
    """The integer in a plain file, decimal or with ``0x``, from ``least`` to ``most``."""
    found = read_text(path)
    if isinstance(found, Unreadable):
        return found
    if not NUMBER.fullmatch(found):
        return Unreadable(unreadable=f"{path.name}: {found[:40]!r} is not a number")
    value = int(found, 16) if found.startswith("0x") else int(found)
    if not least <= value <= most:
        return Unreadable(unreadable=f"{path.name}: {found} is out of range")
    return value


def total(path: Path, word: str) -> int | Unreadable | None:
    """The number behind ``word`` in a file of counters; None when there is no such file."""
    if not exists(path):
        return None
    found = read_text(path)
    if isinstance(found, Unreadable):
        return found
    match = re.search(rf"^{word} ([0-9]{{1,19}})$", found, re.MULTILINE)
    if match is None:
        return Unreadable(unreadable=f"{path.name}: no line {word}")
    return int(match.group(1))


def bars_bytes(path: Path) -> tuple[int, ...] | Unreadable:
    """The sizes of the memory BARs in a ``resource`` file."""
    found = read_text(path)
    if isinstance(found, Unreadable):
        return found
    sizes = []
    for line in found.splitlines()[:FIRST_ROM]:
        match = RESOURCE.fullmatch(line.strip())
        if match is None:
            return Unreadable(unreadable=f"{path.name}: unknown form {line[:60]!r}")
        start, end, flags = (int(part, 16) for part in match.groups())
        if flags & MEMORY and end > start:
            sizes.append(end - start + 1)
    return tuple(sizes)


def link_name(path: Path) -> str | Unreadable | None:
    """The last part of where a link leads; None when there is no link. Nothing is followed."""
    try:
        return Path(os.readlink(path)).name
    except FileNotFoundError:
        return None
    except OSError as error:
        return refused(path, error)


def inside(root: Path, path: Path) -> Path | Unreadable:
    """Where ``path`` really is, all links followed; Unreadable unless that is below ``root``."""
    try:
        real = Path(os.path.realpath(path, strict=True))
    except OSError as error:
        return refused(path, error)
    if not real.is_relative_to(os.path.realpath(root)):
        return Unreadable(unreadable=f"{path.name}: leads out of the tree")
    return real
