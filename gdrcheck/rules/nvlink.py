"""What is judged of NVLinks and NVSwitches of a node. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gdrcheck import gates
from gdrcheck.facts import Facts, Gpu, GpuHealth, LogLine, NvLink, Nvml, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import NotJudged, NotPromised
from gdrcheck.profile import Profile
from gdrcheck.rules.gpu_health import health_of, kernel_log_gaps
from gdrcheck.rules.promises import shown
from gdrcheck.rules.xid import FATAL

SXID_TOPIC = "sxid"
# nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 28 LTSSM Fault Up
SXID = re.compile(r"SXid \((?P<device>[^)]*)\): (?P<number>\d{1,6})\b")


def links_down(where: Where, gpu: Gpu, profile: Profile, facts: Facts) -> Finding | None:
    """GPU-NVLINK-DOWN when fewer NVLinks of the GPU are up than it should have.

    That is the promised number; without one, at NVSwitches, as many as another GPU of this model
    on the node. Else NotJudged, also when all of them have the same number down, as a lost NVSwitch
    leaves them; NotPromised for a GPU without NVLinks.
    """
    promised, like = profile.expect.nvlinks, _like(gpu, facts)
    at_switches = any(link.remote == "switch" for one in like for link in one)
    links = health_of(where, gpu).nvlinks
    if isinstance(links, Unreadable) and promised is None and not at_switches:
        raise NotJudged(f"NVLinks: {shown(links)}; the profile promises none")
    links = gates.readable(links, where, "NVLinks")
    up = sum(gates.readable(link.active, where, f"NVLink {link.number}") for link in links)
    if promised is not None:
        expected, why = promised, "as the profile promises"
    elif at_switches:
        expected = max(_up(one) for one in like)
        why = "as another GPU of this model has on this node"
    elif not links:
        raise NotPromised("this GPU has no NVLinks")
    else:
        raise NotJudged(f"{up} of {len(links)} NVLinks are up; the profile promises no number")
    down = ", ".join(str(link.number) for link in links if link.active is not True)
    if up >= expected and down and promised is None:
        raise NotJudged(
            f"{up} of {len(links)} NVLinks are up, and no GPU of this model has more here; the "
            f"profile promises no number (expect.nvlinks); down: {down}"
        )
    if up >= expected:
        return None
    return Finding(
        code="GPU-NVLINK-DOWN",
        where=where,
        observed=f"{up} NVLinks are up",
        expected=f"{expected}, {why}",
        evidence={"down": down or "none that the driver lists"},
    )


def _like(gpu: Gpu, facts: Facts) -> list[tuple[NvLink, ...]]:
    """The NVLinks of each GPU of the node of this model and MIG mode, itself among them."""
    gpus = facts.nvml.gpus if isinstance(facts.nvml, Nvml) else (gpu,)
    return [
        one.health.nvlinks
        for one in gpus
        if (one.model, one.mig) == (gpu.model, gpu.mig)
        and isinstance(one.health, GpuHealth)
        and not isinstance(one.health.nvlinks, Unreadable)
    ]


def _up(links: Iterable[NvLink]) -> int:
    return sum(link.active is True for link in links)


def switch_error(profile: Profile, facts: Facts) -> Finding | None:
    """GPU-NVSWITCH-ERROR when the kernel log has a fatal SXid since the start of the node.

    NotPromised when the node has no NVSwitch of its own: in a virtual machine they are the host's.
    NotJudged without the host collector, and when the log no longer reaches back to the start.
    """
    if profile.gpus is None or not profile.gpus.count:
        raise NotPromised("the profile promises no GPUs")
    where = Where(node=facts.node)
    switches = [one.slot for one in gates.pci_tree(facts).functions if one.is_nvswitch]
    lines = sxids(facts)
    if not switches and not lines:
        raise NotPromised("PCI shows no NVSwitch")
    gates.judged(facts.host.kernel_log, where, "kernel log", promised=False)
    fatal = [line for line in lines if FATAL.search(line.text)]
    if fatal:
        return _switch_error(where, fatal)
    if gaps := kernel_log_gaps(facts, SXID_TOPIC):
        raise NotJudged(f"no fatal SXid in what is left of the kernel log: {'; '.join(gaps)}")
    return None


def _switch_error(where: Where, fatal: list[LogLine]) -> Finding:
    last = {number_of(line): line for line in fatal}
    return Finding(
        code="GPU-NVSWITCH-ERROR",
        where=where,
        observed="; ".join(last),
        expected="no fatal SXid since the start of the node",
        evidence={
            f"SXid {key}": f"{line.seconds_since_boot:.0f} s after the start: {line.text}"
            for key, line in last.items()
        },
    )


def number_of(line: LogLine) -> str:
    """``20034 of PCI:0000:c2:00.0``: which error of which NVSwitch a line is about."""
    match = SXID.search(line.text)
    return f"{match['number']} of {match['device']}" if match else "without a number"


def sxids(facts: Facts) -> list[LogLine]:
    """The lines of the kernel log about errors of NVSwitches; none when it was not read."""
    if isinstance(facts.host.kernel_log, Unreadable):
        return []
    return [line for line in facts.host.kernel_log if line.topic == SXID_TOPIC]


def told(link: NvLink) -> str:
    """``up to a switch; replay errors 3``: a link in words."""
    if link.active is not True:
        return "down" if link.active is False else shown(link.active)
    end = f"a {link.remote}" if isinstance(link.remote, str) else shown(link.remote)
    place = f" at {link.remote_slot}" if link.remote_slot else ""
    errors = (
        f"; {name} errors {shown(value)}"
        for name, value in (
            ("replay", link.replay_errors),
            ("recovery", link.recovery_errors),
            ("CRC", link.crc_errors),
        )
        if value
    )
    return f"up to {end}{place}{''.join(errors)}"
