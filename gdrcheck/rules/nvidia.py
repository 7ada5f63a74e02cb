"""What is judged of NVIDIA's driver, as far as it concerns the node as a whole."""

from __future__ import annotations

from gdrcheck import gates
from gdrcheck.facts import Facts, NvidiaDriver, Nvml, PciTree, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, NotJudged, NotPromised
from gdrcheck.profile import Profile
from gdrcheck.rules.driver import log_lines
from gdrcheck.rules.promises import differs, shown

FABRIC_MANAGER = "nvidia-fabricmanager.service"
FABRIC_COMPLETED = "completed"
# States of a unit that is as good as none: nothing runs, and nothing tried to.
ABSENT = ("not-found", "inactive", "masked")


def nvidia_missing(profile: Profile, facts: Facts) -> Finding | None:
    """DRV-NVIDIA-MISSING when the profile promises GPUs and NVIDIA's driver is not loaded.

    NotPromised when it promises none, and nothing about them either. Blocked without any GPU on
    PCI: the driver does not stay loaded then.
    """
    _require_promise(profile)
    if facts.nvidia is not None:
        return None
    if isinstance(facts.pci, PciTree) and not facts.pci.nvidia_gpus:
        raise Blocked(f"GPU-MISSING at {Where(node=facts.node, gpu='gpu0').text()}")
    gpus = () if isinstance(facts.pci, Unreadable) else facts.pci.nvidia_gpus
    module = facts.host.module("nvidia")
    on_disk = shown(module.path) if module and not isinstance(module, Unreadable) else "not read"
    evidence = {
        "GPUs on PCI": shown(tuple(gpu.slot for gpu in gpus)),
        "drivers of the GPUs": shown(tuple(gpu.driver or "none" for gpu in gpus)),
        "file on the host": on_disk,
    }
    if lines := log_lines(facts, "NVRM:", "nvidia:"):
        evidence["kernel log"] = lines[-1]
    return Finding(
        code="DRV-NVIDIA-MISSING",
        where=Where(node=facts.node),
        observed="NVIDIA's driver is not loaded",
        expected="it is loaded",
        evidence=evidence,
    )


def driver_of(profile: Profile, facts: Facts) -> NvidiaDriver:
    """NVIDIA's driver. NotPromised without GPUs, Blocked when it is missing, else ProbeError."""
    _require_promise(profile)
    where = Where(node=facts.node)
    gates.block(nvidia_missing(profile, facts))
    driver = facts.nvidia or Unreadable(unreadable="not loaded")
    return gates.readable(driver, where, "NVIDIA's driver")


def version_differs(profile: Profile, facts: Facts) -> Finding | None:
    """DRV-NVIDIA-VERSION unless the driver is of the promised version."""
    return differs(
        driver_of(profile, facts).version,
        profile.expect.driver,
        code="DRV-NVIDIA-VERSION",
        where=Where(node=facts.node),
        what="NVIDIA driver",
    )


def kind_differs(profile: Profile, facts: Facts) -> Finding | None:
    """DRV-NVIDIA-PROPRIETARY unless the kernel module is open, or not, as promised."""
    driver, promised = driver_of(profile, facts), profile.expect.open_module
    if promised is None:
        raise NotJudged(f"open kernel module: {shown(driver.open_module)}; not promised")
    where = Where(node=facts.node)
    observed = gates.readable(driver.open_module, where, "kind of NVIDIA's kernel module")
    if observed is promised:
        return None
    kinds = {True: "open kernel module", False: "proprietary kernel module"}
    return Finding(
        code="DRV-NVIDIA-PROPRIETARY",
        where=where,
        observed=kinds[observed],
        expected=kinds[promised],
        evidence={"driver": shown(driver.version)},
    )


