"""What is judged of PCI beside links and settings: errors, distances, and missing drivers."""

from __future__ import annotations

from fnmatch import fnmatchcase

from gdrcheck import gates, rails, topology
from gdrcheck.facts import Facts, PciFunction, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, NotJudged, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail
from gdrcheck.rules import driver, pci_path
from gdrcheck.rules.pci_path import Way

# Drivers that hand a function to a virtual machine or to user space.
PASSED_ON = ("vfio-pci", "mlx5-vfio-pci", "uio_pci_generic", "igb_uio", "pci-stub", "xen-pciback")


def errors_of_nic(rail: Rail, profile: Profile, facts: Facts) -> Finding | None:
    """PCI-AER-UNCORRECTABLE when a function from the NIC to the root port counts such errors.

    Blocked when only those count some that are on another rail's way as well; NotJudged when none
    has counters; ProbeError when one is unreadable.
    """
    return _errors(pci_path.of_nic(rail, profile, facts))


def errors_of_gpu(where: Where, slot: str | None, profile: Profile, facts: Facts) -> Finding | None:
    """The same from the GPU to the root port; ``slot`` None: the GPU is not there."""
    return _errors(pci_path.of_gpu(where, slot, profile, facts))


def _errors(way: Way) -> Finding | None:
    counts = {
        function.slot: (function.aer_fatal, function.aer_nonfatal)
        for function in way.functions
        if function.aer_fatal is not None or function.aer_nonfatal is not None
    }
    if not counts:
        raise NotJudged("no function on the way counts uncorrectable errors")
    totals = {
        slot: sum(count for count in pair if isinstance(count, int))
        for slot, pair in counts.items()
    }
    bad = [slot for slot, total in totals.items() if total]
    own = [slot for slot in bad if slot not in way.found_at]
    if own:
        return Finding(
            code="PCI-AER-UNCORRECTABLE",
            where=way.where,
            observed=f"{sum(totals.values())} since boot, at {', '.join(bad)}",
            expected="0",
            evidence={slot: _count_text(*counts[slot]) for slot in counts},
        )
    if bad:
        raise Blocked(f"PCI-AER-UNCORRECTABLE at {way.found_at[bad[0]].text()}")
    for slot, pair in counts.items():
        for count in pair:
            gates.readable(count, way.where, f"count of uncorrectable errors of {slot}")
    return None


def _count_text(fatal: int | Unreadable | None, nonfatal: int | Unreadable | None) -> str:
    words = (one.unreadable if isinstance(one, Unreadable) else one for one in (fatal, nonfatal))
    return "fatal {}, non-fatal {}".format(*words)


def rail_distance(rail: Rail, profile: Profile, facts: Facts) -> Finding | None:
    """PCI-RAIL-DISTANCE when the rail's GPU and NIC are farther apart than promised.

    Blocked without its device or its GPU; NotPromised when there are fewer GPUs than rails and none
    is for this one; NotJudged, with the distance, when the profile promises none; ProbeError when
    the promised one is unknown.
    """
    if rail.device is None:
        raise Blocked(f"PORT-DEVICE-MISSING at {rail.where.text()}")
    gates.readable(facts.pci, rail.where_with_gpu, "PCI tree")
    _require_gpu(rail, profile, facts)
    promised, found = profile.expect.rail_distance, rail.distance
    if promised is None:
        raise NotJudged(found or "the distance is unknown")
    if found is None:
        raise ProbeError(
            f"{rail.where_with_gpu.text()}: the facts do not tell how far {rail.gpu_slot} and "
            f"{rail.nic} are apart: a bridge above one of them, or its NUMA node, is unknown",
            step="find the distance",
        )
    if topology.rank(found) <= topology.rank(promised):
        return None
    return Finding(
        code="PCI-RAIL-DISTANCE",
        where=rail.where_with_gpu,
        observed=found,
        expected=f"at most {promised}",
        evidence=_evidence_of_distance(rail, facts),
    )


