"""What is judged of PCI beside links and settings: errors and distances."""

from __future__ import annotations

from gdrcheck import gates, topology
from gdrcheck.facts import Facts, PciFunction, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, NotJudged, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail
from gdrcheck.rules import absence, gpu, pci_path
from gdrcheck.rules.pci_path import Way


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

    Blocked without its device, or when GPUs are missing or too many, so that their numbers say
    nothing; NotPromised when there are fewer GPUs than rails and none is for this one; NotJudged,
    with the distance, when the profile promises none; ProbeError when the promised one is unknown.
    """
    absence.device_of(rail, profile, facts)
    gpu.require_promised_number(profile, facts)
    if rail.gpu_slot is None:
        raise NotPromised("fewer GPUs than rails are promised, and none is left for this one")
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
