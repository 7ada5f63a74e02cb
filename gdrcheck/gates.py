"""What a check stands on. Each gate is pure and says which finding, if any, closes it.

The check that owns a level raises the gate's finding as its failure; a check that stands on the
level is blocked by the same finding, so one cause gives one failure.
"""

from __future__ import annotations

from typing import TypeVar

from gdrcheck.facts import Facts, Port, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, CheckFailure, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail, selected_devices

T = TypeVar("T")


def device_missing(rail: Rail, facts: Facts) -> Finding | None:
    """PORT-DEVICE-MISSING when the profile promises a device for the rail and none is there.

    ProbeError when the list of devices could not be read.
    """
    if rail.missing is None:
        return None
    devices = readable(facts.rdma_devices, rail.where, "list of RDMA devices")
    present = ", ".join(device.name for device in devices)
    return Finding(
        code="PORT-DEVICE-MISSING",
        where=rail.where,
        observed=f"RDMA devices: {present or 'none'}",
        expected=f"a device for rail {rail.id}, {rail.nic}",
    )


def devices_extra(profile: Profile, facts: Facts) -> Finding | None:
    """PORT-DEVICE-EXTRA when the selectors match more devices than the profile has rails.

    NotPromised when the profile has no rails; ProbeError when the list of devices could not be
    read.
    """
    if profile.rails is None:
        raise NotPromised("the profile promises no rails")
    readable(facts.rdma_devices, Where(node=facts.node), "list of RDMA devices")
    matched = selected_devices(profile, facts)
    if len(matched) <= profile.rails.count:
        return None
    return Finding(
        code="PORT-DEVICE-EXTRA",
        where=Where(node=facts.node),
        observed=f"{len(matched)} devices match: {', '.join(device.name for device in matched)}",
        expected=f"{profile.rails.count}",
    )


def port_of(rail: Rail) -> Port:
    """The port of the device that serves the rail: the one that the profile names, else port 1.

    ProbeError when sysfs does not show it, or when the profile names none and another one is
    active: one of them would then pass without having been looked at.
    """
    place, ports = rail.where.text(), rail.device.ports if rail.device else ()
    others = [port.number for port in ports if port.number != rail.port and port.state == "ACTIVE"]
    if rail.named_port is None and others:
        raise ProbeError(
            f"{place}: port {', '.join(map(str, others))} is active as well as, or in place of, "
            "port 1; say which one serves the rail: port, beside name, slot or netdev in "
            "rails.nics of the profile",
            step="choose the port",
        )
    for port in ports:
        if port.number == rail.port:
            return port
    raise ProbeError(f"{place}: sysfs shows no port {rail.port}", step="read ports")


def port_not_active(rail: Rail) -> Finding | None:
    """PORT-NOT-ACTIVE unless the port's state reads ACTIVE. ProbeError if it cannot be read."""
    port = port_of(rail)
    state = readable(port.state, rail.where, "port state")
    if state == "ACTIVE":
        return None
    physical = port.physical_state
    return Finding(
        code="PORT-NOT-ACTIVE",
        where=rail.where,
        observed=f"state {state}",
        expected="state ACTIVE",
        evidence={
            "physical state": physical if isinstance(physical, str) else physical.unreadable,
            "netdevs": " ".join(rail.device.netdevs) if rail.device else "",
        },
    )


def readable(value: T | Unreadable, where: Where, what: str) -> T:
    """``value``, or ProbeError with the reason why ``what`` could not be read."""
    if isinstance(value, Unreadable):
        raise ProbeError(
            f"{where.text()}: {what} is unreadable: {value.unreadable}", step=f"read {what}"
        )
    return value


def require_device(rail: Rail, facts: Facts) -> None:
    """Blocked unless the rail has its device."""
    _block(device_missing(rail, facts))


def require_active_port(rail: Rail, facts: Facts) -> None:
    """Blocked unless the rail has its device and the device's port is active."""
    require_device(rail, facts)
    _block(port_not_active(rail))


def fail(finding: Finding | None) -> None:
    """CheckFailure with ``finding``, or nothing when there is none."""
    if finding is not None:
        raise CheckFailure(finding)


def _block(finding: Finding | None) -> None:
    if finding is not None:
        raise Blocked(f"{finding.code} at {finding.where.text()}")
