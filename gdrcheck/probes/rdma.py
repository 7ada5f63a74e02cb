"""RDMA devices as sysfs shows them, each with what libibverbs made of it.

Layout: Documentation/ABI/stable/sysfs-class-infiniband in the kernel sources. A software device has
no PCI function of its own: rdma_rxe names the netdev it sits on in a file ``parent``; siw links to
that netdev's function as if it were its own, and says what it is in ``node_desc``.
"""

from __future__ import annotations

import re
from pathlib import Path

from gdrcheck.facts import SLOT_PATTERN, Netdev, RdmaDevice, Unreadable, VerbsDevice
from gdrcheck.probes import netdevs
from gdrcheck.probes.names import CLASS, device_names
from gdrcheck.probes.netdevs import Subnets, read_netdev, read_subnets
from gdrcheck.probes.ports import optional_text, read_ports
from gdrcheck.probes.reading import list_names, read_text

SIW_DESCRIPTION = "Software iWARP stack"  # SIW_NODE_DESC_COMMON of Linux drivers/infiniband/sw/siw


def read_devices(
    root: Path, survey: tuple[VerbsDevice, ...] | Unreadable
) -> tuple[RdmaDevice, ...] | Unreadable:
    """Every RDMA device below ``root``, by name; an empty tuple when the subsystem has none.

    ``survey`` is what libibverbs answered for them. Unreadable as a whole when a device has a name
    that cannot be used.
    """
    names = device_names(root)
    if isinstance(names, Unreadable):
        return names
    uverbs = _uverbs_by_device(root)
    subnets = read_subnets(root)
    return tuple(
        _read_device(root / CLASS / name, root, uverbs, subnets, _answer(name, survey))
        for name in names
    )


def _answer(name: str, survey: tuple[VerbsDevice, ...] | Unreadable) -> VerbsDevice | Unreadable:
    if isinstance(survey, Unreadable):
        return survey
    found = next((device for device in survey if device.name == name), None)
    return found or Unreadable(unreadable=f"libibverbs was not asked about {name}")


def _read_device(
    path: Path,
    root: Path,
    uverbs: dict[str, str],
    subnets: Subnets | Unreadable,
    verbs: VerbsDevice | Unreadable,
) -> RdmaDevice:
    below = _netdev_below(path)
    software = below is not None or not _exists(path / "device") or _is_siw(path)
    absent = Unreadable(unreadable="no uverbs device in /sys/class/infiniband_verbs")
    return RdmaDevice(
        name=path.name,
        driver="software" if software else _driver(path),
        slot=_slot(path if below is None else root / "sys/class/net" / below),
        netdevs=_netdevs(path, root, below, subnets),
        uverbs=uverbs.get(path.name, absent),
        software=software,
        firmware=optional_text(path / "fw_ver"),
        board=optional_text(path / "board_id"),
        ports=read_ports(path),
        verbs=verbs,
    )


def _uverbs_by_device(root: Path) -> dict[str, str]:
    base = root / "sys/class/infiniband_verbs"
    names = list_names(base)
    if isinstance(names, Unreadable):
        return {}
    found = {}
    for name in names:
        device = read_text(base / name / "ibdev")
        if isinstance(device, str):
            found[device] = name
    return found


def _netdev_below(path: Path) -> str | None:
    """The netdev that a rxe device sits on; None for every other device."""
    parent = read_text(path / "parent")
    return parent if isinstance(parent, str) and netdevs.NAME.fullmatch(parent) else None


def _is_siw(path: Path) -> bool:
    description = read_text(path / "node_desc")
    return isinstance(description, str) and description.startswith(SIW_DESCRIPTION)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _driver(path: Path) -> str | Unreadable:
    link = path / "device/driver"
    if not _exists(link):
        return Unreadable(unreadable="device/driver: no such link")
    return link.resolve().name


def _slot(path: Path) -> str | None:
    """The nearest PCI function at or above what ``path``'s ``device`` link points to."""
    link = path / "device"
    if not _exists(link):
        return None
    for part in reversed(link.resolve().parts):
        if re.fullmatch(SLOT_PATTERN, part):
            return part
    return None


def _netdevs(
    path: Path, root: Path, below: str | None, subnets: Subnets | Unreadable
) -> tuple[Netdev, ...]:
    if below is not None:
        return (read_netdev(root / "sys/class/net" / below, subnets),)
    names = list_names(path / "device/net")
    if isinstance(names, Unreadable):
        return ()
    return tuple(
        read_netdev(path / "device/net" / name, subnets)
        for name in names
        if netdevs.NAME.fullmatch(name)
    )
