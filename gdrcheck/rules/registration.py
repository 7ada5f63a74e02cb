"""What is judged of registering GPU memory with a NIC, by what the profile promises of the method.

A method that the profile names must work, on rail pairs, or on all with ``matrix: full``. With
``registration: any`` one of the two must, and the other may be absent, but not broken. Whatever
else was tried is told and not judged. The GPU's own troubles, and a success that cannot be, count
everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from gdrcheck.facts import Facts
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.memory_rules import limited_by_memlock, memlock_code, wrong_range
from gdrcheck.outcome import Blocked, NotJudged, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import GpuNic
from gdrcheck.registration import Attempt, Growth, Method, Region
from gdrcheck.rules import gpu
from gdrcheck.rules.registration_cause import (
    Evidence,
    cause,
    standing,
    success_against,
    unsupported,
)
from gdrcheck.sizes import size_text

# As for host memory: eight times the limit that systemd gives to services.
BEYOND_DEFAULT_BYTES = 64 << 20
GIB = 1 << 30
# A range of up to 1 GiB may take this long, a larger one that long for each GiB. Our choice.
SLOW_US_PER_GIB = 1e6
# The size of the GPU's own pages: less of it, registered, proves nothing of what programs register.
# Our choice.
LEAST_PROVEN_BYTES = 2 << 20
# Times differ from one to the next; so much, by both measures, is growth. Our choice.
SLOWER_TIMES, SLOWER_BY_US = 10, 100_000
KINDS = ("whole", "interior", "first neighbour", "second neighbour")

Demand = Literal["named", "one of two"]


def demand(pair: GpuNic, method: Method, profile: Profile) -> Demand | None:
    """What the profile promises of the method for this GPU and NIC; None: nothing."""
    if not pair.on_rail and profile.matrix != "full":
        return None
    if profile.registration == "any":
        return "one of two"
    return "named" if profile.registration in (method, "both") else None


def require_memlock(pair: GpuNic, facts: Facts) -> None:
    """Blocked by what is found of the limit on locked memory, for the NIC, when that is too low."""
    if limited_by_memlock(BEYOND_DEFAULT_BYTES, facts.limits):
        raise Blocked(f"{memlock_code(facts.limits)} at {pair.rail.where.text()}")


def require_known_rail(pair: GpuNic, profile: Profile, facts: Facts) -> None:
    """Blocked when GPUs are missing or too many, so that it is unknown which are the rails'.

    NotPromised for a rail for which no GPU is left, since fewer are promised than rails.
    """
    if profile.matrix != "full" or pair.gpu_slot is None:
        gpu.require_promised_number(profile, facts)
    if pair.gpu_slot is None:
        raise NotPromised("fewer GPUs than rails are promised, and none is left for this one")


def works(attempt: Attempt, evidence: Evidence, pair: GpuNic) -> bool:
    """Whether all of the attempt worked, and what came back was right.

    ProbeError when nothing was refused, and yet too little was tried to say so.
    """
    finding = _found(attempt, evidence, pair)
    return finding is None or finding.severity is Severity.WARN


def judge_attempt(
    pair: GpuNic,
    attempt: Attempt,
    evidence: Evidence,
    profile: Profile,
    other_works: Callable[[], bool],
) -> Finding | None:
    """The finding of an attempt to register, None when it worked as promised.

    ``other_works`` says whether the other method works for the pair; it is asked only when that
    matters. NotPromised when this one is absent and the other may stand in for it, NotJudged when
    nothing is promised of it. ProbeError when nothing was refused, and yet not all was tried, or
    only sizes that prove little.
    """
    finding = _found(attempt, evidence, pair)
    if finding is not None and _counts_everywhere(finding):
        return finding
    wanted = demand(pair, attempt.method, profile)
    if wanted is None:
        raise NotJudged(f"{_reading(attempt, finding)}; {_not_promised(pair, profile)}")
    absent = standing(evidence) == "not supported"
    if wanted == "one of two" and absent and other_works():
        raise NotPromised(
            f"{attempt.method} is not supported: {unsupported(evidence)}; "
            f"{attempt.refusal.text if attempt.refusal else ''}; the other method works, and the "
            "profile demands one of them"
        )
    return finding


def refused(pair: GpuNic, evidence: Evidence, observed: str, expected: str) -> Finding:
    """The finding of a refusal: its code is the most likely cause.

    All that come into question are in its evidence, the most likely first.
    """
    codes = cause(evidence)
    found = {"candidates": ", ".join(codes)} if len(codes) > 1 else {}
    return Finding(
        code=codes[0],
        where=_place(codes[0], pair),
        observed=observed,
        expected=expected,
        evidence={**found, **evidence.around},
    )


def _found(attempt: Attempt, evidence: Evidence, pair: GpuNic) -> Finding | None:
    """What is wrong, whatever the profile says; the gravest first."""
    against, method = success_against(evidence), attempt.method
    if against is not None:
        return Finding(
            code="MR-NOT-GPU-MEMORY",
            where=pair.where,
            observed=f"{against} ({evidence.registered_bytes} bytes)",
            expected=f"{method} cannot register the GPU's memory here",
            evidence=dict(evidence.around),
        )
    for region in attempt.regions:
        asked = (region.requested_address, region.requested_bytes)
        returned = (region.address, region.length_bytes)
        finding = wrong_range(pair.where, asked, returned)
        if finding is not None:
            update = {"evidence": {"range": region.range, **evidence.around}}
            return finding.model_copy(update=update)
    wrong = _keys(attempt, evidence, pair.where)
    if wrong is not None:
        return wrong
    if attempt.refusal is not None:
        expected = f"memory of the GPU registers with the NIC by {method}"
        return refused(pair, evidence, attempt.refusal.text, expected)
    _require_whole(attempt, pair.where)
    return _leak(attempt.growth, evidence, pair.where) or _slow(attempt, evidence, pair.where)


def _keys(attempt: Attempt, evidence: Evidence, where: Where) -> Finding | None:
    """MR-WRONG-KEY when two regions that lived at the same time had a key in common."""
    first = [region for region in attempt.regions if region.range == "first neighbour"]
    second = [region for region in attempt.regions if region.range == "second neighbour"]
    for one, other in zip(first, second, strict=False):
        if one.lkey != other.lkey and one.rkey != other.rkey:
            continue
        return Finding(
            code="MR-WRONG-KEY",
            where=where,
            observed=f"lkey {one.lkey:#x} and {other.lkey:#x}, rkey {one.rkey:#x} and "
            f"{other.rkey:#x}",
            expected="each of two regions has keys of its own",
            evidence=dict(evidence.around),
        )
    return None


def _require_whole(attempt: Attempt, where: Where) -> None:
    """ProbeError unless each size and each kind of range was tried: else nothing is proven.

    Nor is it when the GPU had room for small sizes only.
    """
    step = f"register by {attempt.method}"
    if 0 < attempt.registered_bytes < LEAST_PROVEN_BYTES:
        why = f": {attempt.limited_by}" if attempt.limited_by else ""
        raise ProbeError(
            f"{where.text()}: only {size_text(attempt.registered_bytes)} could be tried{why}; free "
            "the GPU's memory and BAR1 of other users, and run the checks again",
            step=step,
        )
    made = [region.range for region in attempt.regions]
    lacking = [kind for kind in KINDS if kind not in made]
    if made.count("whole") < max(1, len(attempt.sizes_bytes)):
        lacking.append("a size")
    if attempt.growth is None:
        lacking.append("many times")
    if lacking:
        raise ProbeError(
            f"{where.text()}: nothing was refused, and yet not all was tried: {', '.join(lacking)}"
            + (f" ({attempt.limited_by})" if attempt.limited_by else ""),
            step=step,
        )


def _leak(growth: Growth | None, evidence: Evidence, where: Where) -> Finding | None:
    """MR-LEAK when registering again and again left something behind."""
    if growth is None or not growth.left:
        return None
    return Finding(
        code="MR-LEAK",
        where=where,
        observed=f"{', '.join(growth.left)} more in use after {growth.times} times",
        expected="nothing stays in use",
        evidence=dict(evidence.around),
    )


def _slow(attempt: Attempt, evidence: Evidence, where: Where) -> Finding | None:
    """MR-SLOW, a warning, when a step takes far too long, or longer each time."""
    for region in attempt.regions:
        limit_us = SLOW_US_PER_GIB * max(1, region.requested_bytes / GIB)
        for step, took_us in _times(region).items():
            if took_us > limit_us:
                observed = f"{step} of {region.requested_bytes} bytes took {took_us / 1e6:.2f} s"
                return _slow_finding(where, observed, f"at most {limit_us / 1e6:.2f} s", evidence)
    growth = attempt.growth
    if growth is None or not _grows(growth.first_us, growth.last_us):
        return None
    observed = f"{growth.last_us:.0f} us at the end of {growth.times} times"
    return _slow_finding(where, observed, f"about {growth.first_us:.0f} us as at first", evidence)


def _slow_finding(where: Where, observed: str, expected: str, evidence: Evidence) -> Finding:
    return Finding(
        code="MR-SLOW",
        where=where,
        observed=observed,
        expected=expected,
        severity=Severity.WARN,
        evidence=dict(evidence.around),
    )


def _times(region: Region) -> dict[str, float]:
    steps = {"register": region.register_us, "deregister": region.deregister_us}
    return steps if region.export_us is None else {"export": region.export_us, **steps}


def _grows(first_us: float, last_us: float) -> bool:
    return last_us > SLOWER_TIMES * first_us and last_us - first_us > SLOWER_BY_US


def _place(code: str, pair: GpuNic) -> Where:
    """The GPU alone for what is wrong with it: whatever NIC is tried, it is found once."""
    if code.startswith("GPU-"):
        return Where(node=pair.where.node, gpu=pair.where.gpu)
    return pair.where


def _counts_everywhere(finding: Finding) -> bool:
    return finding.code.startswith("GPU-") or finding.code == "MR-NOT-GPU-MEMORY"


def _reading(attempt: Attempt, finding: Finding | None) -> str:
    if finding is None:
        return f"{attempt.method} works, up to {attempt.registered_bytes} bytes"
    return f"{attempt.method}: {finding.code}: {finding.observed}"


def _not_promised(pair: GpuNic, profile: Profile) -> str:
    if not pair.on_rail and profile.matrix != "full":
        if not pair.gpu_has_rail:
            return "this GPU has no rail, and the profile promises rails only"
        return "this NIC is not the one of the GPU's rail, and the profile promises rails only"
    return f"the profile demands registration by {profile.registration}"
