"""The configuration spaces of PCI functions, of which users other than root see 64 bytes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from .reading import Unread, unreadable, write

SLOT = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
CONFIG_BYTES = 4096


def save_config_spaces(root: Path, folder: Path) -> dict[str, Any]:
    """Copies those of interest into ``folder``; how many, and why not the others."""
    base = root / "sys/bus/pci/devices"
    try:
        slots = sorted(name for name in os.listdir(base) if SLOT.fullmatch(name))
    except OSError as error:
        raise Unread(f"/sys/bus/pci/devices: {error.strerror}") from error
    saved, failed = 0, {}
    for slot in slots:
        try:
            if is_of_interest(int((base / slot / "class").read_text("ascii"), 16)):
                write(folder / slot, config_space(base / slot / "config"))
                saved += 1
        except (OSError, ValueError, Unread) as error:
            failed[slot] = unreadable(str(getattr(error, "strerror", None) or error))
    return {"saved": saved, "failed": failed}


def is_of_interest(kind: int) -> bool:
    """Network, display, bridge, accelerator or InfiniBand (PCI Code and ID Assignment). NVSwitch is
    a bridge of no particular kind.
    """
    return kind >> 16 in (0x02, 0x03, 0x06, 0x12) or kind >> 8 == 0x0C06


def config_space(path: Path) -> bytes:
    """All of it: without CAP_SYS_ADMIN the kernel gives the first 64 bytes alone."""
    with path.open("rb", buffering=0) as stream:
        wanted = min(os.fstat(stream.fileno()).st_size, CONFIG_BYTES)
        data = stream.read(CONFIG_BYTES) or b""
    if len(data) < max(wanted, 64):
        raise Unread(f"only {len(data)} of {wanted} bytes could be read")
    return data
