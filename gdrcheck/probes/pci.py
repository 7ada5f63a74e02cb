"""PCI functions that are NVIDIA GPUs."""

from __future__ import annotations

from pathlib import Path

from gdrcheck.facts import Unreadable
from gdrcheck.probes.reading import list_names, read_number

NVIDIA_VENDOR = 0x10DE
DISPLAY_CLASSES = (0x0300, 0x0302)  # VGA and 3D controller: PCI Code and ID Assignment, class 03h


def read_nvidia_gpu_slots(root: Path) -> tuple[str, ...] | Unreadable:
    """The PCI addresses of all NVIDIA GPUs, sorted; empty when the machine has none."""
    base = root / "sys/bus/pci/devices"
    slots = list_names(base)
    if isinstance(slots, Unreadable):
        return slots
    return tuple(slot for slot in slots if _is_gpu(base / slot))


def _is_gpu(path: Path) -> bool:
    vendor = read_number(path / "vendor")
    kind = read_number(path / "class")
    return vendor == NVIDIA_VENDOR and isinstance(kind, int) and kind >> 8 in DISPLAY_CLASSES
