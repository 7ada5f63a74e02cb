"""What is judged of moving bytes from and to GPU memory through the loop-back of one NIC."""

from __future__ import annotations

from gdrcheck.findings.model import Finding
from gdrcheck.mismatch import Verdict
from gdrcheck.outcome import NotJudged, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import GpuNic
from gdrcheck.registration import WAYS, Moved, Movement
from gdrcheck.rules.gpu_pattern import disagreement, evidence_of, told
from gdrcheck.rules.registration import demand, refused
from gdrcheck.rules.registration_cause import Evidence

OPERATIONS = ("WRITE", "READ")
# Statuses by which one's own NIC could not reach the memory, or what answers for it refused.
PROTECTION = ("LOC_PROT_ERR", "LOC_ACCESS_ERR", "REM_ACCESS_ERR", "REM_OP_ERR")


def judge_movement(
    pair: GpuNic, movement: Movement, evidence: Evidence, profile: Profile
) -> Finding | None:
    """The finding of transfers through the NIC, None when every byte came and stayed right.

    NotJudged, with what was found, when the profile promises nothing of the method for the pair;
    ProbeError when nothing was refused, and yet not every way was tried.
    """
    finding = _found(pair, movement, evidence)
    of_gpu = finding is not None and finding.code.startswith("GPU-")
    if demand(pair, movement.method, profile) is None and not of_gpu:
        told_of = "every byte right" if finding is None else f"{finding.code}: {finding.observed}"
        raise NotJudged(
            f"{movement.method}: {told_of}; the profile demands registration by "
            f"{profile.registration}"
        )
    return finding


def _found(pair: GpuNic, movement: Movement, evidence: Evidence) -> Finding | None:
    for moved in movement.moved:
        finding = _of_transfer(pair, moved, evidence)
        if finding is not None:
            return finding
    refusal = movement.refusal
    if refusal is not None:
        finding = refused(pair, evidence, refusal.text, "the transfer completes")
        if finding.code != "MR-MOVE-FAILED":
            return finding
        hints = _hints(movement, evidence)
        found = {"what it points to": "; ".join(hints)} if hints else {}
        return finding.model_copy(update={"evidence": {**found, **finding.evidence}})
    tried = {(moved.way, moved.operation) for moved in movement.moved}
    lacking = [f"{op}, {way}" for way in WAYS for op in OPERATIONS if (way, op) not in tried]
    if lacking:
        raise ProbeError(
            f"{pair.where.text()}: nothing was refused, and yet not all was moved: "
            + "; ".join(lacking),
            step=f"move by {movement.method}",
        )
    return None


def _of_transfer(pair: GpuNic, moved: Moved, evidence: Evidence) -> Finding | None:
    """The first thing wrong with one transfer: verifiers, bytes of it, bytes beside it."""
    what = f"{moved.operation}, {moved.way}, {moved.length_bytes} bytes"
    verdict = Verdict(by_gpu=moved.by_gpu, by_cpu=moved.by_cpu)
    around = {"transfer": what, "flush": moved.flushed, **evidence.around}
    if moved.sink_is_gpu and verdict.disagree:
        finding = disagreement(pair.where, verdict, what)
        return finding.model_copy(update={"evidence": {**finding.evidence, **around}})
    if not verdict.right:
        return Finding(
            code="MR-DATA-WRONG",
            where=pair.where,
            observed=f"{what}: {told(moved.by_cpu or moved.by_gpu)}",
            expected="every byte as it was sent",
            evidence={**evidence_of(verdict), **around},
        )
    if moved.spilled is not None:
        return Finding(
            code="MR-DATA-SPILLED",
            where=pair.where,
            observed=f"{what}: {moved.spilled}",
            expected="no byte beside the range changes",
            evidence=around,
        )
    return None


def _hints(movement: Movement, evidence: Evidence) -> list[str]:
    """What the way in which a transfer failed points to; nothing of it is proven."""
    done = {(moved.way, moved.operation) for moved in movement.moved}
    hints = []
    if movement.operation == "READ" and (movement.way, "WRITE") in done:
        hints.append(
            "WRITE works this way and READ does not: the chipset may not pass on reads between "
            "devices"
        )
    if movement.status in PROTECTION and " on" in evidence.around.get("ACS redirect", ""):
        hints.append("ACS redirects what GPU and NIC send each other: PCI-ACS")
    if movement.status in PROTECTION and "DMA" in evidence.around.get("IOMMU", ""):
        hints.append("the IOMMU translates addresses: HOST-IOMMU")
    if movement.method == "dmabuf" and not movement.moved and movement.status is not None:
        hints.append(
            "registered, and the first transfer fails: the mapping type of the dma-buf may be the "
            "wrong one for this NIC"
        )
    return hints
