"""What is judged of a GPU at the end of a run, against the facts from its beginning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gdrcheck import gates
from gdrcheck.facts import (
    Ecc,
    EccCounts,
    Gpu,
    GpuHealth,
    NvLink,
    Nvml,
    RetiredPages,
    RowRemap,
    Unreadable,
)
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.outcome import NotJudged, ProbeError
from gdrcheck.rules import xid
from gdrcheck.rules.gpu_health import NO_ACTION
from gdrcheck.rules.promises import shown
from gdrcheck.xids import XidSeen, XidWatch

STEP = "ask NVML after the transfers"


@dataclass(frozen=True, slots=True)
class Ends:
    """One GPU's health at the beginning of the run and at its end, and its XIDs in between."""

    where: Where
    before: GpuHealth
    after: GpuHealth
    xids: tuple[XidSeen, ...]


def gone(where: Where, slot: str, after: Nvml | Unreadable | None) -> Finding | None:
    """GPU-GONE when NVML answered for the GPU before the transfers and does not any more.

    ProbeError when NVML does not answer at all.
    """
    nvml = gates.readable(after, where, "NVML after the transfers")
    if nvml is None:
        raise ProbeError(f"{where.text()}: the driver is not seen here any more", step=STEP)
    if nvml.gpu(slot) is not None:
        return None
    others = "; ".join(f"{key}: {why}" for key, why in nvml.lost.items() if ":" not in key)
    return Finding(
        code="GPU-GONE",
        where=where,
        observed=f"{slot}: {nvml.lost.get(slot) or others or 'not listed by NVML'}",
        expected="the driver answers for the GPU, as before the transfers",
    )


def ends(where: Where, before: Gpu, after: Nvml | Unreadable | None, watch: XidWatch) -> Ends:
    """What there is to compare. ProbeError when health could not be read at one of the two times;
    the GPU must be there, as ``gone`` tells.
    """
    nvml = gates.readable(after, where, "NVML after the transfers")
    found = nvml.gpu(before.slot) if nvml is not None else None
    if found is None:
        raise ProbeError(f"{where.text()}: NVML does not answer for the GPU", step=STEP)
    return Ends(
        where,
        gates.readable(before.health, where, "health before the transfers"),
        gates.readable(found.health, where, "health after the transfers"),
        watch.of(before.slot),
    )


def grown(both: Ends, watch: XidWatch, slot: str) -> Finding | None:
    """What got worse during the run: the worst of it, with the rest as evidence.

    GPU-ECC-UNCORRECTABLE, GPU-ROW-REMAP, GPU-PAGES-RETIRED, GPU-XID, GPU-RESET-NEEDED,
    GPU-NVLINK-DOWN or GPU-NVLINK-ERRORS. ProbeError when something that the GPU has could not be
    read or was reset, and when the watcher of XIDs may have missed some; NotJudged when the driver
    lets nobody watch those of this GPU.
    """
    made = (
        _ecc_grew(both),
        _rows_failed(both),
        _pages_wait(both),
        _xids_seen(both),
        _reset_asked(both),
        _links_lost(both),
        _links_erred(both),
    )
    if found := [finding for finding in made if finding is not None]:
        return _with_others(found)
    failed = list(_untold(both))
    refused, doubt = watch.refused(slot), watch.doubt(slot)
    if doubt and not refused:
        failed.append(f"Xids were not watched: {doubt}")
    if failed:
        raise ProbeError(f"{both.where.text()}: {'; '.join(failed)}", step=STEP)
    if refused:
        raise NotJudged(f"no counted error grew; Xids cannot be watched: {refused}")
    return None


def _ecc_grew(both: Ends) -> Finding | None:
    """GPU-ECC-UNCORRECTABLE when more uncorrectable errors were counted since the driver's load."""
    before, after = (_uncorrectable(one) for one in (both.before, both.after))
    if not isinstance(before, int) or not isinstance(after, int) or after <= before:
        return None
    return _finding(
        "GPU-ECC-UNCORRECTABLE",
        both,
        observed=f"{before} -> {after} uncorrectable errors",
        expected=f"they stay {before}",
    )


