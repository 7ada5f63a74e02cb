"""What is judged of address resolution on a node with several RoCE rails."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network

from gdrcheck import gates
from gdrcheck.facts import Facts, Unreadable
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.outcome import NotJudged, NotPromised
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail, resolve


@dataclass(frozen=True, slots=True)
class _Address:
    """A rail's interface, and an IPv4 network that it is in."""

    rail: Rail
    netdev: str
    network: IPv4Network

    def text(self) -> str:
        return f"{self.netdev} ({self.rail.nic}) in {self.network}"


def arp_flux(profile: Profile, facts: Facts) -> Finding | None:
    """PORT-ARP-FLUX when RoCE rails share an IPv4 network and answer ARP for one another.

    NotPromised without two rails over Ethernet, NotJudged when fewer than two are there;
    ProbeError when a network or, on a shared network, a setting could not be read.
    """
    promised = profile.rails
    if promised is None or promised.count < 2 or promised.link_layer == "infiniband":
        raise NotPromised("the profile promises no two rails over Ethernet")
    rails = [rail for rail in resolve(profile, facts) if _is_roce(rail)]
    if len(rails) < 2:
        raise NotJudged(f"{len(rails)} rails over Ethernet are there; nothing to confuse")
    shared = _shared([address for rail in rails for address in _addresses(rail)])
    lax = {
        name: settings
        for name in sorted({address.netdev for address in shared})
        if (settings := _lax(name, facts)) is not None
    }
    if not lax:
        return None
    return Finding(
        code="PORT-ARP-FLUX",
        severity=Severity.WARN,
        where=Where(node=facts.node),
        observed="; ".join(address.text() for address in shared),
        expected="a network for each rail, or arp_ignore and arp_announce set",
        evidence=lax,
    )


def _is_roce(rail: Rail) -> bool:
    if rail.device is None:
        return False
    return gates.readable(gates.port_of(rail).link_layer, rail.where, "link layer") == "ethernet"


def _addresses(rail: Rail) -> list[_Address]:
    found = []
    for netdev in rail.device.netdevs if rail.device else ():
        what = f"IPv4 networks of {netdev.name}"
        for text in gates.readable(netdev.subnets, rail.where, what):
            found.append(_Address(rail, netdev.name, IPv4Network(text)))
    return found


def _shared(addresses: list[_Address]) -> list[_Address]:
    """Those whose network overlaps with one of another rail on another interface."""
    return [
        one
        for one in addresses
        if any(
            other.rail.id != one.rail.id
            and other.netdev != one.netdev
            and other.network.overlaps(one.network)
            for other in addresses
        )
    ]


def _lax(netdev: str, facts: Facts) -> str | None:
    """The settings by which the interface takes part in the confusion; None when it does not.

    The kernel takes the larger of the interface's value and that of ``all``. ``arp_filter`` answers
    by routing, which is as good as ``arp_ignore``. Source: Linux ip-sysctl.rst.
    """
    ignore = _setting(netdev, "arp_ignore", facts)
    announce = _setting(netdev, "arp_announce", facts)
    if announce and (ignore or _setting(netdev, "arp_filter", facts)):
        return None
    return f"arp_ignore {ignore}, arp_announce {announce}"


def _setting(netdev: str, name: str, facts: Facts) -> int:
    values = [facts.host.sysctls.get(f"net.ipv4.conf.{one}.{name}") for one in ("all", netdev)]
    numbers = [int(value) for value in values if value is not None and value.isdecimal()]
    if any(numbers) or len(numbers) == len(values):
        return max(numbers)
    unknown: int | Unreadable = Unreadable(unreadable="not among the settings that were read")
    return gates.readable(unknown, Where(node=facts.node), f"{name} of {netdev}")
