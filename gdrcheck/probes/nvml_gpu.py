"""One GPU as NVML describes it. Source: NVML API reference; nvml.h."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import pynvml

from gdrcheck.facts import Gpu, GpuProcess, MigDevice, Unreadable
from gdrcheck.facts.gpu import Virtualization
from gdrcheck.probes import nvml_ask as ask
from gdrcheck.probes.nvml_health import health

COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
FABRIC_STATES = {1: "not_started", 2: "in_progress", 3: "completed"}
VIRTUALIZATION: dict[int, Virtualization] = {
    0: "none",
    1: "passthrough",
    2: "vgpu",
    3: "host vgpu",
    4: "host vsga",
}


def gpu(handle: Any, slot: str) -> Gpu:
    """All of one GPU. NVMLError only when the GPU is gone."""
    memory = ask.field(slot, "memory", lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
    bar1 = ask.field(slot, "BAR1 memory", lambda: pynvml.nvmlDeviceGetBAR1MemoryInfo(handle))
    mig = ask.or_none(slot, "MIG mode", lambda: _mig_mode(handle))
    return Gpu(
        slot=slot,
        uuid=ask.field(slot, "UUID", lambda: pynvml.nvmlDeviceGetUUID(handle)),
        model=ask.field(slot, "name", lambda: pynvml.nvmlDeviceGetName(handle)),
        memory_total_bytes=memory if isinstance(memory, Unreadable) else memory.total,
        bar1_total_bytes=bar1 if isinstance(bar1, Unreadable) else bar1.bar1Total,
        bar1_used_bytes=bar1 if isinstance(bar1, Unreadable) else bar1.bar1Used,
        mig=mig,
        mig_devices=_mig_devices(handle, slot, mig),
        processes=ask.field(slot, "compute processes", lambda: _processes(handle)),
        compute_mode=ask.field(slot, "compute mode", lambda: _compute_mode(handle)),
        fabric_state=ask.or_none(slot, "fabric state", lambda: _fabric_state(handle)),
        virtualization=ask.or_none(slot, "virtualization mode", lambda: _virtualization(handle)),
        health=health(handle, slot),
    )


def _mig_mode(handle: Any) -> Literal["enabled", "disabled"]:
    current, _pending = pynvml.nvmlDeviceGetMigMode(handle)
    return "enabled" if current == pynvml.NVML_DEVICE_MIG_ENABLE else "disabled"


def _mig_devices(
    handle: Any, slot: str, mig: Literal["enabled", "disabled"] | Unreadable | None
) -> tuple[MigDevice, ...] | Unreadable:
    if isinstance(mig, Unreadable):
        return mig
    if mig != "enabled":
        return ()
    return ask.field(slot, "MIG devices", lambda: tuple(_list_mig_devices(handle, slot)))


def _list_mig_devices(handle: Any, slot: str) -> Iterator[MigDevice]:
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except pynvml.NVMLError_NotFound:
            continue  # No instance was created at this index.
        yield MigDevice(
            uuid=pynvml.nvmlDeviceGetUUID(device),
            name=ask.field(
                slot, f"name of MIG device {index}", partial(pynvml.nvmlDeviceGetName, device)
            ),
        )


def _processes(handle: Any) -> tuple[GpuProcess, ...]:
    return tuple(
        GpuProcess(pid=one.pid, used_bytes=one.usedGpuMemory)
        for one in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    )


def _compute_mode(handle: Any) -> str:
    mode = pynvml.nvmlDeviceGetComputeMode(handle)
    return COMPUTE_MODES.get(mode, f"mode {mode}")


def _fabric_state(handle: Any) -> str | None:
    info = _fabric_info(handle)
    if info is None:
        return None
    if info.state == pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED:
        return None
    # The status means something once the registration with the fabric has completed.
    if info.state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED and info.status != pynvml.NVML_SUCCESS:
        return f"failed: {ask.words(pynvml.NVMLError(info.status))}"
    return FABRIC_STATES.get(info.state, f"state {info.state}")


def _fabric_info(handle: Any) -> Any:
    """State and status; None of a driver that knows of no fabric."""
    versioned, plain = pynvml.c_nvmlGpuFabricInfoV_t(), pynvml.c_nvmlGpuFabricInfo_t()
    for info, call in (
        (versioned, pynvml.nvmlDeviceGetGpuFabricInfoV),
        # Older drivers have this one alone, those before them none.
        (plain, pynvml.nvmlDeviceGetGpuFabricInfo),
    ):
        try:
            call(handle, ctypes.byref(info))
        except pynvml.NVMLError_FunctionNotFound:
            continue
        return info
    return None


def _virtualization(handle: Any) -> Virtualization:
    mode = pynvml.nvmlDeviceGetVirtualizationMode(handle)
    if mode not in VIRTUALIZATION:
        raise ValueError(f"mode {mode} is unknown")
    return VIRTUALIZATION[mode]
