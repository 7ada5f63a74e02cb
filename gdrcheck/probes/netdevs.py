"""Network interfaces, and the IPv4 networks that are directly connected to them."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from gdrcheck.facts import Netdev, Unreadable
from gdrcheck.probes.reading import read_bytes, read_number, read_text

# dev_valid_name() of Linux net/core/dev.c: up to 15 bytes, no slash, no colon, no white space.
NAME = re.compile(r"(?!\.{1,2}$)[^/\s:\0]{1,15}")
# The first is of the network namespace of this process; a captured tree may have the second only.
ROUTES = ("proc/self/net/route", "proc/net/route")
# 128 bytes a route: a table with more is that of a router.
MAX_BYTES = 4 << 20
HEADER = "Iface"
NETWORK_BYTES = re.compile(r"[0-9A-Fa-f]{8}")
FLAGS = re.compile(r"[0-9A-Fa-f]{1,8}")
# Linux include/uapi/linux/route.h and include/uapi/linux/if.h.
RTF_GATEWAY, RTF_REJECT = 0x2, 0x200
IFF_UP = 0x1
# RFC 2863, in the words of Linux net/core/net-sysfs.c; beside them there is ``unknown``.
OPERATIONAL_STATES = ("up", "down", "lowerlayerdown", "notpresent", "testing", "dormant")

Subnets = dict[str, tuple[str, ...]]


def read_netdev(path: Path, subnets: Subnets | Unreadable) -> Netdev:
    """The interface whose folder in sysfs is ``path``; ``subnets`` are those of all interfaces."""
    return Netdev(
        name=path.name,
        mtu_bytes=read_number(path / "mtu"),
        up=_up(path),
        subnets=subnets if isinstance(subnets, Unreadable) else subnets.get(path.name, ()),
    )


def _up(path: Path) -> bool | Unreadable:
    state = read_text(path / "operstate")
    if isinstance(state, Unreadable):
        return state
    if state in OPERATIONAL_STATES:
        return state == "up"
    if state != "unknown":
        return Unreadable(unreadable=f"operstate: unknown form {state[:40]!r}")
    # The driver does not tell the carrier (Linux Documentation/networking/operstates.rst).
    flags = read_number(path / "flags", 16)
    return flags if isinstance(flags, Unreadable) else bool(flags & IFF_UP)


def read_subnets(root: Path) -> Subnets | Unreadable:
    """Interface → its directly connected IPv4 networks, by the main routing table below ``root``.

    Source: proc(5), /proc/net/route. Its addresses are hexadecimal, in the byte order of the
    machine: little-endian on all that NVIDIA supports.
    """
    tables = [read_bytes(root / name, MAX_BYTES) for name in ROUTES]
    table = next((one for one in tables if isinstance(one, bytes)), tables[0])
    return _parsed(table) if isinstance(table, bytes) else table


def _parsed(data: bytes) -> Subnets | Unreadable:
    lines = data.decode(errors="replace").splitlines()
    if not lines or not lines[0].startswith(HEADER):
        return Unreadable(unreadable="route: its first line is not the header of the kernel's")
    found: dict[str, set[IPv4Network]] = {}
    for number, line in enumerate(lines[1:], start=2):
        try:
            netdev, network = parse_route(line)
        except ValueError as error:
            return Unreadable(unreadable=f"route: line {number}: {error}")
        if network is not None:
            found.setdefault(netdev, set()).add(network)
    return {netdev: tuple(map(str, sorted(networks))) for netdev, networks in found.items()}


def parse_route(line: str) -> tuple[str, IPv4Network | None]:
    """The interface and its network; None for a route that is not to a network of its own.

    ValueError for a line of unknown form.
    """
    fields = line.split()
    if len(fields) < 8:
        raise ValueError(f"{len(fields)} fields where 8 or more belong")
    netdev, destination, _, flags, *_, mask = fields[:8]
    if not NETWORK_BYTES.fullmatch(destination) or not NETWORK_BYTES.fullmatch(mask):
        raise ValueError("destination or mask is no address")
    if not FLAGS.fullmatch(flags):
        raise ValueError("flags are no number")
    # A mask with holes, or a network with bits beyond its mask, is a ValueError as well.
    network = IPv4Network((_address(destination), str(IPv4Address(_address(mask)))))
    elsewhere = int(flags, 16) & (RTF_GATEWAY | RTF_REJECT)
    # A default route and a route to one host are no network of the interface.
    if elsewhere or network.prefixlen in (0, 32):
        return netdev, None
    return netdev, network


def _address(text: str) -> int:
    return int.from_bytes(bytes.fromhex(text), "little")
