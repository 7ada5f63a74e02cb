"""Why a rail lacks its device. Each cause is one finding, and blocks all that needs the device.

The causes, the first that applies: the list of devices is unreadable; nothing tells which device
serves which rail; a module is not loaded; a NIC has no driver; the device is just not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from gdrcheck import gates, rails
from gdrcheck.facts import Facts, PciFunction, PciTree, RdmaDevice
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, NotJudged, NotPromised
from gdrcheck.profile import NicSelector, Profile
from gdrcheck.rails import Rail
from gdrcheck.rules import driver

# Drivers that hand a function to a virtual machine or to user space.
PASSED_ON = ("vfio-pci", "mlx5-vfio-pci", "uio_pci_generic", "igb_uio", "pci-stub", "xen-pciback")


def device_of(rail: Rail, profile: Profile, facts: Facts) -> RdmaDevice:
    """The rail's device; Blocked by what keeps it away."""
    if rail.device is None:
        raise Blocked(gates.named(_device_missing(rail, profile, facts)))
    return rail.device


def require_some_device(profile: Profile, facts: Facts) -> None:
    """Blocked, when no rail has a device, by what keeps that of the first rail away."""
    found = rails.with_nics(profile, facts)
    if found and all(rail.device is None for rail in found):
        device_of(found[0], profile, facts)


def require_told_apart(profile: Profile, facts: Facts) -> None:
    """Blocked unless it is known which device serves which rail."""
    gates.rdma_devices(facts)
    if not rails.told_apart(profile, facts):
        gates.block(gates.devices_extra(profile, facts))
        gates.block(devices_lacking(profile, facts))


def device_missing(rail: Rail, profile: Profile, facts: Facts) -> Finding | None:
    """PORT-DEVICE-MISSING when the rail lacks its device. Blocked by what explains that."""
    return None if rail.device is not None else _device_missing(rail, profile, facts)


def _device_missing(rail: Rail, profile: Profile, facts: Facts) -> Finding:
    require_told_apart(profile, facts)
    _require_modules(profile, facts)
    gates.block(
        _unbound(_idle_nics(_selectors(rail, profile), facts), rail.where, f"rail {rail.id}")
    )
    return Finding(
        code="PORT-DEVICE-MISSING",
        where=rail.where,
        observed=_present(facts),
        expected=f"a device for rail {rail.id}, {rail.nic}",
        evidence={"why": rail.missing or ""},
    )


def devices_lacking(profile: Profile, facts: Facts) -> Finding | None:
    """PORT-DEVICE-MISSING, or PCI-DRIVER-UNBOUND, when fewer devices match than rails are promised.

    For selectors that may mean several devices: with too few of them all rails are in doubt, so
    this is found once, at the node. NotPromised when each rail has a selector of its own; Blocked
    by a module that is missing, or when the list of devices is unreadable.
    """
    promised = profile.rails
    if promised is None:
        raise NotPromised("the profile promises no rails")
    gates.rdma_devices(facts)
    if rails.named_in_order(promised):
        raise NotPromised("the profile names the device of each rail, which is looked for alone")
    matched = rails.selected_devices(profile, facts)
    if len(matched) >= promised.count:
        return None
    _require_modules(profile, facts)
    where, idle = Where(node=facts.node), _idle_nics(promised.nics, facts)
    unbound = _unbound(idle, where, f"{promised.count} rails")
    if unbound is not None:
        return unbound
    names = ", ".join(device.name for device in matched) or "none"
    return Finding(
        code="PORT-DEVICE-MISSING",
        where=where,
        observed=f"{len(matched)} devices match: {names}",
        expected=f"{promised.count}, one for each rail",
        evidence={
            "selectors": ", ".join(selector.text() for selector in promised.nics),
            "which rail has none": "not told; name the NICs one by one in rails.nics",
            **{f"NIC {nic.slot}": f"bound to {nic.driver}" for nic in idle},
        },
    )


def driver_unbound(rail: Rail, profile: Profile, facts: Facts) -> Finding | None:
    """PCI-DRIVER-UNBOUND when the rail lacks its device, and a NIC that could be it has no driver.

    Such are the NICs of Mellanox's without an RDMA device, by the slots that the selectors ask for.
    Blocked by what else explains it, or by the missing device when there is no such NIC, or when
    the PCI functions are unreadable. NotJudged when one is given to a virtual machine.
    """
    if rail.device is not None:
        return None
    require_told_apart(profile, facts)
    _require_modules(profile, facts)
    gates.pci_tree(facts)
    idle = _idle_nics(_selectors(rail, profile), facts)
    unbound = _unbound(idle, rail.where, f"rail {rail.id}")
    passed_on = [nic for nic in idle if nic.driver in PASSED_ON]
    if unbound is None and passed_on:
        words = ", ".join(f"{nic.slot} is bound to {nic.driver}" for nic in passed_on)
        raise NotJudged(f"{words}: it is given to a virtual machine or to user space")
    if unbound is None:
        raise Blocked(gates.named(_device_missing(rail, profile, facts)))
    return unbound


def _require_modules(profile: Profile, facts: Facts) -> None:
    gates.block(next(iter(driver.missing_modules(profile, facts)), None))


def _selectors(rail: Rail, profile: Profile) -> tuple[NicSelector, ...]:
    """Those that may mean the rail's device."""
    if profile.rails is None:
        return ()
    if rails.named_in_order(profile.rails):
        return (profile.rails.nics[rail.id],)
    return profile.rails.nics


def _idle_nics(selectors: Sequence[NicSelector], facts: Facts) -> tuple[PciFunction, ...]:
    """The NICs that serve no RDMA device and that the selectors do not rule out.

    None when the PCI functions are unreadable: then it stays unknown why a device is missing.
    """
    if not isinstance(facts.pci, PciTree):
        return ()
    serving = {device.slot for device in gates.rdma_devices(facts) if not device.software}
    return tuple(
        function
        for function in facts.pci.functions
        if function.is_mellanox_nic
        and function.slot not in serving
        and any(one.slot is None or fnmatchcase(function.slot, one.slot) for one in selectors)
    )


def _unbound(idle: Sequence[PciFunction], where: Where, lacking: str) -> Finding | None:
    unbound = [nic for nic in idle if nic.driver is None]
    if not unbound:
        return None
    return Finding(
        code="PCI-DRIVER-UNBOUND",
        where=where,
        observed=f"no driver is bound to {' or '.join(nic.slot for nic in unbound)}",
        expected=f"an RDMA device for {lacking}",
        evidence={nic.slot: f"{nic.vendor:04x}:{nic.device:04x}" for nic in unbound},
    )


def _present(facts: Facts) -> str:
    names = ", ".join(device.name for device in gates.rdma_devices(facts))
    return f"RDMA devices: {names or 'none'}"
