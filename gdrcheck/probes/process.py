"""The process that asks, as procfs shows it: its limits, capabilities and page size."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from gdrcheck.facts import Limits, Unreadable
from gdrcheck.probes.reading import matched, read_bytes

LIMITS = "proc/self/limits"
STATUS = "proc/self/status"
AUXV = "proc/self/auxv"
# proc(5): soft and hard limit.
LOCKED = re.compile(
    r"^Max locked memory +(unlimited|\d{1,20}) +(unlimited|\d{1,20}) ", re.MULTILINE
)
CAPABILITIES = re.compile(r"^CapEff:\t([0-9a-fA-F]{1,16})$", re.MULTILINE)
# Real, effective, saved and file system user id: the effective one is what the kernel asks for.
UID = re.compile(r"^Uid:\t\d{1,10}\t(\d{1,10})\t\d{1,10}\t\d{1,10}$", re.MULTILINE)
AT_PAGESZ = 6  # Linux include/uapi/linux/auxvec.h
PAIR = struct.Struct("<QQ")  # all machines that are supported: 64 bits, little-endian
MIN_PAGE_BYTES = 4096


def read_limits(root: Path) -> Limits:
    """RLIMIT_MEMLOCK, effective capabilities and effective user id of the process (proc(5))."""
    soft, hard = _memlock(root / LIMITS)
    capabilities = matched(root / STATUS, CAPABILITIES)
    uid = matched(root / STATUS, UID)
    return Limits(
        memlock_soft_bytes=soft,
        memlock_hard_bytes=hard,
        effective_capabilities=(
            capabilities if isinstance(capabilities, Unreadable) else int(capabilities[1], 16)
        ),
        uid=uid if isinstance(uid, Unreadable) else int(uid[1]),
    )


def read_page_bytes(root: Path) -> int | Unreadable:
    """The kernel's page size, from the auxiliary vector of the process (getauxval(3))."""
    data = read_bytes(root / AUXV)
    if isinstance(data, Unreadable):
        return data
    whole = data[: len(data) // PAIR.size * PAIR.size]
    entries: dict[int, int] = dict(PAIR.iter_unpack(whole))
    page_bytes = entries.get(AT_PAGESZ, 0)
    if page_bytes < MIN_PAGE_BYTES or page_bytes & (page_bytes - 1):
        return Unreadable(unreadable="auxv: holds no page size")
    return page_bytes


def _memlock(path: Path) -> tuple[int | Unreadable | None, int | Unreadable | None]:
    """The soft and the hard limit."""
    found = matched(path, LOCKED)
    if isinstance(found, Unreadable):
        return found, found
    return _limit(found[1]), _limit(found[2])


def _limit(text: str) -> int | None:
    return None if text == "unlimited" else int(text)
