"""Rails that the topology suggests, for a node whose owner has not said yet what was bought. Pure.

A suggestion is shown, never judged: only a profile promises.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address
from math import inf

from gdrcheck import rails
from gdrcheck.facts import (
    DEVICE_NAME_PATTERN,
    SLOT_PATTERN,
    Facts,
    GidEntry,
    LinkLayer,
    PciFunction,
    Port,
    RdmaDevice,
    Unreadable,
    VerbsDevice,
)
from gdrcheck.natural import by_slot, natural
from gdrcheck.profile import Gpus, NicSelector, Profile, Rails
from gdrcheck.rails import Rail

# The profile takes no more.
MAX_RAILS = 64
MAX_GPUS = 64
MAX_PORT = 255
# What is not in the profile, and why.
Left = tuple[str, str]
ANY_MODEL = "*"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A profile of the mandatory core, its rails on this node, and what was left out and why.

    ``profile.rails`` is None when no NIC can serve a rail. The GPUs' model is a pattern for any.
    ``left_out`` names every RDMA device that is no rail, and every GPU that has none. ``unfit``
    are those of them that would serve a rail but for a fault: a port that is not active, a rate
    that is none of the others', a device that does not open.
    """

    profile: Profile
    rails: tuple[Rail, ...]
    left_out: tuple[Left, ...]
    unfit: tuple[Left, ...] = ()


class _Rest:
    """What becomes no rail, and why."""

    def __init__(self) -> None:
        self.left_out: list[Left] = []
        self.unfit: list[Left] = []

    def leave(self, what: str, why: str, *, fault: bool = False) -> None:
        self.left_out.append((what, why))
        if fault:
            self.unfit.append((what, why))


@dataclass(frozen=True, slots=True)
class _Nic:
    device: RdmaDevice
    port: Port
    rate_gbps: float
    link_layer: LinkLayer
    several_active: bool

    @property
    def kind(self) -> str:
        software = "software, " if self.device.software else ""
        return f"{software}{self.rate_gbps:g} Gb/s {self.link_layer}"


def propose(facts: Facts, without: Collection[str] = ()) -> Proposal:
    """The rails that ``facts`` suggest: NICs of one kind with an active port, the closest GPU each.

    The kind (rate, link layer) is the one that carries the most in total, hardware before software;
    with more such NICs than GPUs, those that the GPUs are closest to. ``without`` are names of
    devices that serve no rail, whatever they look like.
    """
    gpus, rest = _gpus(facts), _Rest()
    if isinstance(facts.rdma_devices, Unreadable):
        rest.leave(
            "every NIC", f"the list of RDMA devices is unreadable: {facts.rdma_devices.unreadable}"
        )
        return Proposal(Profile(gpus=gpus), (), tuple(rest.left_out))
    for name in sorted(without, key=natural):
        rest.leave(name, "serves no rail, as --without says")
    taken = [device.slot for device in facts.rdma_devices]
    for function in _silent_nics(facts, taken):
        rest.leave(function.slot, "a NIC by its vendor and class, but it has no RDMA device")
    devices = [device for device in facts.rdma_devices if device.name not in without]
    nics = _of_one_kind(_active(devices, rest), rest)
    if not nics:
        return Proposal(Profile(gpus=gpus), (), tuple(rest.left_out), tuple(rest.unfit))
    if 0 < gpus.count < len(nics):
        nics = _closest(nics, rails.resolve(_profile(gpus, nics, taken), facts), rest)
    profile, resolved = _with_gpus(_profile(gpus, nics, taken), facts)
    served = {rail.gpu for rail in resolved}
    for name in (f"gpu{number}" for number in range(gpus.count)):
        if name not in served:
            rest.leave(name, f"none of the {len(nics)} NICs is left for it")
    return Proposal(profile, resolved, tuple(rest.left_out), tuple(rest.unfit))


def _silent_nics(facts: Facts, taken: Sequence[str | None]) -> list[PciFunction]:
    functions = () if isinstance(facts.pci, Unreadable) else facts.pci.functions
    return [one for one in functions if one.is_mellanox_nic and one.slot not in taken]


def _closest(nics: list[_Nic], resolved: Sequence[Rail], rest: _Rest) -> list[_Nic]:
    """The NICs whose rail got a GPU."""
    got = {rail.nic for rail in resolved if rail.gpu is not None}
    for nic in nics:
        if nic.device.name not in got:
            rest.leave(nic.device.name, "every GPU has a NIC that is at least as close")
    return [nic for nic in nics if nic.device.name in got]


def _gpus(facts: Facts) -> Gpus:
    found = () if isinstance(facts.pci, Unreadable) else facts.pci.nvidia_gpus
    count = min(len(found), MAX_GPUS)
    return Gpus(count=count, model=ANY_MODEL if count else None)


