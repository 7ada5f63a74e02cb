"""Which entry of a port's GID table to use. Pure: the table comes in, a choice comes out.

There is no right index: tables are sparse, bonded ports and containers shift them, and some
entries belong to network namespaces that this process cannot send from. So every entry is judged.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Literal

from gdrcheck.facts import GidEntry
from gdrcheck.outcome import ProbeError
from gdrcheck.profile import Gid

LinkLayer = Literal["infiniband", "ethernet"]
GidType = Literal["IB", "RoCE v1", "RoCE v2"]

# The kernel's words in gid_attrs/types: RoCE v1 shares its entry with InfiniBand.
_TYPE_WORDS: dict[str, dict[LinkLayer, GidType]] = {
    "IB/RoCE v1": {"infiniband": "IB", "ethernet": "RoCE v1"},
    "IB": {"infiniband": "IB", "ethernet": "RoCE v1"},
    "RoCE v1": {"infiniband": "IB", "ethernet": "RoCE v1"},
    "RoCE v2": {"ethernet": "RoCE v2"},
}


@dataclass(frozen=True, slots=True)
class GidChoice:
    """The chosen entry. ``gid`` is in the short IPv6 notation (``::ffff:192.0.2.1`` mapped)."""

    index: int
    gid: str
    type: GidType
    netdev: str


class NoUsableGid(ProbeError):
    """No entry of the table fits. ``dropped`` says why, one line for each entry."""

    def __init__(self, wanted: str, dropped: Sequence[str]) -> None:
        self.dropped = tuple(dropped)
        reasons = "; ".join(dropped) if dropped else "the table is empty"
        super().__init__(f"no usable GID ({wanted}): {reasons}", step="choose a GID")


def normal(gid: str) -> str:
    """One spelling for an address, whatever the source: ``::ffff:10.0.0.1``, ``fe80::1``."""
    address = IPv6Address(gid)
    mapped = address.ipv4_mapped
    return f"::ffff:{mapped}" if mapped is not None else address.compressed


def exploded(gid: str) -> str:
    """The eight groups of four digits that pyverbs wants."""
    digits = f"{int(IPv6Address(gid)):032x}"
    return ":".join(digits[at : at + 4] for at in range(0, 32, 4))


def choose(
    entries: Sequence[GidEntry],
    *,
    link_layer: LinkLayer,
    wanted: Gid,
    local_netdevs: Collection[str],
) -> GidChoice:
    """The entry to use for a connection, or NoUsableGid with the reason for each entry.

    Zero and link-local addresses and those of a netdev outside ``local_netdevs`` are dropped.
    Without a wish for a type, Ethernet means RoCE v2. An IPv4-mapped address comes before IPv6,
    then the lowest index. InfiniBand uses index 0, since its paths go by LID.
    """
    if link_layer == "infiniband":
        return _infiniband(entries, wanted)
    kind = "RoCE v2" if wanted.type == "auto" else wanted.type
    dropped: list[str] = []
    usable: list[GidChoice] = []
    for entry in entries:
        reason = _why_not(entry, kind, wanted.family, local_netdevs)
        if reason is None:
            usable.append(_choice(entry, link_layer))
        else:
            dropped.append(f"index {entry.index} {entry.gid}: {reason}")
    if not usable:
        family = "" if wanted.family == "any" else f", {wanted.family}"
        raise NoUsableGid(f"{kind}{family}", dropped)
    return min(usable, key=lambda choice: (not choice.gid.startswith("::ffff:"), choice.index))


def forced(entries: Sequence[GidEntry], index: int, *, link_layer: LinkLayer) -> GidChoice:
    """The entry ``index``, whatever it is; NoUsableGid if the table has none there."""
    for entry in entries:
        if entry.index == index and int(IPv6Address(entry.gid)) != 0:
            return _choice(entry, link_layer)
    there = [f"index {entry.index} {entry.gid}" for entry in entries]
    raise NoUsableGid(f"index {index}, as asked", there)


def _infiniband(entries: Sequence[GidEntry], wanted: Gid) -> GidChoice:
    if wanted.type not in ("auto", "IB"):
        raise NoUsableGid(wanted.type, ["the port's link layer is InfiniBand"])
    for entry in entries:
        if entry.index == 0 and int(IPv6Address(entry.gid)) != 0:
            return _choice(entry, "infiniband")
    raise NoUsableGid("IB, index 0", [f"index {entry.index} {entry.gid}" for entry in entries])


def _choice(entry: GidEntry, link_layer: LinkLayer) -> GidChoice:
    return GidChoice(
        index=entry.index,
        gid=normal(entry.gid),
        type=_TYPE_WORDS[entry.type][link_layer],
        netdev=entry.netdev,
    )


def _why_not(entry: GidEntry, kind: str, family: str, local_netdevs: Collection[str]) -> str | None:
    """Why the entry of an Ethernet port cannot be used; None if it can."""
    address = IPv6Address(entry.gid)
    mapped = address.ipv4_mapped
    if int(address) == 0:
        return "empty"
    if address.is_link_local or (mapped is not None and mapped.is_link_local):
        return "link-local"
    entry_type = _TYPE_WORDS.get(entry.type, {}).get("ethernet")
    if entry_type != kind:
        return f"type {entry_type or entry.type}"
    if (family == "ipv4" and mapped is None) or (family == "ipv6" and mapped is not None):
        return "IPv4" if mapped is not None else "IPv6"
    if not entry.netdev:
        return "no network device"
    if entry.netdev not in local_netdevs:
        return f"network device {entry.netdev} is not in this network namespace"
    return None