def _require_gpu(rail: Rail, profile: Profile, facts: Facts) -> None:
    if rail.gpu_slot is not None:
        return
    if rail.gpu is not None:
        raise Blocked(f"GPU-MISSING at {Where(node=rail.node, gpu=rail.gpu).text()}")
    gpus = profile.gpus.count if profile.gpus else 0
    count = profile.rails.count if profile.rails else 0
    if gpus < count:
        raise NotPromised(f"{gpus} GPUs are promised for {count} rails; none is left for this one")
    # The place of a finding that exists: the missing ones are those with the highest numbers.
    there = 0 if isinstance(facts.pci, Unreadable) else len(facts.pci.nvidia_gpus)
    raise Blocked(f"GPU-MISSING at {Where(node=rail.node, gpu=f'gpu{there}').text()}")


def _evidence_of_distance(rail: Rail, facts: Facts) -> dict[str, str]:
    nic = rail.device.slot if rail.device else None
    if isinstance(facts.pci, Unreadable) or nic is None or rail.gpu_slot is None:
        return {}
    return {
        f"{what} {slot}": ", ".join(
            f"{one.slot} (NUMA node {_node_text(one)})"
            for one in topology.path_up(facts.pci, slot)[1:]
        )
        or "directly below its root bus"
        for what, slot in (("above the NIC", nic), ("above the GPU", rail.gpu_slot))
    }


def _node_text(function: PciFunction) -> str:
    node = function.numa_node
    return "unknown" if node is None or isinstance(node, Unreadable) else f"{node}"


def driver_unbound(rail: Rail, profile: Profile, facts: Facts) -> Finding | None:
    """PCI-DRIVER-UNBOUND when the rail lacks its device, and a NIC that could be it has no driver.

    Such are the NICs of Mellanox's without an RDMA device, by the slots that the selectors ask for.
    Blocked by a module that is missing, or by the missing device when there is no such NIC.
    NotJudged when one is given to a virtual machine; ProbeError when the tree is unreadable.
    """
    if rail.missing is None:
        return None
    gates.block(next(iter(driver.missing_modules(profile, facts)), None))
    idle = _idle_nics(rail, profile, facts)
    unbound = [nic for nic in idle if nic.driver is None]
    if unbound:
        return Finding(
            code="PCI-DRIVER-UNBOUND",
            where=rail.where,
            observed=f"no driver is bound to {' or '.join(nic.slot for nic in unbound)}",
            expected=f"an RDMA device for rail {rail.id}",
            evidence={nic.slot: f"{nic.vendor:04x}:{nic.device:04x}" for nic in unbound},
        )
    passed_on = [nic for nic in idle if nic.driver in PASSED_ON]
    if passed_on:
        words = ", ".join(f"{nic.slot} is bound to {nic.driver}" for nic in passed_on)
        raise NotJudged(f"{words}: it is given to a virtual machine or to user space")
    raise Blocked(f"PORT-DEVICE-MISSING at {rail.where.text()}")


def _idle_nics(rail: Rail, profile: Profile, facts: Facts) -> list[PciFunction]:
    """The NICs that serve no RDMA device and that the selectors of this rail do not rule out."""
    tree = gates.readable(facts.pci, rail.where, "PCI tree")
    devices = gates.readable(facts.rdma_devices, rail.where, "list of RDMA devices")
    serving = {device.slot for device in devices}
    return [
        function
        for function in tree.functions
        if function.is_mellanox_nic
        and function.slot not in serving
        and _may_serve(function.slot, rail, profile)
    ]


def _may_serve(slot: str, rail: Rail, profile: Profile) -> bool:
    if profile.rails is None:
        return False
    selectors = profile.rails.nics
    if rails.named_in_order(profile.rails):
        selectors = (selectors[rail.id],)
    return any(one.slot is None or fnmatchcase(slot, one.slot) for one in selectors)