def _active(devices: Sequence[RdmaDevice], rest: _Rest) -> list[_Nic]:
    """The devices with an active port, in PCI order."""
    found = []
    for device in sorted(devices, key=lambda one: by_slot(one.slot, one.name)):
        if not re.fullmatch(DEVICE_NAME_PATTERN, device.name):
            rest.leave(device.name, "no name that a profile can hold")
            continue
        active = [port for port in device.ports if port.state == "ACTIVE"]
        why = _why_no_rail(device, active)
        nic = None if why else _nic(device, active)
        if nic is None:
            why = why or "rate or link layer of its port are unreadable"
            rest.leave(device.name, why, fault=True)
            continue
        found.append(nic)
        for port in active[1:]:
            other = f"a NIC serves one rail, here by port {active[0].number}"
            rest.leave(f"{device.name} port {port.number}", other)
    return found


def _why_no_rail(device: RdmaDevice, active: Sequence[Port]) -> str | None:
    """Why nothing could be sent by the device from here; None when it seems to be fit."""
    if not active:
        states = ", ".join(f"port {port.number} is {_state(port)}" for port in device.ports)
        return f"no port is active ({states or 'it has none'})"
    if isinstance(device.verbs, VerbsDevice) and device.verbs.error is not None:
        return f"does not open: {device.verbs.error}"
    gids = active[0].gids
    if active[0].link_layer == "ethernet" and isinstance(gids, tuple):
        return None if any(_routable(gid) for gid in gids) else "no GID beyond link-local ones"
    return None


def _state(port: Port) -> str:
    return "unreadable" if isinstance(port.state, Unreadable) else port.state


def _routable(entry: GidEntry) -> bool:
    """Whether the entry is of a network: neither empty nor link-local, and with a netdev."""
    try:
        address = IPv6Address(entry.gid)
    except ValueError:
        return False
    local = address.ipv4_mapped or address
    return bool(entry.netdev) and int(address) != 0 and not local.is_link_local


def _nic(device: RdmaDevice, active: Sequence[Port]) -> _Nic | None:
    port = active[0]
    rate, layer = port.rate_gbps, port.link_layer
    if isinstance(rate, Unreadable) or isinstance(layer, Unreadable):
        return None
    if not 0 < rate < inf or not 1 <= port.number <= MAX_PORT:
        return None
    return _Nic(device, port, rate, layer, several_active=len(active) > 1)


def _of_one_kind(nics: Sequence[_Nic], rest: _Rest) -> list[_Nic]:
    kinds: defaultdict[str, list[_Nic]] = defaultdict(list)
    for nic in nics:
        kinds[nic.kind].append(nic)
    if not kinds:
        return []
    best = max(
        kinds.values(),
        key=lambda one: (not one[0].device.software, len(one) * one[0].rate_gbps, len(one)),
    )
    for nic in nics:
        if nic not in best:
            why = f"{nic.kind}, unlike the {len(best)} of {best[0].kind}"
            rest.leave(nic.device.name, why, fault=_only_rates_differ(nic, best[0]))
    for nic in best[MAX_RAILS:]:
        rest.leave(nic.device.name, f"a profile holds {MAX_RAILS} rails")
    return best[:MAX_RAILS]


def _only_rates_differ(one: _Nic, other: _Nic) -> bool:
    return (one.link_layer, one.device.software) == (other.link_layer, other.device.software)


def _profile(gpus: Gpus, nics: Sequence[_Nic], taken: Sequence[str | None]) -> Profile:
    """The profile of ``nics``; ``taken`` are the slots of all devices of the node."""
    return Profile(
        gpus=gpus,
        rails=Rails(
            count=len(nics),
            nics=tuple(_selector(nic, taken) for nic in nics),
            port_rate_gbps=nics[0].rate_gbps,
            link_layer=nics[0].link_layer,
        ),
    )


def _selector(nic: _Nic, taken: Sequence[str | None]) -> NicSelector:
    """By slot, which is the same on every node of a kind, unless two devices share it.

    A software device is at the slot of another one's interface: it is selected by name only.
    """
    slot = None if nic.device.software else nic.device.slot
    port = nic.port.number if nic.port.number != 1 or nic.several_active else None
    if slot is not None and re.fullmatch(SLOT_PATTERN, slot) and taken.count(slot) == 1:
        return NicSelector(slot=slot, port=port)
    return NicSelector(name=nic.device.name, port=port)


def _with_gpus(profile: Profile, facts: Facts) -> tuple[Profile, tuple[Rail, ...]]:
    """``profile`` with each rail's GPU named, and its rails."""
    resolved = rails.resolve(profile, facts)
    if profile.rails is None:
        return profile, resolved
    nics = tuple(
        selector.model_copy(update={"gpu": _number(rail)})
        for selector, rail in zip(profile.rails.nics, resolved, strict=True)
    )
    named = profile.rails.model_copy(update={"nics": nics})
    return profile.model_copy(update={"rails": named}), resolved


def _number(rail: Rail) -> int | None:
    return None if rail.gpu is None else int(rail.gpu.removeprefix("gpu"))