def _rows_failed(both: Ends) -> Finding | None:
    """GPU-ROW-REMAP when a row waits for its replacement, or failed, that did not before."""
    before, after = both.before.row_remap, both.after.row_remap
    if not isinstance(before, RowRemap) or not isinstance(after, RowRemap):
        return None
    new = [
        name
        for name, was, is_ in (
            ("failed", before.failed, after.failed),
            ("pending", before.pending, after.pending),
        )
        if is_ and not was
    ]
    if not new:
        return None
    return _finding(
        "GPU-ROW-REMAP",
        both,
        observed=f"{' and '.join(new)} since the run began",
        expected="no row of memory has to be replaced",
    )


def _pages_wait(both: Ends) -> Finding | None:
    """GPU-PAGES-RETIRED when pages wait for their retirement that did not before."""
    before, after = both.before.retired_pages, both.after.retired_pages
    if not isinstance(before, RetiredPages) or not isinstance(after, RetiredPages):
        return None
    if before.pending or not after.pending:
        return None
    return _finding(
        "GPU-PAGES-RETIRED",
        both,
        observed="pending since the run began",
        expected="no page of memory has to be retired",
    )


def _reset_asked(both: Ends) -> Finding | None:
    """GPU-RESET-NEEDED when the driver asks for an action that it did not ask for before.

    Of that alone comes an XID that is a mere notice (154).
    """
    before, after = both.before.recovery_action, both.after.recovery_action
    if not isinstance(before, str) or not isinstance(after, str) or after in (before, NO_ACTION):
        return None
    return _finding("GPU-RESET-NEEDED", both, observed=f"{before} -> {after}", expected=NO_ACTION)


def _xids_seen(both: Ends) -> Finding | None:
    """GPU-XID for every XID during the run but those that are mere notices."""
    bad = [one for one in both.xids if xid.of(one.xid).kind != "info"]
    if not bad:
        return None
    numbers = dict.fromkeys(one.xid for one in bad)
    return _finding(
        "GPU-XID",
        both,
        observed=", ".join(
            f"Xid {xid.of(number).text()}: {xid.of(number).meaning}" for number in numbers
        ),
        expected="no Xid during the run but notices",
    )


def _links_lost(both: Ends) -> Finding | None:
    """GPU-NVLINK-DOWN when an NVLink went down that was up before."""
    lost = [
        str(before.number)
        for before, after in _links(both)
        if before.active is True and (after is None or after.active is False)
    ]
    if not lost:
        return None
    return _finding(
        "GPU-NVLINK-DOWN",
        both,
        observed=f"NVLink {', '.join(lost)} went down during the run",
        expected="the NVLinks that were up stay up",
    )


def _links_erred(both: Ends) -> Finding | None:
    """GPU-NVLINK-ERRORS when recoveries were counted, and, a warning, when replays alone were."""
    recoveries = _growth(both, "recovery_errors")
    replays = _growth(both, "replay_errors")
    if not recoveries and not replays:
        return None
    counts = [
        f"NVLink {number}: {what} +{count}"
        for what, found in (("recoveries", recoveries), ("replays", replays))
        for number, count in found.items()
    ]
    finding = _finding(
        "GPU-NVLINK-ERRORS", both, observed=", ".join(counts), expected="no growth of any of them"
    )
    severity = Severity.FAIL if recoveries else Severity.WARN
    return finding.model_copy(update={"severity": severity})


def told(both: Ends, watch: XidWatch, slot: str) -> dict[str, str]:
    """What was compared, for people: by name."""
    before, after = both.before, both.after
    since = f"{watch.begun.time:%Y-%m-%dT%H:%M:%SZ}" if watch.begun else "never"
    why = watch.doubt(slot)
    links = [] if isinstance(after.nvlinks, Unreadable) else list(after.nvlinks)
    return {
        "volatile uncorrectable ECC errors": _move(_uncorrectable(before), _uncorrectable(after)),
        "volatile correctable ECC errors": _move(_correctable(before), _correctable(after)),
        "NVLinks up": f"{sum(link.active is True for link in links)} of {len(links)}",
        "PCIe replays": _move(before.pcie.replays, after.pcie.replays),
        "Xids": _listed(both.xids) or "none",
        "Xids watched": f"not: {why}" if why else f"since {since}",
    }