def cuda_old(profile: Profile, facts: Facts) -> Finding | None:
    """DRV-CUDA-OLD unless the driver supports the promised version of CUDA, or a newer one."""
    driver, promised = driver_of(profile, facts), profile.expect.cuda
    where = Where(node=facts.node)
    if promised is None:
        raise NotJudged(f"CUDA of the driver is {shown(driver.cuda)}; the profile promises none")
    _need_nvml(facts)
    observed = gates.readable(driver.cuda, where, "CUDA version of the driver")
    if version(observed) >= version(promised):
        return None
    return Finding(
        code="DRV-CUDA-OLD",
        where=where,
        observed=f"CUDA {observed}",
        expected=f"CUDA {promised} or newer",
        evidence={"driver": shown(driver.version)},
    )


def version(text: str) -> tuple[int, ...]:
    """``12.8`` as numbers; what is no number counts as 0."""
    return tuple(int(part) if part.isdecimal() else 0 for part in text.split("."))


def fabric_manager(profile: Profile, facts: Facts) -> Finding | None:
    """DRV-FABRIC-MANAGER when an NVSwitch fabric is not complete, or the service not as promised.

    NotPromised on a machine without NVSwitch fabric; NotJudged when nothing tells. The state that
    the driver gives decides: the service may run elsewhere, for all nodes of a rack.
    """
    driver, where = driver_of(profile, facts), Where(node=facts.node)
    promised = profile.expect.fabric_manager
    if promised is not None:
        unit = gates.readable(_unit(facts), where, f"state of {FABRIC_MANAGER}")
        if unit not in (ABSENT if promised == "absent" else ("active",)):
            return _fabric(facts, f"{FABRIC_MANAGER} is {unit}", f"it is {promised}")
    states = _fabric_states(facts)
    if states:
        wrong = {gpu: state for gpu, state in states.items() if state != FABRIC_COMPLETED}
        observed = ", ".join(f"{gpu} {state}" for gpu, state in wrong.items())
        return _fabric(facts, observed, f"every GPU {FABRIC_COMPLETED}") if wrong else None
    if promised is not None:
        return None
    # Where the switches are read from, too.
    gates.pci_tree(facts)
    switches = gates.readable(driver.nvswitches, where, "list of NVSwitches")
    if not switches:
        _need_nvml(facts)
        raise NotPromised("this machine shows no NVSwitch fabric, and the profile promises none")
    unit = gates.judged(_unit(facts), where, f"state of {FABRIC_MANAGER}", promised=False)
    if unit == "active":
        return None
    return _fabric(facts, f"{FABRIC_MANAGER} is {unit}", "it is active")


def _require_promise(profile: Profile) -> None:
    count = profile.gpus.count if profile.gpus else len(profile.expect.about_gpus())
    if not count:
        raise NotPromised("the profile promises no GPUs")


def _fabric_states(facts: Facts) -> dict[str, str]:
    """Slot → state, of the GPUs to which a fabric applies."""
    gpus = facts.nvml.gpus if isinstance(facts.nvml, Nvml) else ()
    states = {}
    for gpu in gpus:
        state = gates.readable(
            gpu.fabric_state, Where(node=facts.node), f"fabric state of {gpu.slot}"
        )
        if state is not None:
            states[gpu.slot] = state
    return states


def _unit(facts: Facts) -> str | Unreadable:
    units = facts.host.units
    return units if isinstance(units, Unreadable) else units.get(FABRIC_MANAGER, "not-found")


def _fabric(facts: Facts, observed: str, expected: str) -> Finding:
    driver = facts.nvidia
    switches = driver.nvswitches if isinstance(driver, NvidiaDriver) else None
    evidence = {"NVSwitches": shown(switches), FABRIC_MANAGER: shown(_unit(facts))}
    if lines := log_lines(facts, "abric"):
        evidence["kernel log"] = lines[-1]
    return Finding(
        code="DRV-FABRIC-MANAGER",
        where=Where(node=facts.node),
        observed=observed,
        expected=expected,
        evidence=evidence,
    )


def _need_nvml(facts: Facts) -> None:
    if not isinstance(facts.nvml, Nvml):
        raise Blocked(f"GPU-NVML-FAILED at {Where(node=facts.node).text()}")
