"""How the packets of a node's rails are marked: traffic class and partition, for a first profile.

Pure. What the facts do not tell, or tell differently of two rails, is left out, and said so.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdrcheck.facts import Port, Unreadable
from gdrcheck.proposal import Left
from gdrcheck.rails import Rail

Values = dict[str, object]
# The default partition, in which every port is unless the subnet manager says otherwise, and the
# bits that name a partition; the highest tells full from limited members. InfiniBand
# Architecture Specification vol. 1, 10.9.
KEY_BITS = 0x7FFF
DEFAULT_PARTITION = 0x7FFF
FULL_MEMBER = 0x8000
MAX_TRAFFIC_CLASS = 255


def read(rails: Sequence[Rail]) -> tuple[Values, list[Left]]:
    """``traffic_class`` of RoCE, ``pkey`` of InfiniBand, and what was left out and why."""
    ports = [port for rail in rails if rail.device and (port := rail.device.port(rail.port))]
    if not ports:
        return {}, []
    if all(port.link_layer == "ethernet" for port in ports):
        return _taken("traffic_class", _traffic_class(ports))
    return _taken("pkey", _pkey(ports))


def _taken(key: str, found: int | str | None) -> tuple[Values, list[Left]]:
    """``found`` as a value, or as the reason why there is none; None is neither."""
    if isinstance(found, str):
        return {}, [(key, found)]
    return ({} if found is None else {key: found}), []


def _traffic_class(ports: Sequence[Port]) -> int | str:
    """The class that the drivers put on all packets, or why none is taken."""
    found: set[int | None] = set()
    for port in ports:
        if isinstance(port.traffic_class, Unreadable):
            return port.traffic_class.unreadable
        found.add(port.traffic_class)
    forced = next(iter(found))
    if len(found) > 1:
        return f"differs: {', '.join(sorted(map(str, found)))}"
    if forced is None:
        return "none is forced on the NICs; which one applications ask for is not in the facts"
    if not 0 <= forced <= MAX_TRAFFIC_CLASS:
        return f"{forced} is no traffic class"
    return forced


def _pkey(ports: Sequence[Port]) -> int | str | None:
    """The first key of the ports, which is used where none is asked for; None for the default."""
    first: set[int] = set()
    others: set[int] = set()
    full: set[int] = set()
    for port in ports:
        if isinstance(port.pkeys, Unreadable):
            return port.pkeys.unreadable
        partitions = [key & KEY_BITS for key in port.pkeys]
        first |= set(partitions[:1])
        others |= set(partitions[1:])
        full |= {key & KEY_BITS for key in port.pkeys if key & FULL_MEMBER}
    if len(first) > 1:
        return f"differs: {_hexes(first)}"
    others -= {*first, DEFAULT_PARTITION}
    for partition in first - {DEFAULT_PARTITION}:
        return partition | FULL_MEMBER if partition in full else partition
    if others:
        return f"the default one comes first; ports are in {_hexes(others)} as well"
    return None


def _hexes(partitions: set[int]) -> str:
    return ", ".join(f"{one:#06x}" for one in sorted(partitions))
