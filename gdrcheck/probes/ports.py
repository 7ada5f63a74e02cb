"""The ports of an RDMA device as sysfs shows them.

Layout: Documentation/ABI/stable/sysfs-class-infiniband in the kernel sources.
"""

from __future__ import annotations

import re
from pathlib import Path

from gdrcheck.facts import GidEntry, LinkLayer, Port, Unreadable
from gdrcheck.probes.counters import read_counters
from gdrcheck.probes.names import CLASS, numbers, port_numbers
from gdrcheck.probes.reading import (
    MAX_BYTES,
    list_names,
    open_regular,
    read_number,
    read_text,
)

LINK_LAYERS: dict[str, LinkLayer] = {"InfiniBand": "infiniband", "Ethernet": "ethernet"}
ZERO_GID = ":".join(["0000"] * 8)
# ib_port rate_show() of Linux drivers/infiniband/core/sysfs.c; kernels before 3.9 name no SDR.
RATE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) Gb/sec(?: \((\d{1,2})X(?: ([A-Z0-9]{1,8}))?\))?")
# Written by mlx5_ib of MLNX_OFED; further lines are rules for single flows.
GLOBAL_CLASS = re.compile(r"^Global tclass=(\d{1,3})$", re.MULTILINE)
FLOW_CLASS = "tclass="


def read_ports(device: Path) -> tuple[Port, ...]:
    """The ports of the device whose folder in sysfs is ``device``, by number."""
    return tuple(_read_port(device, number) for number in port_numbers(device))


def unreadable_ports(device: Path, why: Unreadable) -> tuple[Port, ...]:
    """The ports of a device of which nothing could be read, by number."""
    fields = dict.fromkeys(Port.model_fields.keys() - {"number", "unreadable_counters"}, why)
    return tuple(Port(number=number, **fields) for number in port_numbers(device))


def read_state(root: Path, device: str, number: int) -> str | Unreadable:
    """The logical state of one port as it is now, as ``ACTIVE``."""
    return _word(root / CLASS / device / "ports" / str(number) / "state")


def _read_port(device: Path, number: int) -> Port:
    path = device / "ports" / str(number)
    rate_gbps, lanes, speed = _rate(path / "rate")
    counters = read_counters(path)
    return Port(
        number=number,
        state=_word(path / "state"),
        physical_state=_word(path / "phys_state"),
        rate_gbps=rate_gbps,
        lanes=lanes,
        speed=speed,
        link_layer=_link_layer(path / "link_layer"),
        lid=read_number(path / "lid"),
        sm_lid=read_number(path / "sm_lid"),
        pkeys=_pkeys(path),
        gids=_gids(path),
        traffic_class=_traffic_class(device / "tc" / str(number) / "traffic_class"),
        counters=counters.values,
        unreadable_counters=counters.unreadable,
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


def _rate(path: Path) -> tuple[float | Unreadable, int | Unreadable, str | Unreadable]:
    """Gb/s, lanes and the name of the speed: 400.0, 4 and NDR of ``400 Gb/sec (4X NDR)``."""
    text = read_text(path)
    if isinstance(text, Unreadable):
        return text, text, text
    match = RATE.fullmatch(text)
    if match is None:
        unknown = Unreadable(unreadable=f"{path.name}: unknown form {text[:40]!r}")
        return unknown, unknown, unknown
    unnamed = Unreadable(unreadable=f"{path.name}: {text[:40]!r} does not say")
    return (
        float(match[1]),
        int(match[2]) if match[2] and int(match[2]) else unnamed,
        match[3] or unnamed,
    )


def _link_layer(path: Path) -> LinkLayer | Unreadable:
    text = read_text(path)
    if isinstance(text, Unreadable):
        return text
    layer = LINK_LAYERS.get(text)
    return layer or Unreadable(unreadable=f"{path.name}: unknown link layer {text[:40]!r}")


def _pkeys(path: Path) -> tuple[int, ...] | Unreadable:
    """The entries that are not zero. The kernel makes no table for a port of iWARP."""
    listed = list_names(path)
    if isinstance(listed, Unreadable) or "pkeys" not in listed:
        return listed if isinstance(listed, Unreadable) else ()
    names = list_names(path / "pkeys")
    if isinstance(names, Unreadable):
        return names
    keys = []
    for index in numbers(names):
        key = read_number(path / "pkeys" / str(index))
        if isinstance(key, Unreadable) or not 0 <= key <= 0xFFFF:
            why = key.unreadable if isinstance(key, Unreadable) else f"{key} is no key"
            return Unreadable(unreadable=f"pkeys/{index}: {why}")
        if key:
            keys.append(key)
    return tuple(keys)


def _gids(path: Path) -> tuple[GidEntry, ...] | Unreadable:
    """The populated slots. A slot whose type or netdev reads EINVAL is unpopulated: normal."""
    names = list_names(path / "gids")
    if isinstance(names, Unreadable):
        return names
    entries = []
    for index in numbers(names):
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


def _traffic_class(path: Path) -> int | Unreadable | None:
    text = optional_text(path)
    if text is None or isinstance(text, Unreadable):
        return text
    match = GLOBAL_CLASS.search(text)
    if match is not None and int(match[1]) <= 0xFF:
        return int(match[1])
    if "Global" not in text and all(FLOW_CLASS in line for line in text.splitlines()):
        return None
    return Unreadable(unreadable=f"{path.name}: unknown form {text[:40]!r}")


def optional_text(path: Path) -> str | Unreadable | None:
    """The text of a file that a driver may lack or leave empty: None then."""
    try:
        with open_regular(path) as stream:
            empty = not stream.read(MAX_BYTES).strip()
    except FileNotFoundError:
        return None
    except OSError:
        empty = False
    return None if empty else read_text(path)
