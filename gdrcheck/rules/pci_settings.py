"""What is judged of PCI settings that the configuration space holds: ACS, ordering, sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gdrcheck import gates, topology
from gdrcheck.facts import Facts, PciFunction, PciSettings, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import NotJudged, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail
from gdrcheck.rules import gpu, pci_path
from gdrcheck.rules.pci_path import Way

T = TypeVar("T")


def acs(rail: Rail, profile: Profile, facts: Facts) -> Finding | None:
    """PCI-ACS when the bridges between the rail's GPU and NIC redirect otherwise than promised.

    Without a GPU it is about the bridges above the NIC. Blocked when GPUs are missing or too many,
    so that it is unknown which is the rail's. NotJudged, with the reading, when the profile
    promises nothing; ProbeError when what is promised cannot be read.
    """
    promised = profile.expect.acs_redirect
    words = f"acs_redirect {promised}" if promised else None
    way = pci_path.of_nic(rail, profile, facts, words)
    gpu.require_promised_number(profile, facts)
    bridges = _bridges(way, rail, facts)
    redirects = {
        bridge.slot: _redirects(bridge, rail.where, promised=promised is not None)
        for bridge in bridges
    }
    reading = _acs_reading(redirects)
    if promised is None:
        raise NotJudged(f"{reading}; the profile promises nothing")
    if not bridges:
        raise ProbeError(
            f"{rail.where.text()}: {reading}, and the profile promises {words}",
            step="read ACS",
        )
    able = [value for value in redirects.values() if value is not None]
    if not any(able) if promised == "off" else able and all(able):
        return None
    return Finding(
        code="PCI-ACS",
        where=rail.where_with_gpu,
        observed=reading,
        expected=f"ACS redirect {promised} at all of them",
        evidence={slot: _acs_word(value) for slot, value in redirects.items()},
    )


def _bridges(way: Way, rail: Rail, facts: Facts) -> tuple[PciFunction, ...]:
    if rail.gpu_slot is None or isinstance(facts.pci, Unreadable):
        return way.functions[1:]
    return topology.bridges_between(facts.pci, way.end.slot, rail.gpu_slot)


def _redirects(bridge: PciFunction, where: Where, *, promised: bool) -> bool | None:
    """Whether the bridge redirects; None when it cannot."""
    what = f"configuration space of {bridge.slot}"
    settings = gates.judged(bridge.settings, where, what, promised=promised)
    if settings is None or settings.acs is None:
        return None
    return gates.judged(settings.acs, where, what, promised=promised).redirects


def _acs_word(redirects: bool | None) -> str:
    return {True: "redirect on", False: "redirect off", None: "no ACS"}[redirects]


def _acs_reading(redirects: dict[str, bool | None]) -> str:
    if not redirects:
        return "no bridge is to be seen on the way"
    groups: dict[str, list[str]] = {}
    for slot, value in redirects.items():
        groups.setdefault(_acs_word(value), []).append(slot)
    return "; ".join(f"{word} at {', '.join(slots)}" for word, slots in groups.items())


def relaxed_ordering(rail: Rail, profile: Profile, facts: Facts) -> Finding | None:
    """PCI-RELAXED-ORDERING when the NIC's setting is not the promised one.

    NotJudged, with the reading, when the profile promises none; ProbeError when what is promised
    cannot be read. So for the two rules below.
    """
    promised = profile.expect.relaxed_ordering
    value = _setting(
        rail, profile, facts, "relaxed ordering", promised, lambda one: one.relaxed_ordering
    )
    if value == promised:
        return None
    words = {True: "enabled", False: "disabled"}
    return Finding(
        code="PCI-RELAXED-ORDERING",
        where=rail.where,
        observed=words[value],
        expected=words[not value],
    )


def payload(rail: Rail, profile: Profile, facts: Facts) -> Finding | None:
    """PCI-PAYLOAD when the NIC's maximum payload is smaller than promised."""
    promised = profile.expect.max_payload_bytes
    value = _setting(
        rail, profile, facts, "maximum payload", promised, lambda one: one.max_payload_bytes
    )
    return _too_small("PCI-PAYLOAD", rail, value, promised)


def read_request(rail: Rail, profile: Profile, facts: Facts) -> Finding | None:
    """PCI-READ-REQUEST when the NIC's maximum read request is smaller than promised."""
    promised = profile.expect.max_read_request_bytes
    value = _setting(
        rail,
        profile,
        facts,
        "maximum read request",
        promised,
        lambda one: one.max_read_request_bytes,
    )
    return _too_small("PCI-READ-REQUEST", rail, value, promised)


def _too_small(code: str, rail: Rail, value: int, promised: int | None) -> Finding | None:
    if promised is None or value >= promised:
        return None
    return Finding(
        code=code,
        where=rail.where,
        observed=f"{value}",
        expected=f"at least {promised}",
        unit="bytes",
    )


def _setting(
    rail: Rail,
    profile: Profile,
    facts: Facts,
    what: str,
    promised: T | None,
    get: Callable[[PciSettings], T],
) -> T:
    """The NIC's value, when the profile promises one."""
    words = None if promised is None else f"{what}: {promised}"
    nic = pci_path.of_nic(rail, profile, facts, words).end
    settings = gates.judged(nic.settings, rail.where, what, promised=promised is not None)
    if settings is None or _is_virtual(nic, settings):
        why = "has no PCI Express capability" if settings is None else "is a virtual function"
        text = f"{what} is not to be seen: {nic.slot} {why}"
        if promised is None:
            raise NotJudged(text)
        raise ProbeError(f"{rail.where.text()}: {text}", step=f"read {what}")
    value = get(settings)
    if promised is None:
        raise NotJudged(f"{what} is {value}; the profile promises none")
    return value


def _is_virtual(nic: PciFunction, settings: PciSettings) -> bool:
    """Whether this is a virtual function whose physical function is on another machine, the host.

    The bits of its own are reserved and read as 0 (PCI Express base specification, 9.3.5).
    """
    return settings.port_type == "endpoint" and nic.link is None
