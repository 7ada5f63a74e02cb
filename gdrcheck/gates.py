"""What a check stands on. Each gate is pure and says which finding, if any, closes it.

The check that owns a level raises the gate's finding as its failure; a check that stands on the
level is blocked by the same finding, so one cause gives one failure.
"""

from __future__ import annotations

from typing import TypeVar

from gdrcheck.facts import Facts, PciTree, Port, RdmaDevice, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, CheckFailure, NotJudged, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail, selected_devices

T = TypeVar("T")


def rdma_devices(facts: Facts) -> tuple[RdmaDevice, ...]:
    """The RDMA devices; Blocked by the check that owns the error when the list is unreadable."""
    if isinstance(facts.rdma_devices, Unreadable):
        raise Blocked(f"error in no_extra_device[{facts.node}]")
    return facts.rdma_devices


def pci_listed(profile: Profile, facts: Facts) -> None:
    """ProbeError when the PCI functions could not be read.

    NotPromised when the profile promises nothing that is on PCI.
    """
    if profile.gpus is None and profile.rails is None and profile.expect.iommu is None:
        raise NotPromised("the profile promises nothing that is on PCI")
    readable(facts.pci, Where(node=facts.node), "list of PCI functions")


def pci_tree(facts: Facts) -> PciTree:
    """The PCI functions; Blocked by the error in ``pci_listed`` when they are unreadable."""
    if isinstance(facts.pci, Unreadable):
        raise Blocked(f"error in pci_listed[{facts.node}]")
    return facts.pci


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


def require_emulation_told(emulated: bool, facts: Facts) -> None:
    """ProbeError when CUDA's driver is an emulated one, and the facts do not say EMULATED.

    Every artefact of the run would pass for one of real hardware.
    """
    if emulated and not facts.emulated:
        raise ProbeError(
            f"{facts.node}: libcuda.so.1 is the emulated driver of the lab, and libnvidia-ml.so.1, "
            "which the facts are from, is not: both must come from one place (LD_LIBRARY_PATH)",
            step="compare the drivers",
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
    """PORT-NOT-ACTIVE or PORT-NO-SUBNET-MANAGER unless the port's state reads ACTIVE.

    ProbeError if the state cannot be read.
    """
    port = port_of(rail)
    state = readable(port.state, rail.where, "port state")
    if state == "ACTIVE":
        return None
    if _waits_for_subnet_manager(port):
        return Finding(
            code="PORT-NO-SUBNET-MANAGER",
            where=rail.where,
            observed="state INIT, physical state LinkUp, LID of the subnet manager 0",
            expected="a subnet manager has made the port ACTIVE",
        )
    physical = port.physical_state
    return Finding(
        code="PORT-NOT-ACTIVE",
        where=rail.where,
        observed=f"state {state}",
        expected="state ACTIVE",
        evidence={
            "physical state": physical if isinstance(physical, str) else physical.unreadable,
            "netdevs": " ".join(rail.device.netdev_names) if rail.device else "",
        },
    )


def port_went_down(where: Where, state: str) -> Finding | None:
    """PORT-NOT-ACTIVE when a port that was active before the transfers is in another ``state``.

    Whoever looks finds the same: an exchange that fails, and the check of the counters at the end.
    """
    if state == "ACTIVE":
        return None
    return Finding(
        code="PORT-NOT-ACTIVE",
        where=where,
        observed=f"state {state}; it was ACTIVE before the transfers",
        expected="state ACTIVE",
    )


def _waits_for_subnet_manager(port: Port) -> bool:
    found = (port.link_layer, port.state, port.physical_state, port.sm_lid)
    return found == ("infiniband", "INIT", "LinkUp", 0)


def readable(value: T | Unreadable, where: Where, what: str) -> T:
    """``value``, or ProbeError with the reason why ``what`` could not be read."""
    if isinstance(value, Unreadable):
        raise ProbeError(
            f"{where.text()}: {what} is unreadable: {value.unreadable}", step=f"read {what}"
        )
    return value


def judged(value: T | Unreadable, where: Where, what: str, *, promised: bool) -> T:
    """``value`` of a built-in invariant or of a promise.

    NotJudged when only the host collector could have read it, that one did not run, and the
    profile does not promise it; ProbeError for every other unreadable value.
    """
    if isinstance(value, Unreadable) and value.privilege and not promised:
        raise NotJudged(f"{what} is unreadable: {value.unreadable}")
    return readable(value, where, what)


def require_active_port(rail: Rail) -> None:
    """Blocked unless the port of the rail's device is active.

    Also when that could not be told, which is for the check of the port's state to report.
    """
    try:
        finding = port_not_active(rail)
    except ProbeError as error:
        raise Blocked(f"error in port_active[{rail.where.text()}]") from error
    block(finding)


def fail(finding: Finding | None) -> None:
    """CheckFailure with ``finding``, or nothing when there is none."""
    if finding is not None:
        raise CheckFailure(finding)


def block(finding: Finding | None) -> None:
    """Blocked by ``finding``, or nothing when there is none."""
    if finding is not None:
        raise Blocked(named(finding))


def named(finding: Finding) -> str:
    """``CODE at place``: the finding as what is blocked by it names it."""
    return f"{finding.code} at {finding.where.text()}"
