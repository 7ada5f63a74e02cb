"""What is judged of a GPU's health, with or without a promise. Pure.

``gpu`` is what the driver says of a promised GPU, see ``rules.gpu.answering``. What this GPU does
not have is NotPromised, in words.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdrcheck import gates
from gdrcheck.facts import Facts, Gpu, GpuHealth, RetiredPages, RowRemap, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import NotJudged, NotPromised
from gdrcheck.profile import Profile
from gdrcheck.rules import xid
from gdrcheck.rules.promises import shown

# Xids that tell of an error of memory, which the counts of ECC tell as well.
MEMORY_XIDS = frozenset({48, 94, 95, 140, 171, 172})
NO_ACTION = "none"


def health_of(where: Where, gpu: Gpu) -> GpuHealth:
    """The GPU's health; ProbeError when NVML was not asked about it, or did not answer."""
    return gates.readable(gpu.health, where, "health of the GPU")


def uncorrectable(where: Where, gpu: Gpu, profile: Profile) -> Finding | None:
    """GPU-ECC-UNCORRECTABLE when memory had errors that ECC could not correct.

    Those since the driver was loaded count, and the driver's own threshold for SRAM. NotPromised
    for a GPU without ECC. With ECC off nothing is counted: NotJudged, unless that is promised.
    """
    ecc = gates.readable(health_of(where, gpu).ecc, where, "ECC of the GPU")
    if profile.expect.ecc == "disabled" and (ecc is None or ecc.mode == "disabled"):
        return None
    if ecc is None:
        raise NotPromised("this GPU has no ECC")
    if ecc.mode == "disabled":
        raise NotJudged("ECC is off: errors of the memory are not counted")
    count, beyond = ecc.volatile.uncorrectable, ecc.sram_threshold_exceeded
    counted = isinstance(count, int) and count > 0
    if not counted and beyond is not True:
        gates.readable(count, where, "count of ECC errors")
        gates.readable(beyond, where, "threshold of SRAM errors")
        if count is None:
            raise NotJudged("this GPU does not count its ECC errors")
        return None
    observed = f"{shown(count)} since the driver was loaded"
    return Finding(
        code="GPU-ECC-UNCORRECTABLE",
        where=where,
        observed=f"{observed}; SRAM is beyond its threshold" if beyond is True else observed,
        expected="no uncorrectable error, and SRAM within its threshold",
        evidence={
            "corrected": shown(ecc.volatile.correctable),
            "uncorrectable, for ever": shown(ecc.aggregate.uncorrectable),
            "corrected, for ever": shown(ecc.aggregate.correctable),
        },
    )


def memory_repair(where: Where, gpu: Gpu, profile: Profile) -> Finding | None:
    """GPU-ROW-REMAP or GPU-PAGES-RETIRED when a repair of the memory waits or failed.

    NotPromised for a GPU whose memory is not repaired in either way.
    """
    del profile
    health = health_of(where, gpu)
    remap, pages = health.row_remap, health.retired_pages
    if isinstance(remap, RowRemap) and (remap.pending or remap.failed):
        return _row_remap(where, remap)
    if isinstance(pages, RetiredPages) and pages.pending:
        return _pages_retired(where, pages)
    gates.readable(remap, where, "remapped rows")
    gates.readable(pages, where, "retired pages")
    if remap is None and pages is None:
        raise NotPromised("this GPU neither remaps rows of its memory nor retires pages")
    return None


def _row_remap(where: Where, remap: RowRemap) -> Finding:
    return Finding(
        code="GPU-ROW-REMAP",
        where=where,
        observed="a row could not be replaced" if remap.failed else "a row waits for a reset",
        expected="no replacement of a row that is pending or failed",
        evidence={
            "pending": shown(remap.pending),
            "failed": shown(remap.failed),
            "rows with corrected errors": str(remap.correctable),
            "rows with uncorrectable errors": str(remap.uncorrectable),
        },
    )


