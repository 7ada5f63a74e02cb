"""What is judged of bytes that were written to GPU memory and looked at again, by GPU and CPU."""

from __future__ import annotations

from gdrcheck.findings.model import Finding, Where
from gdrcheck.mismatch import Mismatch, Verdict


def pattern_wrong(where: Where, verdict: Verdict, what: str) -> Finding | None:
    """GPU-VERIFIERS-DISAGREE or GPU-PATTERN-WRONG unless both verifiers found every byte right.

    ``where`` is the GPU; ``what`` says what was written, without any NIC.
    """
    if verdict.disagree:
        return disagreement(where, verdict, what)
    if verdict.right:
        return None
    return Finding(
        code="GPU-PATTERN-WRONG",
        where=where,
        observed=f"{what}: {told(verdict.by_cpu)}",
        expected="every byte as the GPU wrote it",
        evidence=evidence_of(verdict),
    )


def flip_missed(where: Where, verdict: Verdict, offset_bytes: int) -> Finding | None:
    """A finding unless both verifiers found just the one byte that was made wrong on purpose."""
    if verdict.disagree:
        return disagreement(where, verdict, f"the byte at {offset_bytes}, made wrong on purpose")
    found = verdict.by_cpu
    if found is not None and (found.first_bad_offset, found.bad_bytes) == (offset_bytes, 1):
        return None
    return Finding(
        code="GPU-PATTERN-WRONG",
        where=where,
        observed=told(found),
        expected=f"1 wrong byte at offset {offset_bytes}, which was made wrong on purpose",
        evidence=evidence_of(verdict),
    )


def disagreement(where: Where, verdict: Verdict, what: str) -> Finding:
    """GPU-VERIFIERS-DISAGREE: GPU and CPU judge the same bytes differently."""
    return Finding(
        code="GPU-VERIFIERS-DISAGREE",
        where=where,
        observed=f"{what}: by the GPU {told(verdict.by_gpu)}; by the CPU {told(verdict.by_cpu)}",
        expected="both judge the same bytes alike",
        evidence=evidence_of(verdict),
    )


def told(mismatch: Mismatch | None) -> str:
    """What a verifier found, in words."""
    if mismatch is None:
        return "every byte is right"
    return (
        f"{mismatch.bad_bytes} wrong bytes, the first at offset {mismatch.first_bad_offset}, "
        f"they look like {mismatch.origin}"
    )


def evidence_of(verdict: Verdict) -> dict[str, str]:
    """The bytes that were expected and found, as each verifier shows them."""
    evidence = {}
    for who, found in (("GPU", verdict.by_gpu), ("CPU", verdict.by_cpu)):
        if found is not None:
            evidence[f"by the {who}, expected at {found.excerpt_offset}"] = found.expected_hex
            evidence[f"by the {who}, got at {found.excerpt_offset}"] = found.got_hex
            evidence[f"by the {who}, looks like"] = found.looks_like
    return evidence
