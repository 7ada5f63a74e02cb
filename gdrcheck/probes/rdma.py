"""RDMA devices as sysfs shows them, each with what libibverbs made of it.

Layout: Documentation/ABI/stable/sysfs-class-infiniband in the kernel sources. A software device has
no PCI function of its own: rdma_rxe names the netdev it sits on in a file ``parent``; siw links to
that netdev's function as if it were its own, and says what it is in ``node_desc``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gdrcheck.facts import SLOT_PATTERN, Netdev, Port, RdmaDevice, Unreadable, VerbsDevice
from gdrcheck.probes import netdevs
from gdrcheck.probes.names import CLASS, device_names
from gdrcheck.probes.netdevs import Subnets, read_netdev, read_subnets
from gdrcheck.probes.ports import optional_text, read_ports, unreadable_ports
from gdrcheck.probes.reading import is_there, list_names, read_number, read_text
from gdrcheck.probes.side_by_side import side_by_side

NETDEVS = "sys/class/net"
SIW_DESCRIPTION = "Software iWARP stack"  # SIW_NODE_DESC_COMMON of Linux drivers/infiniband/sw/siw
# A file may cost the driver a command to its firmware; a device has hundreds.
DEADLINE_S = 15.0


@dataclass(frozen=True, slots=True)
class _Said:
    """What its driver says of a device. For each file that is read, it is asked."""

    firmware: str | Unreadable | None
    board: str | Unreadable | None
    ports: tuple[Port, ...]


def read_devices(root: Path, deadline_s: float = DEADLINE_S) -> tuple[RdmaDevice, ...] | Unreadable:
    """Every RDMA device below ``root``, by name; an empty tuple when the subsystem has none.

    Of a device whose driver does not answer in time, all that it alone could tell is Unreadable.
    Unreadable as a whole when a device has a name that cannot be used. ``answered`` adds what
    libibverbs says.
    """
    names = device_names(root)
    if isinstance(names, Unreadable):
        return names
    uverbs = _uverbs_by_device(root)
    subnets = read_subnets(root)
    said = side_by_side({name: partial(_ask, root / CLASS / name) for name in names}, deadline_s)
    return tuple(_device(root / CLASS / name, root, uverbs, subnets, said[name]) for name in names)


def answered(
    devices: tuple[RdmaDevice, ...] | Unreadable, survey: tuple[VerbsDevice, ...] | Unreadable
) -> tuple[RdmaDevice, ...] | Unreadable:
    """``devices``, each with what libibverbs answered for it in ``survey``."""
    if isinstance(devices, Unreadable):
        return devices
    return tuple(
        device.model_copy(update={"verbs": _answer(device.name, survey)}) for device in devices
    )


def _answer(name: str, survey: tuple[VerbsDevice, ...] | Unreadable) -> VerbsDevice | Unreadable:
    if isinstance(survey, Unreadable):
        return survey
    found = next((device for device in survey if device.name == name), None)
    return found or _not_asked(name)


def _not_asked(name: str) -> Unreadable:
    return Unreadable(unreadable=f"libibverbs was not asked about {name}")


def _ask(path: Path) -> _Said:
    return _Said(
        firmware=optional_text(path / "fw_ver"),
        board=optional_text(path / "board_id"),
        ports=read_ports(path),
    )


def _device(
    path: Path,
    root: Path,
    uverbs: dict[str, str],
    subnets: Subnets | Unreadable,
    said: _Said | Unreadable,
) -> RdmaDevice:
    if isinstance(said, Unreadable):
        said = _Said(said, said, unreadable_ports(path, said))
    below = _netdev_below(path)
    software = below is not None or not _exists(path / "device") or _is_siw(path)
    absent = Unreadable(unreadable="no uverbs device in /sys/class/infiniband_verbs")
    return RdmaDevice(
        name=path.name,
        driver="software" if software else _driver(path),
        slot=_slot(path if below is None else root / NETDEVS / below),
        netdevs=_netdevs(path, root, below, subnets, said.ports),
        uverbs=uverbs.get(path.name, absent),
        software=software,
        firmware=said.firmware,
        board=said.board,
        ports=said.ports,
        verbs=_not_asked(path.name),
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
    path: Path,
    root: Path,
    below: str | None,
    subnets: Subnets | Unreadable,
    ports: tuple[Port, ...],
) -> tuple[Netdev, ...]:
    """Its own interfaces first, then the bond above them that its GIDs name."""
    if below is not None:
        return (read_netdev(root / NETDEVS / below, subnets),)
    listed = list_names(path / "device/net")
    own = [] if isinstance(listed, Unreadable) else [n for n in listed if netdevs.NAME.fullmatch(n)]
    above = sorted(
        name
        for name in _named_by_gids(ports) - set(own)
        if netdevs.NAME.fullmatch(name) and _is_bond(root / NETDEVS / name)
    )
    folders = [path / "device/net" / name for name in own]
    folders += [root / NETDEVS / name for name in above]
    return tuple(read_netdev(folder, subnets) for folder in folders)


def _is_bond(folder: Path) -> bool:
    """Of an interface that GIDs name beside the device's own; others are of VLANs and the like.

    Those lie on top of one other interface, by its number in ``iflink``; a bond on top of none.
    Source: Linux Documentation/ABI/testing/sysfs-class-net.
    """
    if is_there(folder) is not True:
        return False
    below = read_number(folder / "iflink", 10)
    return isinstance(below, Unreadable) or below == read_number(folder / "ifindex", 10)


def _named_by_gids(ports: Iterable[Port]) -> set[str]:
    tables = (port.gids for port in ports if not isinstance(port.gids, Unreadable))
    return {gid.netdev for table in tables for gid in table if gid.netdev}
