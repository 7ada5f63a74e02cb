"""What is judged of GPUs: they are there, the driver answers for them, they are what was bought.

A promised GPU is named by its number; its ``slot`` is that of the N-th GPU in PCI order, None when
there are fewer. What stands on a GPU that something else keeps away is Blocked by that finding.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from gdrcheck import gates
from gdrcheck.facts import Facts, Gpu, Nvml, PciFunction, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, NotJudged, NotPromised
from gdrcheck.profile import Profile
from gdrcheck.rules import driver, nvidia

MODULE = "nvidia"
XID_TOPIC = "xid"


def missing(where: Where, slot: str | None, profile: Profile, facts: Facts) -> Finding | None:
    """GPU-MISSING when PCI shows fewer of NVIDIA's GPUs than promised, so that this has no slot.

    Blocked when the PCI functions could not be read.
    """
    tree = gates.pci_tree(facts)
    if slot is not None:
        return None
    return Finding(
        code="GPU-MISSING",
        where=where,
        observed=f"{_listed(tree.nvidia_gpus)} on PCI",
        expected=_promised(profile),
        evidence={f"not placed: {name}": why for name, why in tree.misplaced.items()},
    )


def extra(profile: Profile, facts: Facts) -> Finding | None:
    """GPU-EXTRA when PCI shows more of NVIDIA's GPUs than the profile promises.

    NotPromised when the profile says nothing of GPUs; Blocked when the PCI functions could not be
    read.
    """
    if profile.gpus is None:
        raise NotPromised("the profile promises no GPUs")
    where = Where(node=facts.node)
    tree = gates.pci_tree(facts)
    if len(tree.nvidia_gpus) <= profile.gpus.count:
        return None
    return Finding(
        code="GPU-EXTRA",
        where=where,
        observed=f"{_listed(tree.nvidia_gpus)} on PCI",
        expected=_promised(profile),
    )


def require_promised_number(profile: Profile, facts: Facts) -> None:
    """Blocked by GPU-MISSING or GPU-EXTRA unless PCI shows as many GPUs as promised.

    With others their numbers have shifted, and which of them is whose says nothing.
    """
    promised = profile.gpus.count if profile.gpus else 0
    if not promised:
        return
    there = len(gates.pci_tree(facts).nvidia_gpus)
    if there < promised:
        # The place of a finding that exists: the missing ones are those with the highest numbers.
        gates.block(missing(Where(node=facts.node, gpu=f"gpu{there}"), None, profile, facts))
    gates.block(extra(profile, facts))


def nvml_failed(profile: Profile, facts: Facts) -> Finding | None:
    """GPU-NVML-FAILED when NVIDIA's driver is loaded and NVML cannot be asked.

    NotPromised when the profile promises no GPUs; Blocked when there is no driver.
    """
    if profile.gpus is None or not profile.gpus.count:
        raise NotPromised("the profile promises no GPUs")
    gates.block(nvidia.nvidia_missing(profile, facts))
    if isinstance(facts.nvml, Nvml):
        return None
    # Device nodes outlive the module that they belong to, so NVML may be asked without it.
    if driver.loaded(MODULE, facts) is False:
        gates.block(driver.module_missing(MODULE, profile, facts))
    where = Where(node=facts.node)
    why = "the driver is not seen here" if facts.nvml is None else facts.nvml.unreadable
    return Finding(code="GPU-NVML-FAILED", where=where, observed=why, expected="NVML answers")


def lost(where: Where, slot: str | None, profile: Profile, facts: Facts) -> Finding | None:
    """GPU-LOST when the GPU is on PCI, and NVML answers, but not for this one.

    Blocked when it is not on PCI, or when NVML does not answer at all.
    """
    gates.block(missing(where, slot, profile, facts))
    gates.block(nvml_failed(profile, facts))
    if _found(slot, facts) is not None:
        return None
    errors = facts.nvml.lost if isinstance(facts.nvml, Nvml) else {}
    unplaced = "; ".join(f"{key}: {why}" for key, why in errors.items() if ":" not in key)
    why = errors.get(slot or "") or unplaced or "not listed by NVML"
    return Finding(
        code="GPU-LOST",
        where=where,
        observed=f"{slot}: {why}",
        expected="the driver answers for the GPU",
        evidence=_kernel_view(slot, facts),
    )


def answering(where: Where, slot: str | None, profile: Profile, facts: Facts) -> Gpu:
    """What the driver says of a promised GPU; Blocked by the finding that keeps it away."""
    gates.block(lost(where, slot, profile, facts))
    gpu = _found(slot, facts)
    if gpu is None:
        raise Blocked(f"GPU-LOST at {where.text()}")
    return gpu


def wrong_model(where: Where, gpu: Gpu, profile: Profile) -> Finding | None:
    """GPU-MODEL unless the driver's name for the GPU matches the promised pattern."""
    name = gates.readable(gpu.model, where, "name of the GPU")
    promised = profile.gpus.model if profile.gpus else None
    if promised is None:
        raise NotJudged(f"the GPU is {name}; the profile names no model")
    if fnmatchcase(name, promised):
        return None
    return Finding(code="GPU-MODEL", where=where, observed=name, expected=promised)