def _pages_retired(where: Where, pages: RetiredPages) -> Finding:
    return Finding(
        code="GPU-PAGES-RETIRED",
        where=where,
        observed="pages wait for the driver to be loaded anew",
        expected="no page that waits for being retired",
        evidence={
            "pages with single bit errors": str(pages.single_bit),
            "pages with double bit errors": str(pages.double_bit),
        },
    )


def reset_needed(where: Where, gpu: Gpu, profile: Profile, facts: Facts) -> Finding | None:
    """GPU-RESET-NEEDED when the driver asks for an action to bring the GPU back to order.

    Blocked by the finding that the action is to repair, about the memory or a fatal Xid;
    NotPromised when the driver does not tell of actions.
    """
    action = gates.readable(health_of(where, gpu).recovery_action, where, "recovery action")
    if action is None:
        raise NotPromised("the driver tells no recovery action of this GPU")
    if action == NO_ACTION:
        return None
    gates.block(_of_memory(where, gpu, profile))
    if fatal := fatal_xids(gpu, facts):
        gates.block(_xid(where, fatal))
    return Finding(
        code="GPU-RESET-NEEDED",
        where=where,
        observed=action,
        expected=NO_ACTION,
    )


def _of_memory(where: Where, gpu: Gpu, profile: Profile) -> Finding | None:
    """The finding about the GPU's memory, if there is one."""
    for rule in (uncorrectable, memory_repair):
        try:
            if found := rule(where, gpu, profile):
                return found
        except (NotPromised, NotJudged):
            continue
    return None


def xids_of(gpu: Gpu, facts: Facts) -> list[xid.XidLine]:
    """The lines of the kernel log about Xids of ``gpu``; none when the log was not read."""
    if isinstance(facts.host.kernel_log, Unreadable):
        return []
    # Lines name the bus and the device, not the function.
    device = gpu.slot.rpartition(".")[0]
    found = xid.lines(facts.host.kernel_log)
    return [one for one in found if one.slot.rpartition(".")[0] == device]


def fatal_xid(where: Where, gpu: Gpu, profile: Profile, facts: Facts) -> Finding | None:
    """GPU-XID when the kernel log has one of class hardware about the GPU since the start.

    NotJudged without the host collector, when the log no longer reaches back to the start, and when
    a line does not tell which GPU it is about. Blocked when it tells of errors of memory alone, and
    GPU-ECC-UNCORRECTABLE does as well.
    """
    log = gates.judged(facts.host.kernel_log, where, "kernel log", promised=False)
    fatal = fatal_xids(gpu, facts)
    if not fatal:
        if unplaced := xid.unreadable_lines(log):
            raise NotJudged(f"an Xid of a GPU that is not told: {unplaced[-1].text}")
        if gaps := kernel_log_gaps(facts, xid.TOPIC):
            raise NotJudged(f"no fatal Xid in what is left of the kernel log: {'; '.join(gaps)}")
        return None
    if {one.xid.number for one in fatal} <= MEMORY_XIDS:
        gates.block(_of_memory(where, gpu, profile))
    return _xid(where, fatal)


def fatal_xids(gpu: Gpu, facts: Facts) -> list[xid.XidLine]:
    """Those of ``xids_of`` that call for a reset or a repair."""
    return [one for one in xids_of(gpu, facts) if one.xid.kind == "hardware"]


def _xid(where: Where, fatal: Sequence[xid.XidLine]) -> Finding:
    last = {one.xid: one.line for one in fatal}
    return Finding(
        code="GPU-XID",
        where=where,
        observed="; ".join(one.text() for one in last),
        expected="no Xid of class hardware since the start of the node",
        evidence={
            f"Xid {one.number}": f"{one.meaning}; {line.seconds_since_boot:.0f} s after the "
            f"start: {line.text}"
            for one, line in last.items()
        },
    )


def kernel_log_gaps(facts: Facts, topic: str) -> list[str]:
    """What the host collector did not find of the kernel log about ``topic``."""
    if isinstance(facts.collector, Unreadable):
        return []
    complaints = (one for one in facts.collector.complaints if one.startswith("kernel_log: "))
    return [one for one in complaints if "overwritten" in one or f"about {topic} " in one]
