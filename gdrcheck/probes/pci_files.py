"""The small files of one PCI function in sysfs.

Attributes of sysfs are plain files; a captured tree may hold anything. What is no plain file is not
opened: a link may lead out of the tree, and a pipe may never answer.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from gdrcheck.facts import Unreadable
from gdrcheck.probes.reading import read_text

FIRST_ROM = 6  # the lines of ``resource`` before this one are BARs (PCI_ROM_RESOURCE)
MEMORY = 0x200  # IORESOURCE_MEM, Linux include/linux/ioport.h
RESOURCE = re.compile(r"0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16})")
NUMBER = re.compile(r"-?[0-9]{1,9}|0x[0-9a-f]{1,8}")


def exists(path: Path) -> bool:
    """Whether there is anything of this name, be it a link to nowhere."""
    return os.path.lexists(path)


def text(path: Path) -> str | Unreadable:
    """The stripped content of a plain file."""
    why = _not_plain(path)
    return read_text(path) if why is None else why


def content(path: Path, most_bytes: int) -> bytes | Unreadable:
    """The first ``most_bytes`` of a plain file."""
    why = _not_plain(path)
    if why is not None:
        return why
    try:
        with path.open("rb") as stream:
            return stream.read(most_bytes)
    except OSError as error:
        return _failed(path, error)


def number(path: Path, most: int, least: int = 0) -> int | Unreadable:
    """The integer in a plain file, decimal or with ``0x``, from ``least`` to ``most``."""
    found = text(path)
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
    found = text(path)
    if isinstance(found, Unreadable):
        return found
    match = re.search(rf"^{word} ([0-9]{{1,19}})$", found, re.MULTILINE)
    if match is None:
        return Unreadable(unreadable=f"{path.name}: no line {word}")
    return int(match.group(1))


def bars_bytes(path: Path) -> tuple[int, ...] | Unreadable:
    """The sizes of the memory BARs in a ``resource`` file."""
    found = text(path)
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
        return _failed(path, error)


def inside(root: Path, path: Path) -> Path | Unreadable:
    """Where ``path`` really is, all links followed; Unreadable unless that is below ``root``."""
    try:
        real = Path(os.path.realpath(path, strict=True))
    except OSError as error:
        return _failed(path, error)
    if not real.is_relative_to(os.path.realpath(root)):
        return Unreadable(unreadable=f"{path.name}: leads out of the tree")
    return real


def _not_plain(path: Path) -> Unreadable | None:
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        return _failed(path, error)
    if stat.S_ISREG(mode):
        return None
    return Unreadable(unreadable=f"{path.name}: not a plain file")


def _failed(path: Path, error: OSError) -> Unreadable:
    return Unreadable(unreadable=f"{path.name}: {os.strerror(error.errno or 0)}")