def _listed(xids: tuple[XidSeen, ...]) -> str:
    return ", ".join(f"{one.time:%H:%M:%S} {xid.of(one.xid).text()}" for one in xids)


def _finding(code: str, both: Ends, *, observed: str, expected: str) -> Finding:
    evidence = {"Xids during the run": _listed(both.xids)} if both.xids else {}
    return Finding(
        code=code, where=both.where, observed=observed, expected=expected, evidence=evidence
    )


def _with_others(found: list[Finding]) -> Finding:
    """The first that fails, or, of warnings alone, the first."""
    first = next((one for one in found if one.severity is Severity.FAIL), found[0])
    more = {one.code: f"{one.observed}, expected {one.expected}" for one in found if one != first}
    return first.model_copy(update={"evidence": first.evidence | more})


def _counts(health: GpuHealth) -> EccCounts | Unreadable | None:
    return health.ecc.volatile if isinstance(health.ecc, Ecc) else health.ecc


def _uncorrectable(health: GpuHealth) -> int | Unreadable | None:
    counts = _counts(health)
    return counts.uncorrectable if isinstance(counts, EccCounts) else counts


def _correctable(health: GpuHealth) -> int | Unreadable | None:
    counts = _counts(health)
    return counts.correctable if isinstance(counts, EccCounts) else counts


def _links(both: Ends) -> Iterator[tuple[NvLink, NvLink | None]]:
    """Each link of before, with what it is after; nothing when they could not be listed."""
    before, after = both.before.nvlinks, both.after.nvlinks
    if isinstance(before, Unreadable) or isinstance(after, Unreadable):
        return
    by_number = {link.number: link for link in after}
    for link in before:
        yield link, by_number.get(link.number)


def _growth(both: Ends, name: str) -> dict[int, int]:
    """By how much the counter grew, by the number of the link; those that stood are left out."""
    found = {}
    for before, after in _links(both):
        was, now = getattr(before, name), getattr(after, name, None)
        if isinstance(was, int) and isinstance(now, int) and now > was:
            found[before.number] = now - was
    return found


def _untold(both: Ends) -> Iterator[str]:
    """Why what the GPU has does not tell whether it got worse."""
    before, after = both.before, both.after
    yield from _unsure(
        "volatile uncorrectable ECC errors", _uncorrectable(before), _uncorrectable(after)
    )
    for name in ("row_remap", "retired_pages", "recovery_action", "nvlinks"):
        for health in (before, after):
            value = getattr(health, name)
            if isinstance(value, Unreadable):
                yield f"{name} is unreadable: {value.unreadable}"
    for was, now in _links(both):
        if now is None or was.active is False:
            continue
        for name in ("recovery_errors", "replay_errors"):
            what = f"{name} of NVLink {was.number}"
            yield from _unsure(what, getattr(was, name), getattr(now, name))
        for active in (was.active, now.active):
            if isinstance(active, Unreadable):
                yield f"state of NVLink {was.number} is unreadable: {active.unreadable}"


def _unsure(what: str, before: object, after: object) -> Iterator[str]:
    for value in (before, after):
        if isinstance(value, Unreadable):
            yield f"{what}: unreadable: {value.unreadable}"
    if isinstance(before, int) and isinstance(after, int) and after < before:
        yield f"{what}: reset during the run, {before} -> {after}"
    if (before is None) is not (after is None):
        yield f"{what}: told at one of the two times only"


def _move(before: int | Unreadable | None, after: int | Unreadable | None) -> str:
    return f"{shown(before)} -> {shown(after)}"
