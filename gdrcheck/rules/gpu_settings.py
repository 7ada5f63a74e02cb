"""What is judged of how a GPU is set and what firmware it runs: mostly promises. Pure.

A promise that is not made is judged by nobody: the value is a property of the case. Where a case
judges nothing else, the rule is NotJudged.
"""

from __future__ import annotations

from gdrcheck import gates
from gdrcheck.facts import Facts, Gpu, Nvml
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.outcome import NotJudged, NotPromised
from gdrcheck.profile import Profile
from gdrcheck.rules.gpu import nvml_failed
from gdrcheck.rules.gpu_health import health_of
from gdrcheck.rules.promises import differs, shown

NO_VBIOS = "this GPU tells no VBIOS"


def wrong_ecc_mode(where: Where, gpu: Gpu, profile: Profile) -> Finding | None:
    """GPU-ECC-MODE unless ECC is as promised. A GPU without ECC has it disabled."""
    promised = profile.expect.ecc
    if promised is None:
        return None
    ecc = gates.readable(health_of(where, gpu).ecc, where, "ECC of the GPU")
    if (ecc.mode if ecc else "disabled") == promised:
        return None
    return Finding(
        code="GPU-ECC-MODE",
        where=where,
        observed=ecc.mode if ecc else "this GPU has no ECC",
        expected=promised,
        evidence={"after the next reset": ecc.pending} if ecc else {},
    )


def wrong_vbios(where: Where, gpu: Gpu, profile: Profile) -> Finding | None:
    """GPU-VBIOS unless the VBIOS matches the promised pattern; NotJudged without a promise."""
    health = health_of(where, gpu)
    return differs(
        NO_VBIOS if health.vbios is None else health.vbios,
        profile.expect.vbios,
        code="GPU-VBIOS",
        where=where,
        what="VBIOS",
    )


def wrong_compute_mode(where: Where, gpu: Gpu, profile: Profile) -> Finding | None:
    """GPU-COMPUTE-MODE unless the GPU is in the promised mode."""
    promised = profile.expect.compute_mode
    if promised is None:
        return None
    mode = gates.readable(gpu.compute_mode, where, "compute mode")
    if mode == promised:
        return None
    return Finding(code="GPU-COMPUTE-MODE", where=where, observed=mode, expected=promised)


def wrong_persistence(where: Where, gpu: Gpu, profile: Profile) -> Finding | None:
    """GPU-PERSISTENCE unless it is as promised. A GPU without that mode has it off."""
    promised = profile.expect.persistence
    if promised is None:
        return None
    mode = gates.readable(health_of(where, gpu).persistence, where, "persistence mode")
    if (mode or "off") == promised:
        return None
    observed = mode or "this GPU has no persistence mode"
    return Finding(code="GPU-PERSISTENCE", where=where, observed=observed, expected=promised)


def low_power_limit(where: Where, gpu: Gpu, profile: Profile) -> Finding | None:
    """GPU-POWER-LIMIT when the limit in force is below the promised one.

    Without a promise one below what the GPU is made for is a warning, and a limit that the GPU does
    not tell is NotJudged, unless another setting of the case is promised.
    """
    power, promised_w = health_of(where, gpu).power, profile.expect.power_limit_w
    if promised_w is not None:
        found_w = gates.readable(power.limit_w, where, "power limit")
        if found_w is not None and found_w >= promised_w:
            return None
        observed = "this GPU tells no power limit" if found_w is None else f"{found_w:g} W"
        return _power_limit(where, observed, promised_w, Severity.FAIL)
    limit_w, default_w = power.limit_w, power.default_w
    if not isinstance(limit_w, float) or not isinstance(default_w, float):
        if profile.expect.compute_mode or profile.expect.persistence:
            return None
        raise NotJudged(f"power limit: {shown(limit_w)} of {shown(default_w)} W")
    if limit_w >= default_w:
        return None
    return _power_limit(where, f"{limit_w:g} W", default_w, Severity.WARN)


def _power_limit(where: Where, observed: str, least_w: float, severity: Severity) -> Finding:
    return Finding(
        code="GPU-POWER-LIMIT",
        where=where,
        observed=observed,
        expected=f"at least {least_w:g} W",
        severity=severity,
    )


def wrong_confidentiality(profile: Profile, facts: Facts) -> Finding | None:
    """GPU-CONFIDENTIAL unless confidential computing is as promised.

    A machine without that mode has it off. NotJudged without a promise, NotPromised without GPUs.
    """
    gates.block(nvml_failed(profile, facts))
    if not isinstance(facts.nvml, Nvml):
        raise NotPromised("NVML was not asked")
    where = Where(node=facts.node)
    promised, mode = profile.expect.confidential_computing, facts.nvml.confidential_computing
    if mode is None and promised is None:
        raise NotPromised("this machine has no confidential computing")
    if promised is None:
        raise NotJudged(f"confidential computing is {shown(mode)}; the profile promises none")
    found = gates.readable(mode, where, "confidential computing") or "off"
    if found == promised:
        return None
    return Finding(code="GPU-CONFIDENTIAL", where=where, observed=found, expected=promised)
