"""What is judged of the operating system: what the profile promises of it, and nothing else."""

from __future__ import annotations

from fnmatch import fnmatchcase

from gdrcheck import gates
from gdrcheck.facts import Facts
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import NotJudged, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rules.promises import differs, shown

DOMAIN_OF_MODE = {"passthrough": "identity", "translated": "DMA"}
MODE_OF_DOMAIN = {domain: mode for mode, domain in DOMAIN_OF_MODE.items()}


def os_differs(profile: Profile, facts: Facts) -> Finding | None:
    """HOST-OS unless the distribution is the promised one."""
    return differs(
        facts.host.os,
        profile.expect.os,
        code="HOST-OS",
        where=Where(node=facts.node),
        what="operating system",
    )


def kernel_differs(profile: Profile, facts: Facts) -> Finding | None:
    """HOST-KERNEL unless the running kernel is the promised one."""
    return differs(
        facts.host.kernel,
        profile.expect.kernel,
        code="HOST-KERNEL",
        where=Where(node=facts.node),
        what="kernel",
    )


def command_line_lacks(profile: Profile, facts: Facts) -> Finding | None:
    """HOST-COMMAND-LINE unless every promised word is on the kernel's command line."""
    promised, line = profile.expect.command_line, facts.host.command_line
    if not promised:
        raise NotJudged(f"kernel command line is {shown(line)}; the profile promises no word")
    where = Where(node=facts.node)
    words = gates.readable(line, where, "kernel command line").split()
    missing = [word for word in promised if not any(fnmatchcase(one, word) for one in words)]
    if not missing:
        return None
    return Finding(
        code="HOST-COMMAND-LINE",
        where=where,
        observed=f"without {' '.join(missing)}",
        expected=" ".join(promised),
        evidence={"command line": " ".join(words)},
    )


def iommu_differs(profile: Profile, facts: Facts) -> Finding | None:
    """HOST-IOMMU unless DMA addresses are translated, passed through or neither, as promised."""
    where = Where(node=facts.node)
    iommu, promised = facts.host.iommu, profile.expect.iommu
    reading = f"units {shown(iommu.units)}, domain of GPUs and NICs {shown(iommu.default_domain)}"
    if promised is None:
        raise NotJudged(f"IOMMU: {reading}; the profile promises nothing of it")
    units = gates.readable(iommu.units, where, "IOMMU units")
    domain = gates.readable(iommu.default_domain, where, "IOMMU domain") if units else None
    observed = "off" if not units else MODE_OF_DOMAIN.get(domain or "", domain or "on")
    if observed == "on" and promised != "off":
        gates.pci_tree(facts)
        raise ProbeError(f"{where.text()}: no GPU or NIC is in an IOMMU group", step="read IOMMU")
    if observed == promised:
        return None
    return Finding(
        code="HOST-IOMMU",
        where=where,
        observed=observed,
        expected=promised,
        evidence={"reading": reading, "command line": shown(facts.host.command_line)},
    )
