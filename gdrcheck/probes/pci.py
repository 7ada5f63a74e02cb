"""The PCI tree: GPUs, NVSwitches, RDMA NICs, and every bridge above them.

Layout: Linux Documentation/ABI/testing/sysfs-bus-pci, drivers/pci/pci-sysfs.c. The entries of
``/sys/bus/pci/devices`` are links into ``/sys/devices``, where a function lies in the folder of the
bridge above it, and the topmost in that of its root bus (``pci0000:20``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gdrcheck.facts import SLOT_PATTERN, PciFunction, PciSettings, PciTree, Unreadable
from gdrcheck.facts.pci import (
    DISPLAY_CLASSES,
    MELLANOX_VENDOR,
    NETWORK_CLASSES,
    NVIDIA_VENDOR,
    NVSWITCH_CLASS,
    slot_order,
)
from gdrcheck.probes import pci_config, pci_files
from gdrcheck.probes.collected import CONFIG_BYTES, Collected
from gdrcheck.probes.pci_link import read_link
from gdrcheck.probes.reading import list_names, read_text

BUS = "sys/bus/pci"
# Also ``pci10000:e0``, the domain of a volume management device, which lies below another root bus.
ROOT_BUS = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
SLOT = re.compile(SLOT_PATTERN)
# A function of these is in the tree, also when no driver has taken it.
OF_INTEREST = {
    NVIDIA_VENDOR: (*DISPLAY_CLASSES, NVSWITCH_CLASS),
    MELLANOX_VENDOR: NETWORK_CLASSES,
}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a function lies. ``bridges`` are above it, the root port first."""

    slot: str
    path: Path
    root_bus: str
    bridges: tuple[_Place, ...]


def read_tree(root: Path, left: Collected, also: Sequence[str]) -> PciTree | Unreadable:
    """The tree of what concerns us, and of the functions at the slots ``also``.

    Virtual functions are in it only when asked for: they are no GPUs and no NICs of their own.
    """
    names = list_names(root / BUS / "devices")
    if isinstance(names, Unreadable):
        if (root / "sys/bus").is_dir() and not pci_files.exists(root / BUS):
            names = ()
        else:
            return names
    places: dict[str, _Place] = {}
    misplaced = {slot: f"no such function in /{BUS}/devices" for slot in also if slot not in names}
    for slot in names:
        found = _find(root, slot, asked_for=slot in also)
        if isinstance(found, Unreadable):
            misplaced[slot] = found.unreadable
        elif found is not None:
            places |= {place.slot: place for place in (*found.bridges, found)}
    functions = _read(places.values(), root, left, misplaced)
    return PciTree(functions=functions, misplaced=misplaced)


def _read(
    places: Iterable[_Place], root: Path, left: Collected, misplaced: dict[str, str]
) -> tuple[PciFunction, ...]:
    """The functions, in slot order. One that cannot be read is ``misplaced``, with the reason."""
    functions = []
    for place in sorted(places, key=lambda place: slot_order(place.slot)):
        function = _function(place, root, left)
        if isinstance(function, Unreadable):
            misplaced[place.slot] = function.unreadable
        else:
            functions.append(function)
    return tuple(functions)


def _find(root: Path, slot: str, *, asked_for: bool) -> _Place | Unreadable | None:
    """The place of the function; None when it is none of those that concern us."""
    if not SLOT.fullmatch(slot):
        return Unreadable(unreadable="not the name of a PCI function")
    path = pci_files.inside(root / "sys", root / BUS / "devices" / slot)
    if isinstance(path, Unreadable):
        return path
    if not asked_for:
        concerns_us = _concerns_us(path)
        if isinstance(concerns_us, Unreadable):
            return concerns_us
        if not concerns_us:
            return None
    return _place(path, slot)


def _concerns_us(path: Path) -> bool | Unreadable:
    vendor = pci_files.number(path / "vendor", 0xFFFF)
    if isinstance(vendor, Unreadable):
        return vendor
    if vendor not in OF_INTEREST:
        return False
    kind = pci_files.number(path / "class", 0xFFFFFF)
    if isinstance(kind, Unreadable):
        return kind
    return kind >> 8 in OF_INTEREST[vendor] and not pci_files.exists(path / "physfn")


