"""What the cases about a GPU's health show beside their outcome: properties, name and value. Pure.

Nothing here judges, and nothing raises: what could not be read is shown as that.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdrcheck.facts import Ecc, Facts, Gpu, GpuHealth, LogLine, Unreadable
from gdrcheck.rules import nvlink
from gdrcheck.rules.gpu_health import kernel_log_gaps, xids_of
from gdrcheck.rules.promises import shown
from gdrcheck.rules.xid import TOPIC, unreadable_lines

Properties = list[tuple[str, str]]


def ecc(gpu: Gpu) -> Properties:
    """Mode and counts of ECC."""
    health = gpu.health
    if isinstance(health, Unreadable):
        return []
    if not isinstance(health.ecc, Ecc):
        return [("ECC", shown(health.ecc))]
    return [
        ("ECC", health.ecc.mode),
        ("ECC after the next reset", health.ecc.pending),
        ("corrected", shown(health.ecc.volatile.correctable)),
        ("uncorrectable", shown(health.ecc.volatile.uncorrectable)),
        ("corrected, for ever", shown(health.ecc.aggregate.correctable)),
        ("uncorrectable, for ever", shown(health.ecc.aggregate.uncorrectable)),
        ("SRAM beyond its threshold", shown(health.ecc.sram_threshold_exceeded)),
    ]


def memory_repair(gpu: Gpu) -> Properties:
    """Remapped rows and retired pages."""
    health = gpu.health
    if isinstance(health, Unreadable):
        return []
    found: Properties = []
    for name, value in (("rows", health.row_remap), ("pages", health.retired_pages)):
        if value is None or isinstance(value, Unreadable):
            found.append((name, shown(value)))
        else:
            found += [(f"{name}: {key}", shown(part)) for key, part in value]
    return found


def xids(gpu: Gpu, facts: Facts) -> Properties:
    """The Xids of the GPU before this run, each number once; lines that name no GPU or number."""
    lines: dict[str, list[LogLine]] = {}
    for one in xids_of(gpu, facts):
        lines.setdefault(f"Xid {one.xid.text()}, before this run", []).append(one.line)
    if not isinstance(facts.host.kernel_log, Unreadable):
        for line in unreadable_lines(facts.host.kernel_log):
            lines.setdefault("Xid of a GPU that is not told", []).append(line)
    gaps = kernel_log_gaps(facts, TOPIC)
    return [
        *((name, _told(of_name)) for name, of_name in lines.items()),
        *((("kernel log", "; ".join(gaps)),) if gaps else ()),
    ]


def _told(lines: Sequence[LogLine]) -> str:
    last = lines[-1]
    times = f"{len(lines)} times, the last " if len(lines) > 1 else ""
    return f"{times}{last.seconds_since_boot:.0f} s after the start: {last.text}"


def settings(gpu: Gpu) -> Properties:
    """Compute mode, persistence, and the limits of power."""
    health = gpu.health
    mode = [("compute mode", shown(gpu.compute_mode))]
    if isinstance(health, Unreadable):
        return mode
    return [
        *mode,
        ("persistence", shown(health.persistence)),
        ("power limit, W", shown(health.power.limit_w)),
        ("default power limit, W", shown(health.power.default_w)),
        ("highest power limit, W", shown(health.power.max_w)),
    ]


def firmware(gpu: Gpu) -> Properties:
    """VBIOS, part of the board, firmware of the GPU's system processor."""
    health = gpu.health
    if isinstance(health, Unreadable):
        return []
    return [
        ("VBIOS", shown(health.vbios)),
        ("board part", shown(health.board_part)),
        ("GSP firmware", shown(health.gsp_firmware)),
    ]


def nvlinks(gpu: Gpu) -> Properties:
    """The state of each NVLink, what is at its other end, and its errors that are not zero."""
    health = gpu.health
    if not isinstance(health, GpuHealth) or isinstance(health.nvlinks, Unreadable):
        return []
    return [(f"NVLink {link.number}", nvlink.told(link)) for link in health.nvlinks]


def sxids(facts: Facts) -> Properties:
    """The lines of the kernel log about NVSwitches before this run, each number of each once."""
    lines: dict[str, list[LogLine]] = {}
    for line in nvlink.sxids(facts):
        lines.setdefault(f"SXid {nvlink.number_of(line)}, before this run", []).append(line)
    return [(name, _told(of_name)) for name, of_name in lines.items()]
