"""What is judged of CUDA on a node, and of each GPU in it: it starts, opens, and keeps its memory.

Errors of the driver come in as they are (``CudaFailure``); nothing here needs a driver. A finding
of one GPU has the GPU as its place, so that whatever uses that GPU later is blocked by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gdrcheck import gates
from gdrcheck.facts import Facts, Gpu, NvidiaDriver, Nvml, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, NotJudged, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.registration import BufferKind, Proof
from gdrcheck.rules import nvidia
from gdrcheck.rules.cuda_cause import SYSTEM_NOT_READY, CudaFailure, Phase, cuda_cause
from gdrcheck.rules.driver import log_lines
from gdrcheck.rules.promises import shown

# Kinds of buffers that must be the GPU's own memory. Of the others it must be said that they are
# not.
OF_GPU: tuple[BufferKind, ...] = ("gpu", "gpu-vmm")


class CudaDevice(Protocol):
    """A device that CUDA shows: a GPU, or a slice of one."""

    @property
    def slot(self) -> str:
        """Its PCI address."""

    @property
    def uuid(self) -> str:
        """Its UUID, without a prefix."""


class CudaSurvey(Protocol):
    """The devices that CUDA counts: those that answered, and the errors of the others."""

    @property
    def gpus(self) -> Sequence[CudaDevice]:
        """Those that answered."""

    @property
    def lost(self) -> Sequence[CudaFailure]:
        """The error of each that did not."""


def start_failed(where: Where, error: CudaFailure, profile: Profile, facts: Facts) -> Finding:
    """The finding when CUDA does not start, for the node as a whole.

    Blocked when the finding about the NVSwitch fabric says the same already.
    """
    if error.name == SYSTEM_NOT_READY:
        gates.block(_fabric(profile, facts))
    expected = "CUDA starts"
    return _failed(where, error, "start", expected, _of_node(facts))


def none_seen(survey: CudaSurvey, facts: Facts, visible_devices: str | None) -> Finding | None:
    """GPU-CUDA-NONE when CUDA starts and counts no device at all.

    ``visible_devices`` is the variable CUDA_VISIBLE_DEVICES of this process, None when not set.
    """
    if survey.gpus or survey.lost:
        return None
    return Finding(
        code="GPU-CUDA-NONE",
        where=Where(node=facts.node),
        observed="CUDA starts and shows no device",
        expected="it shows the promised GPUs",
        evidence={**_of_node(facts), "CUDA_VISIBLE_DEVICES": _set(visible_devices)},
    )


def unseen(
    where: Where, slot: str, survey: CudaSurvey, facts: Facts, visible_devices: str | None
) -> Finding:
    """The finding when a GPU that is on PCI and that NVML answers for is not among CUDA's devices.

    GPU-GONE when CUDA counts a device that does not answer: it was there a moment ago. ProbeError
    when CUDA shows a MIG device: it shows one to a process, and the GPU may be in good order.
    """
    mig = [one.uuid for one in survey.gpus if one.uuid in _mig_uuids(facts)]
    if mig and not survey.lost:
        raise ProbeError(
            f"{where.text()}: CUDA shows one MIG device to a process, here {', '.join(mig)} of "
            f"{survey.gpus[0].slot}: nothing of {slot} can be measured beside it (start the "
            "container with that GPU's device only, or switch MIG off)",
            step="look for the GPU",
        )
    seen = ", ".join(f"{one.slot} ({one.uuid})" for one in survey.gpus) or "no other"
    evidence = {
        "devices that CUDA shows": seen,
        "CUDA_VISIBLE_DEVICES": _set(visible_devices),
        **_of_gpu(slot, facts),
    }
    if survey.lost:
        code, observed = "GPU-GONE", f"{slot}: {survey.lost[0]}"
        evidence["candidates"] = "GPU-GONE, GPU-CUDA-UNSEEN"
    else:
        code, observed = "GPU-CUDA-UNSEEN", f"CUDA does not show {slot}"
    return Finding(
        code=code,
        where=where,
        observed=observed,
        expected="CUDA shows the GPU that NVML shows",
        evidence=evidence,
    )


def open_failed(where: Where, error: CudaFailure, slot: str, facts: Facts) -> Finding:
    """The finding when CUDA shows the GPU and does not open it. ``where`` is the GPU."""
    return _failed(where, error, "open", "the GPU opens", _of_gpu(slot, facts))


def call_failed(where: Where, error: CudaFailure, slot: str, facts: Facts) -> Finding:
    """The finding when a call fails on a GPU that had opened. ``where`` is the GPU."""
    return _failed(where, error, "use", "the call works", _of_gpu(slot, facts))


def buffer_refused(where: Where, proof: Proof) -> Finding | None:
    """GPU-MEMORY-KIND unless the memory is of the kind that was asked for.

    Memory of the GPU must be the GPU's, and pinned or managed memory must not pass for it.
    """
    if proof.kind in OF_GPU:
        right, expected = proof.gpu_memory, "memory of this GPU that a NIC may reach"
    elif proof.kind == "pinned":
        right = proof.memory_type == "host" and not proof.gpu_memory
        expected = "host memory, not GPUDirect"
    else:
        right, expected = not proof.gpu_memory, "the driver tells it from memory of the GPU"
    if right:
        return None
    return Finding(
        code="GPU-MEMORY-KIND",
        where=where,
        observed=proof.text(),
        expected=f"{proof.kind}: {expected}",
        evidence={
            "range": f"{proof.range_bytes} bytes, asked for {proof.length_bytes}",
            "device": f"{proof.ordinal}, expected {proof.expected_ordinal}",
        },
    )


def of_node_only(error: CudaFailure, phase: Phase) -> bool:
    """Whether ``error`` is about the node as a whole: all its GPUs have the same driver."""
    return cuda_cause(error.name, phase)[0] in (
        "GPU-CUDA-DRIVER-OLD",
        "GPU-CUDA-FABRIC",
        "GPU-CUDA-MISMATCH",
    )


def _failed(
    where: Where, error: CudaFailure, phase: Phase, expected: str, evidence: dict[str, str]
) -> Finding:
    codes = cuda_cause(error.name, phase)
    found = {"CUDA error": f"{error.name} ({error.number})", "call": error.function}
    if len(codes) > 1:
        found["candidates"] = ", ".join(codes)
    place = Where(node=where.node) if of_node_only(error, phase) else where
    return Finding(
        code=codes[0],
        where=place,
        observed=str(error),
        expected=expected,
        evidence={**found, **evidence},
    )


def _fabric(profile: Profile, facts: Facts) -> Finding | None:
    """What is found of the NVSwitch fabric by the check that owns it; None where it finds nothing.

    Nothing either where it could not tell: then CUDA's error is the only word there is.
    """
    try:
        return nvidia.fabric_manager(profile, facts)
    except (NotJudged, NotPromised, Blocked, ProbeError):
        return None


def _of_node(facts: Facts) -> dict[str, str]:
    driver, gpus = facts.nvidia, facts.nvml.gpus if isinstance(facts.nvml, Nvml) else ()
    evidence = {"GPUs that NVML shows": shown(tuple(gpu.slot for gpu in gpus))}
    if isinstance(driver, NvidiaDriver):
        evidence["driver"] = f"{shown(driver.version)}, CUDA {shown(driver.cuda)}"
        evidence["NVSwitches"] = shown(driver.nvswitches)
    units = facts.host.units
    if not isinstance(units, Unreadable) and nvidia.FABRIC_MANAGER in units:
        evidence[nvidia.FABRIC_MANAGER] = units[nvidia.FABRIC_MANAGER]
    states = {gpu.slot: gpu.fabric_state for gpu in gpus if gpu.fabric_state is not None}
    if states:
        evidence["fabric"] = ", ".join(f"{slot} {shown(state)}" for slot, state in states.items())
    names = facts.host.loaded_modules
    if not isinstance(names, Unreadable):
        evidence["module nvidia_uvm"] = "loaded" if "nvidia_uvm" in names else "not loaded"
    if lines := log_lines(facts, "NVRM:"):
        evidence["kernel log"] = lines[-1]
    return evidence


def _of_gpu(slot: str, facts: Facts) -> dict[str, str]:
    """What NVML and the kernel said of the GPU before the checks began."""
    gpu = facts.nvml.gpu(slot) if isinstance(facts.nvml, Nvml) else None
    evidence = {"GPU": slot}
    if gpu is not None:
        evidence |= _by_nvml(gpu)
    # Xid lines name the bus and the device, not the function.
    if lines := log_lines(facts, slot.rpartition(".")[0]):
        evidence["kernel log, before the checks"] = lines[-1]
    return evidence


def _by_nvml(gpu: Gpu) -> dict[str, str]:
    devices, processes = gpu.mig_devices, gpu.processes
    return {
        "UUID": shown(gpu.uuid),
        "compute mode": shown(gpu.compute_mode),
        "MIG": shown(gpu.mig),
        "MIG devices": devices.unreadable
        if isinstance(devices, Unreadable)
        else shown(tuple(one.uuid for one in devices)),
        "memory": f"{shown(gpu.memory_total_bytes)} bytes",
        "processes": processes.unreadable
        if isinstance(processes, Unreadable)
        else shown(tuple(f"{one.pid} ({shown(one.used_bytes)} bytes)" for one in processes)),
    }


def _mig_uuids(facts: Facts) -> set[str]:
    """Those of every MIG device of the node, as CUDA writes them: without a prefix."""
    gpus = facts.nvml.gpus if isinstance(facts.nvml, Nvml) else ()
    slices = [gpu.mig_devices for gpu in gpus if not isinstance(gpu.mig_devices, Unreadable)]
    return {one.uuid.removeprefix("MIG-").lower() for some in slices for one in some}


def _set(variable: str | None) -> str:
    return "not set" if variable is None else variable or "set, and empty: it hides all"