def _place(path: Path, slot: str) -> _Place | Unreadable:
    if path.name != slot:
        return Unreadable(unreadable=f"the link leads to {path.name}")
    above = [path, *path.parents]
    top = next((n for n, one in enumerate(above) if ROOT_BUS.fullmatch(one.name)), None)
    if top is None:
        return Unreadable(unreadable="lies below no root bus")
    root_bus, chain = above[top].name, list[_Place]()
    for one in reversed(above[:top]):
        if SLOT.fullmatch(one.name):
            chain.append(_Place(one.name, one, root_bus, tuple(chain)))
    if len({place.slot for place in chain}) < len(chain):
        return Unreadable(unreadable="lies below itself")
    return chain[-1]


def _function(place: _Place, root: Path, left: Collected) -> PciFunction | Unreadable:
    path = place.path
    vendor = pci_files.number(path / "vendor", 0xFFFF)
    device = pci_files.number(path / "device", 0xFFFF)
    class_code = pci_files.number(path / "class", 0xFFFFFF)
    driver = pci_files.link_name(path / "driver")
    for value in (vendor, device, class_code, driver):
        if isinstance(value, Unreadable):
            return value
    return PciFunction(
        slot=place.slot,
        vendor=vendor,
        device=device,
        class_code=class_code,
        driver=driver,
        parent=place.bridges[-1].slot if place.bridges else None,
        root_bus=place.root_bus,
        numa_node=_numa_node(path / "numa_node"),
        link=read_link(path, root / "sys"),
        aer_fatal=pci_files.total(path / "aer_dev_fatal", "TOTAL_ERR_FATAL"),
        aer_nonfatal=pci_files.total(path / "aer_dev_nonfatal", "TOTAL_ERR_NONFATAL"),
        iommu_group_type=_iommu_group_type(path / "iommu_group", root),
        bars_bytes=pci_files.bars_bytes(path / "resource"),
        settings=_settings(place, root, left),
    )


def _numa_node(path: Path) -> int | Unreadable | None:
    """None for -1, and without the file: then the kernel knows no NUMA nodes."""
    if not pci_files.exists(path):
        return None
    node = pci_files.number(path, 0xFFFF, least=-1)
    return None if node == -1 else node


def _iommu_group_type(link: Path, root: Path) -> str | Unreadable | None:
    if not pci_files.exists(link):
        return None
    group = pci_files.inside(root / "sys", link)
    return group if isinstance(group, Unreadable) else read_text(group / "type")


def _settings(place: _Place, root: Path, left: Collected) -> PciSettings | Unreadable | None:
    """Of a virtual function some bits are reserved: those of its physical function hold for it.

    Source: PCI Express base specification, 9.3.5.4 (Device Control).
    """
    settings = _own_settings(place.path, left)
    physical = pci_files.inside(root / "sys", place.path / "physfn")
    if isinstance(physical, Unreadable) or not isinstance(settings, PciSettings):
        return settings
    holding = _own_settings(physical, left)
    if not isinstance(holding, PciSettings):
        return holding
    names = ("relaxed_ordering", "max_payload_bytes", "max_read_request_bytes")
    return settings.model_copy(update={name: getattr(holding, name) for name in names})


def _own_settings(path: Path, left: Collected) -> PciSettings | Unreadable | None:
    """From what the host collector left, else from sysfs, if that shows more than the header."""
    data = left.config_space(path.name)
    if isinstance(data, Unreadable):
        own = pci_files.content(path / "config", CONFIG_BYTES)
        if isinstance(own, Unreadable) or len(own) <= pci_config.HEADER_BYTES:
            return data
        data = own
    settings = pci_config.parse(data)
    if isinstance(settings, Unreadable):
        return Unreadable(unreadable=f"config/{path.name}: {settings.unreadable}")
    return settings
