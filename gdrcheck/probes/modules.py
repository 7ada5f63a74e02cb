"""Kernel modules: what /sys/module shows, and what the host collector found on the disk."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import TypeAdapter

from gdrcheck.facts import Module, Unreadable
from gdrcheck.probes.collected import HOST_FILE, Collected
from gdrcheck.probes.reading import is_there, list_names, read_text, shaped

FOLDER = "sys/module"
BUILT_IN = "(builtin)"
NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
OF_INTEREST = (
    *("ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "ib_umad", "mlx5_core", "mlx5_ib"),
    *("irdma", "bnxt_re", "efa", "rdma_rxe", "siw"),
    *("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_peermem", "nv_peer_mem"),
    *("efa_nv_peermem", "gdrdrv"),
)
# What else only the module makes: one that is built in may be missing from /sys/module, and a
# sandbox may hide that folder.
SIGNS = {
    "ib_core": ("sys/class/infiniband",),
    "ib_uverbs": ("sys/class/infiniband_verbs",),
    "nvidia": ("proc/driver/nvidia", "dev/nvidiactl"),
}
OnDisk = dict[str, dict[str, str | None]]
ENTRIES: TypeAdapter[OnDisk] = TypeAdapter(OnDisk)


def loaded_modules(root: Path) -> tuple[str, ...] | Unreadable:
    """The names of all modules that /sys/module shows, built-in ones with parameters included."""
    names = list_names(root / FOLDER)
    if isinstance(names, Unreadable):
        return names
    return tuple(name for name in names if NAME.fullmatch(name))


def read_modules(root: Path, left: Collected) -> tuple[Module, ...]:
    """The modules of interest, and those that the collector was told to look at, by name."""
    found = shaped(left.value("modules"), ENTRIES, f"{HOST_FILE}: modules")
    names = {*OF_INTEREST, *(found if isinstance(found, dict) else ())}
    return tuple(_module(root, name, found) for name in sorted(names) if NAME.fullmatch(name))


def _module(root: Path, name: str, found: OnDisk | Unreadable) -> Module:
    folder = root / FOLDER / name
    path = _on_disk(name, "path", found)
    return Module(
        name=name,
        loaded=_loaded(root, name, path),
        version=_attribute(folder, "version"),
        source_version=_attribute(folder, "srcversion"),
        path=path,
        disk_source_version=_on_disk(name, "source_version", found),
        version_magic=_on_disk(name, "version_magic", found),
        license=_on_disk(name, "license", found),
    )


def _on_disk(name: str, key: str, found: OnDisk | Unreadable) -> str | Unreadable | None:
    if isinstance(found, Unreadable):
        return found
    entry, place = found.get(name, {}), f"{HOST_FILE}: modules: {name}"
    if "unreadable" in entry:
        return Unreadable(unreadable=f"{place}: {entry['unreadable']}"[:300])
    if key not in entry:
        return Unreadable(unreadable=f"{place}: {key} is missing")
    return entry[key]


def _loaded(root: Path, name: str, path: str | Unreadable | None) -> bool | Unreadable:
    if path == BUILT_IN:
        return True
    if any(is_there(root / sign) is True for sign in SIGNS.get(name, ())):
        return True
    return is_there(root / FOLDER / name)


def _attribute(folder: Path, name: str) -> str | Unreadable | None:
    """A file that not every module has; also None for a module that is not loaded."""
    for path in (folder, folder / name):
        there = is_there(path)
        if there is not True:
            return there or None
    return read_text(folder / name)
