"""RDMA devices and their ports as sysfs shows them.

Layout: Documentation/ABI/stable/sysfs-class-infiniband in the kernel sources. A software device
(rdma_rxe, siw) has no ``device`` link; its file ``parent`` names the netdev it sits on.
"""

from __future__ import annotations

import re
from pathlib import Path

from gdrcheck.facts import DEVICE_NAME_PATTERN, GidEntry, LinkLayer, Port, RdmaDevice, Unreadable
from gdrcheck.probes.reading import list_names, read_number, read_text

LINK_LAYERS: dict[str, LinkLayer] = {"InfiniBand": "infiniband", "Ethernet": "ethernet"}
ZERO_GID = ":".join(["0000"] * 8)
SLOT = re.compile(r"^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")


def read_devices(root: Path) -> tuple[RdmaDevice, ...] | Unreadable:
    """Every RDMA device below ``root``, by name; an empty tuple when the subsystem has none.

    Unreadable as a whole when a device has a name that cannot be used.
    """
    base = root / "sys/class/infiniband"
    if not base.is_dir() and (root / "sys/class").is_dir():
        return ()
    names = list_names(base)
    if isinstance(names, Unreadable):
        return names
    for name in names:
        # Such a name would be taken for something else in paths and in the names of cases.
        if not re.fullmatch(DEVICE_NAME_PATTERN, name):
            return Unreadable(unreadable=f"{base.name}: {name!r} is no plain device name")
    uverbs = _uverbs_by_device(root)
    return tuple(_read_device(base / name, root, uverbs) for name in names)


def _read_device(path: Path, root: Path, uverbs: dict[str, str]) -> RdmaDevice:
    software = not (path / "device").exists()
    absent = Unreadable(unreadable="no uverbs device in /sys/class/infiniband_verbs")
    return RdmaDevice(
        name=path.name,
        driver=_driver(path, software),
        slot=_slot(path, root, software),
        netdevs=_netdevs(path, software),
        uverbs=uverbs.get(path.name, absent),
        software=software,
        ports=_ports(path / "ports"),
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


def _driver(path: Path, software: bool) -> str | Unreadable:
    if software:
        return "software"
    link = path / "device/driver"
    if not link.exists():
        return Unreadable(unreadable="device/driver: no such link")
    return link.resolve().name


def _slot(path: Path, root: Path, software: bool) -> str | None:
    """The PCI function below the device: its own, or that of the netdev a software device uses."""
    link = path / "device"
    if software:
        parent = read_text(path / "parent")
        if isinstance(parent, Unreadable):
            return None
        link = root / "sys/class/net" / parent / "device"
    if not link.exists():
        return None
    for part in reversed(link.resolve().parts):
        if SLOT.match(part):
            return part
    return None


def _netdevs(path: Path, software: bool) -> tuple[str, ...]:
    if software:
        parent = read_text(path / "parent")
        return () if isinstance(parent, Unreadable) else (parent,)
    names = list_names(path / "device/net")
    return () if isinstance(names, Unreadable) else names


def _ports(path: Path) -> tuple[Port, ...]:
    names = list_names(path)
    if isinstance(names, Unreadable):
        return ()
    numbers = sorted(int(name) for name in names if name.isdecimal())
    return tuple(_read_port(path / str(number), number) for number in numbers)


def _read_port(path: Path, number: int) -> Port:
    return Port(
        number=number,
        state=_word(path / "state"),
        physical_state=_word(path / "phys_state"),
        rate_gbps=_rate_gbps(path / "rate"),
        link_layer=_link_layer(path / "link_layer"),
        lid=read_number(path / "lid"),
        sm_lid=read_number(path / "sm_lid"),
        gids=_gids(path),
    )


def _word(path: Path) -> str | Unreadable:
    """``ACTIVE`` of ``4: ACTIVE``."""
    text = read_text(path)
    if isinstance(text, Unreadable):
        return text
    number, colon, word = text.partition(":")
    if not colon or not number.strip().isdecimal() or not word.strip():
        return Unreadable(unreadable=f"{path.name}: unknown form {text[:40]!r}")
    return word.strip()


def _rate_gbps(path: Path) -> float | Unreadable:
    """400.0 of ``400 Gb/sec (4X NDR)``."""
    text = read_text(path)
    if isinstance(text, Unreadable):
        return text
    match = re.match(r"^(\d{1,6}(?:\.\d{1,3})?) Gb/sec\b", text)
    if match is None:
        return Unreadable(unreadable=f"{path.name}: unknown form {text[:40]!r}")
    return float(match.group(1))


def _link_layer(path: Path) -> LinkLayer | Unreadable:
    text = read_text(path)
    if isinstance(text, Unreadable):
        return text
    layer = LINK_LAYERS.get(text)
    return layer or Unreadable(unreadable=f"{path.name}: unknown link layer {text[:40]!r}")


def _gids(path: Path) -> tuple[GidEntry, ...] | Unreadable:
    """The populated slots. A slot whose type or netdev reads EINVAL is unpopulated: normal."""
    names = list_names(path / "gids")
    if isinstance(names, Unreadable):
        return names
    entries = []
    for index in sorted(int(name) for name in names if name.isdecimal()):
        gid = read_text(path / "gids" / str(index))
        if isinstance(gid, Unreadable) or gid == ZERO_GID:
            continue
        kind = read_text(path / "gid_attrs/types" / str(index))
        netdev = read_text(path / "gid_attrs/ndevs" / str(index))
        entries.append(
            GidEntry(
                index=index,
                gid=gid,
                type=kind if isinstance(kind, str) else "",
                netdev=netdev if isinstance(netdev, str) else "",
            )
        )
    return tuple(entries)