def wrong_mig(where: Where, gpu: Gpu, profile: Profile) -> Finding | None:
    """GPU-MIG unless the GPU is in the promised MIG mode. One without that mode is not in it."""
    mode = gates.readable(gpu.mig, where, "MIG mode")
    observed = mode or "this GPU has no MIG mode"
    if profile.expect.mig is None:
        raise NotJudged(f"MIG mode: {observed}; the profile promises none (expect.mig)")
    if (mode or "disabled") == profile.expect.mig:
        return None
    devices = gpu.mig_devices
    names = devices.unreadable if isinstance(devices, Unreadable) else str(len(devices))
    return Finding(
        code="GPU-MIG",
        where=where,
        observed=observed,
        expected=profile.expect.mig,
        evidence={"MIG devices": names},
    )


def small_bar1(where: Where, gpu: Gpu, profile: Profile) -> Finding | None:
    """GPU-BAR1-SMALL when the GPU's BAR1 is smaller than promised.

    With no promise a BAR1 as large as the GPU's memory is right, and a smaller one is NotJudged.
    """
    bar1_bytes = gates.readable(gpu.bar1_total_bytes, where, "size of BAR1")
    promised_bytes = profile.expect.bar1_bytes
    if promised_bytes is None:
        memory_bytes = gates.readable(gpu.memory_total_bytes, where, "size of the GPU's memory")
        if bar1_bytes >= memory_bytes:
            return None
        raise NotJudged(
            f"BAR1 has {bar1_bytes} of the {memory_bytes} bytes of the GPU's memory; the profile "
            "promises no size (expect.bar1_bytes)"
        )
    if bar1_bytes >= promised_bytes:
        return None
    return Finding(
        code="GPU-BAR1-SMALL",
        where=where,
        unit="bytes",
        observed=str(bar1_bytes),
        expected=f"at least {promised_bytes}",
    )


def _found(slot: str | None, facts: Facts) -> Gpu | None:
    return facts.nvml.gpu(slot) if slot and isinstance(facts.nvml, Nvml) else None


def _kernel_view(slot: str | None, facts: Facts) -> dict[str, str]:
    """The kernel's driver for the function, and its last Xid line about it."""
    evidence = {}
    if slot and not isinstance(facts.pci, Unreadable):
        function = facts.pci.function(slot)
        evidence["kernel driver"] = (function.driver if function else None) or "none"
    if slot and not isinstance(facts.host.kernel_log, Unreadable):
        # Xid lines name the bus and the device, not the function.
        device = slot.rpartition(".")[0]
        lines = [one.text for one in facts.host.kernel_log if one.topic == XID_TOPIC]
        about = [text for text in lines if device in text.lower()]
        if about:
            evidence["last Xid"] = about[-1]
    return evidence


def _listed(gpus: tuple[PciFunction, ...]) -> str:
    slots = ", ".join(gpu.slot for gpu in gpus)
    return f"{len(gpus)} ({slots})" if gpus else "none"


def _promised(profile: Profile) -> str:
    return str(profile.gpus.count if profile.gpus else 0)
