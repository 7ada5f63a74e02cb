"""The ends of rails' cables: which leaf switch each leads to, by LLDP or a list of links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Literal

from gdrcheck.facts import Neighbour, Port, Unreadable
from gdrcheck.findings.model import Where
from gdrcheck.ib_links import IbLinks
from gdrcheck.rails import Rail

Cabling = Literal["by_rail", "by_node"]
# The lower half of a port's first GID is its GUID (InfiniBand Architecture Specification, 4.1.1).
GUID_BITS = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class End:
    """A rail's end of a cable. ``switch`` tells switches apart, ``leaf`` and ``port`` are words.

    ``label`` is the node's leaf label, None when it has none.
    """

    where: Where
    rail: int
    label: str | None
    switch: str
    leaf: str
    port: str

    def unit(self, cabling: Cabling) -> str:
        """What this end must share its leaf with, in words that follow "of"."""
        labelled = "" if self.label is None else f" at label {self.label}"
        if cabling == "by_rail":
            return f"rail {self.rail}{labelled}"
        return labelled.removeprefix(" at ") or f"node {self.where.node}"

    def text(self) -> str:
        """``rail 0 of node1/mlx5_0 at leaf-1 (e4:…), port Ethernet3``."""
        return f"rail {self.rail} of {self.where.text()} at {self.leaf}, port {self.port}"


def neighbours(rail: Rail, port: Port, links: IbLinks | None) -> tuple[Neighbour, ...] | Unreadable:
    """What the cables of a rail lead to: more than one of a bond. Empty: nobody asked.

    ``links`` None: no list of an InfiniBand fabric's links was given.
    """
    if port.link_layer == "infiniband":
        return _by_guid(port, links)
    netdevs = rail.device.netdevs if rail.device else ()
    gids = () if isinstance(port.gids, Unreadable) else port.gids
    own = {gid.netdev for gid in gids} & {
        netdev.name for netdev in netdevs if netdev.neighbour is not None
    }
    found = []
    for netdev in netdevs:
        if isinstance(netdev.neighbour, Unreadable) and (netdev.name in own or not own):
            return Unreadable(unreadable=f"{netdev.name}: {netdev.neighbour.unreadable}")
        if isinstance(netdev.neighbour, Neighbour) and (netdev.name in own or not own):
            found.append(netdev.neighbour)
    return tuple(found)


def _by_guid(port: Port, links: IbLinks | None) -> tuple[Neighbour, ...] | Unreadable:
    if links is None:
        return ()
    gids = port.gids
    if isinstance(gids, Unreadable):
        return Unreadable(unreadable=f"its GUID: {gids.unreadable}")
    first = next((gid.gid for gid in gids if gid.index == 0), None)
    if first is None:
        return Unreadable(unreadable="its GUID: it has no first GID")
    guid = int(IPv6Address(first)) & GUID_BITS
    found = links.get(guid)
    return (
        Unreadable(unreadable=f"no link of port GUID {guid:#018x} is in the list")
        if (found is None)
        else (found,)
    )


def end_of(rail: Rail, label: str | None, found: Sequence[Neighbour]) -> End:
    """The end of ``rail``, whose cables lead to ``found``, at least one."""
    ordered = sorted(found, key=lambda one: one.switch)
    leaves = {one.switch: one.leaf for one in ordered}
    return End(
        where=rail.where,
        rail=rail.id,
        label=label,
        switch=" + ".join(leaves),
        leaf=" + ".join(leaves.values()),
        port=" + ".join(one.port for one in ordered),
    )
