"""What is judged of a GPU while data is copied to it: an idle one lowers link and clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gdrcheck import gates, topology
from gdrcheck.expect import LINK_SPEEDS_GTS
from gdrcheck.facts import Facts, Link, Unreadable
from gdrcheck.facts.gpu_health import Clocks, PcieLink
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.gpu_load import GpuGone, Load
from gdrcheck.outcome import Blocked, NotJudged, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rules import pci_links
from gdrcheck.rules.promises import shown

# nvml.h, nvmlClocksEventReason*: those with which a GPU is not what was bought.
THROTTLED = {
    "hw_slowdown": "the hardware halves the clocks or more: heat, power brake or too high a draw",
    "hw_thermal": "too hot: the hardware halves the clocks or more",
    "hw_power_brake": "the system asserts the power brake: the hardware halves the clocks or more",
    "sw_thermal": "too hot: the driver lowers the clocks",
}
# Those that a sound GPU may have.
HARMLESS = {
    "idle": "nothing runs that needs higher clocks",
    "applications_clocks": "the clocks are those that the owner has set",
    "sw_power_cap": "the draw has reached the power limit",
    "sync_boost": "the clocks are held together with those of other GPUs",
    "display_clocks": "a display limits the clocks",
}
# Packets that a sound link sends again: a few when its speed changes, and, beyond, one bit in
# 1e11 that arrives wrong, ten times as many as PCI Express allows (base specification, 8.4).
FREE_REPLAYS, REPLAYS_PER_BIT = 3, 1e-11


def wrong(where: Where, slot: str, load: Load, profile: Profile, facts: Facts) -> Finding | None:
    """GPU-THROTTLED, PCI-LINK-WIDTH, PCI-LINK-SPEED or GPU-PCIE-REPLAYS, the first that applies.

    The others are its evidence. Blocked when the link was found too narrow or too slow before;
    ProbeError when something does not tell, NotJudged when this GPU has no such thing.
    """
    if not load.copied_bytes:
        raise ProbeError(f"{where.text()}: nothing was copied", step="copy to the GPU")
    links = _links(where, load, profile, _above(slot, facts))
    made = (_throttled(where, load), *links, _replays_grew(where, load))
    found = [finding for finding in made if finding is not None]
    known = set(_found_before(where, slot, profile, facts))
    new = [finding for finding in found if finding.code not in known]
    if new:
        return _with_others(new)
    if found:
        gates.block(found[0])
    _require_told(where, load)
    return None


def gone(where: Where, error: GpuGone) -> Finding:
    """GPU-GONE: NVML lost the GPU while data was copied to it."""
    return Finding(
        code="GPU-GONE",
        where=where,
        observed=str(error),
        expected="the driver answers for the GPU while data is copied to it",
    )


def _throttled(where: Where, load: Load) -> Finding | None:
    """GPU-THROTTLED when the clocks are held down, in both of the last two readings.

    One alone may be of a change of clocks, which hw_slowdown is reported with (nvml.h).
    """
    sets = [
        set() if one is None or isinstance(one, Unreadable) else set(one)
        for one in (now.clock_limits for now in load.under_load[-2:])
    ]
    held = [name for name in THROTTLED if all(name in names for names in sets)]
    if not held:
        return None
    return Finding(
        code="GPU-THROTTLED",
        where=where,
        observed=", ".join(f"{name} ({THROTTLED[name]})" for name in held),
        expected="nothing but load and power limit holds the clocks",
        evidence=told(load),
    )


def _replays_grew(where: Where, load: Load) -> Finding | None:
    """GPU-PCIE-REPLAYS, a warning, when more packets were repeated than on a sound link."""
    grown = _replays(load)
    allowed = FREE_REPLAYS + REPLAYS_PER_BIT * 8 * load.copied_bytes
    if grown is None or grown <= allowed:
        return None
    return Finding(
        code="GPU-PCIE-REPLAYS",
        where=where,
        observed=f"{grown} replays while {_gigabytes(load.copied_bytes)} were copied",
        expected=f"at most {allowed:.1f}",
        severity=Severity.WARN,
        evidence=told(load),
    )


def told(load: Load) -> dict[str, str]:
    """What was seen under load, for people: by name."""
    now, rate = load.last, load.copied_bytes / load.took_s / 1e9 if load.took_s else 0.0
    link, power, heat = now.pcie, now.power, now.temperature
    before = shown(load.idle.pcie.replays)
    return {
        "PCIe link": f"generation {shown(link.generation)} of {shown(link.max_generation)}, "
        f"width {shown(link.width)} of {shown(link.max_width)}; idle: generation "
        f"{shown(load.idle.pcie.generation)}",
        "copied": f"{_gigabytes(load.copied_bytes)} in {load.took_s:.2f} s, {rate:.1f} GB/s",
        "PCIe replays": f"{before} before the copy, {shown(link.replays)} during it",
        "clocks": _clocks(now.clocks),
        "clock limits": _limits(now.clock_limits),
        "power": f"{shown(power.draw_w)} W of {shown(power.limit_w)} W",
        "temperature": f"GPU {shown(heat.gpu_c)}, memory {shown(heat.memory_c)}, "
        f"slows down at {shown(heat.slowdown_c)} (degrees Celsius)",
    }


def _links(
    where: Where, load: Load, profile: Profile, port: Link | None
) -> Iterator[Finding | None]:
    link, promised = load.last.pcie, profile.expect.gpu_link
    lanes, generation = _of_port(port, link)
    width = promised.width if promised else None
    most = _least(link.max_width, lanes)
    yield _low(where, load, pci_links.WIDTH.code, link.width, most, width, "x{}".format)
    speed = promised.speed_gts if promised else None
    yield _low(
        where,
        load,
        pci_links.SPEED.code,
        link.generation,
        _least(link.max_generation, generation),
        _number_of(speed),
        _generation,
    )


def _above(slot: str, facts: Facts) -> Link | None:
    """What the port above the GPU says of its link; None when PCI shows none."""
    if isinstance(facts.pci, Unreadable):
        return None
    way = topology.path_up(facts.pci, slot)
    return way[1].link if len(way) > 1 else None


def _of_port(port: Link | None, link: PcieLink) -> tuple[int | None, int | None]:
    """The most lanes and the highest generation of the port above, as far as it tells.

    None of both from a port that cannot do what the link does: an emulator made it up.
    """
    if port is None or isinstance(port.max_width, Unreadable):
        return None, None
    lanes, generation = port.max_width, _number_of(port.max_gts)
    for value, most in ((link.width, lanes), (link.generation, generation)):
        if isinstance(value, int) and most is not None and value > most:
            return None, None
    return lanes, generation


def _least(most: int | Unreadable | None, port: int | None) -> int | Unreadable | None:
    """The most by NVML, which may be that of the GPU alone, or of the port above it, if less."""
    return min(most, port) if isinstance(most, int) and port is not None else most


def _number_of(gts: float | Unreadable | None) -> int | None:
    """The generation of this speed; None for none, and for one that PCI Express does not have."""
    known = isinstance(gts, int | float) and gts in LINK_SPEEDS_GTS
    return LINK_SPEEDS_GTS.index(gts) + 1 if known else None


def _low(
    where: Where,
    load: Load,
    code: str,
    value: int | Unreadable | None,
    most: int | Unreadable | None,
    promised: int | None,
    text: Callable[[int], str],
) -> Finding | None:
    if not isinstance(value, int):
        return None
    able = most if isinstance(most, int) else 0
    due = max(able, promised or 0)
    if value >= due:
        return None
    can = f"GPU and system can do {text(able)}" if able else "what they can do is not told"
    return Finding(
        code=code,
        where=where,
        observed=f"{text(value)} while {_gigabytes(load.copied_bytes)} were copied",
        expected=can if due == able else f"at least {text(due)}; {can}",
        evidence=told(load),
    )


def _found_before(where: Where, slot: str, profile: Profile, facts: Facts) -> Iterator[str]:
    """The codes that the checks of the links, by sysfs, find of this GPU."""
    for rule in (pci_links.width_of_gpu, pci_links.speed_of_gpu):
        try:
            finding = rule(where, slot, profile, facts)
        except (Blocked, NotJudged, NotPromised, ProbeError):
            continue
        if finding is not None:
            yield finding.code


def _with_others(found: list[Finding]) -> Finding:
    first, *others = found
    more = {other.code: f"{other.observed}, expected {other.expected}" for other in others}
    return first.model_copy(update={"evidence": first.evidence | more})


def _require_told(where: Where, load: Load) -> None:
    """ProbeError when a value of those that are judged is unreadable; NotJudged when there is none.

    Replays that nobody counts keep nothing from being judged: they are a warning only.
    """
    link = load.last.pcie
    values = {
        "PCIe generation": link.generation,
        "PCIe width": link.width,
        "greatest PCIe generation": link.max_generation,
        "greatest PCIe width": link.max_width,
        "what holds the clocks": load.last.clock_limits,
    }
    for name, value in values.items():
        gates.readable(value, where, f"{name} under load")
    if lacking := [name for name, value in values.items() if value is None]:
        raise NotJudged(f"this GPU does not tell: {', '.join(lacking)}")
    gates.readable(link.replays, where, "count of PCIe replays")
    before = gates.readable(load.idle.pcie.replays, where, "count of PCIe replays before the copy")
    if isinstance(before, int) and isinstance(link.replays, int) and link.replays < before:
        raise ProbeError(
            f"{where.text()}: the count of PCIe replays fell from {before} to {link.replays}: it "
            "was reset during the copy",
            step="compare replays",
        )


def _replays(load: Load) -> int | None:
    before, after = load.idle.pcie.replays, load.last.pcie.replays
    return after - before if isinstance(before, int) and isinstance(after, int) else None


def _generation(number: int) -> str:
    known = 1 <= number <= len(LINK_SPEEDS_GTS)
    speed = f" ({LINK_SPEEDS_GTS[number - 1]:g} GT/s)" if known else ""
    return f"generation {number}{speed}"


def _clocks(clocks: Clocks) -> str:
    return (
        f"{shown(clocks.graphics_mhz)} of {shown(clocks.max_graphics_mhz)} MHz, memory "
        f"{shown(clocks.memory_mhz)} of {shown(clocks.max_memory_mhz)} MHz"
    )


def _limits(names: tuple[str, ...] | Unreadable | None) -> str:
    if names is None or isinstance(names, Unreadable):
        return shown(names)
    meanings = THROTTLED | HARMLESS
    return ", ".join(f"{name} ({meanings.get(name, 'unknown')})" for name in names) or "none"


def _gigabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.1f} GB"
