"""``python -m gdrcheck.probes.nvml_child``: asks NVML and prints the answer as JSON.

A process of its own, because a call into the driver may hang. What it is about to ask goes to
standard error, so that the parent can say where it hung. Source: NVML API reference; nvml.h.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from gdrcheck.facts import Gpu, GpuProcess, MigDevice, Nvml, Unreadable
from gdrcheck.facts.gpu import Virtualization
from gdrcheck.probes.gpu import EMULATED_LINE

try:
    import pynvml
except ImportError as error:
    MISSING = f"the Python package nvidia-ml-py: {error}"
else:
    MISSING = ""
    # The GPU behind the handle does not answer any more, whatever it is asked.
    GONE = (
        pynvml.NVMLError_GpuIsLost,
        pynvml.NVMLError_GpuNotFound,
        pynvml.NVMLError_ResetRequired,
    )

T = TypeVar("T")
LIBRARIES = ("libnvidia-ml.so.1", "libcuda.so.1")
EMULATED_MARKER = "gdrcheck_emulated_gpu"
# The driver's own list of GPUs, by slot: also those that NVML gives no handle for.
BOUND_GPUS = Path("/proc/driver/nvidia/gpus")
BUS_ID = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])")
COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
FABRIC_STATES = {1: "not_started", 2: "in_progress", 3: "completed"}
VIRTUALIZATION: dict[int, Virtualization] = {
    0: "none",
    1: "passthrough",
    2: "vgpu",
    3: "host vgpu",
    4: "host vsga",
}


def main() -> None:
    """Prints an ``Nvml``, or an ``Unreadable`` when NVML cannot be asked at all.

    ``EMULATED_LINE`` comes first when the driver's libraries are emulated.
    """
    # A library that prints something must not spoil the answer.
    with os.fdopen(os.dup(1), "wb") as answer:
        os.dup2(2, 1)
        if is_emulated():
            answer.write(EMULATED_LINE)
            answer.flush()
        answer.write(read().model_dump_json().encode())


def is_emulated() -> bool:
    """Whether NVML or the CUDA driver library here is the lab's, which says so by a symbol."""
    return any(_has_marker(library) for library in LIBRARIES)


def _has_marker(library: str) -> bool:
    _about_to(f"load {library}")
    try:
        return hasattr(ctypes.CDLL(library), EMULATED_MARKER)
    except OSError:
        return False  # It is not there, or cannot be loaded: NVML's binding says so itself.


def read(bound_gpus: Path = BOUND_GPUS) -> Nvml | Unreadable:
    """What NVML answers about this machine; each value that it does not give says why."""
    if MISSING:
        return Unreadable(unreadable=MISSING)
    try:
        with _started():
            return _nvml(bound_gpus)
    except pynvml.NVMLError as error:
        return Unreadable(unreadable=f"NVML: {_words(error)}")


@contextmanager
def _started() -> Iterator[None]:
    _about_to("start NVML")
    pynvml.nvmlInit()
    try:
        yield
    finally:
        _about_to("shut NVML down")
        pynvml.nvmlShutdown()


def _nvml(bound_gpus: Path) -> Nvml:
    gpus: dict[str, Gpu] = {}
    lost: dict[str, str] = {}
    unplaced = _by_index(gpus, lost)
    unlisted = [slot for slot in _bound_slots(bound_gpus) if slot not in gpus | lost]
    _by_slot(unlisted, gpus, lost)
    # The slots that no index led to say more than the indexes, if there is one for each.
    if len(unlisted) < len(unplaced):
        lost |= unplaced
    return Nvml(
        driver_version=_field("system", "driver version", pynvml.nvmlSystemGetDriverVersion),
        cuda_version=_field("system", "CUDA version", _cuda_version),
        gpus=tuple(gpus[slot] for slot in sorted(gpus)),
        lost=lost,
        confidential_computing=_or_none(
            "system", "confidential computing", _confidential_computing
        ),
    )


def _by_index(gpus: dict[str, Gpu], lost: dict[str, str]) -> dict[str, str]:
    """Asks the GPUs that NVML counts; returns those that it names no slot for, with the errors."""
    unplaced = {}
    for index in range(pynvml.nvmlDeviceGetCount()):
        place = f"index {index}"
        _about_to(f"get the GPU of {place}")
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            slot = _slot(pynvml.nvmlDeviceGetPciInfo(handle).busId)
        except (pynvml.NVMLError, ValueError) as error:
            unplaced[place] = _words(error)
        else:
            _add(handle, slot, gpus, lost)
    return unplaced


def _by_slot(slots: Sequence[str], gpus: dict[str, Gpu], lost: dict[str, str]) -> None:
    for slot in slots:
        _about_to(f"get the GPU at {slot}")
        try:
            handle = pynvml.nvmlDeviceGetHandleByPciBusId(slot)
        except pynvml.NVMLError as error:
            lost[slot] = _words(error)
        else:
            _add(handle, slot, gpus, lost)


def _add(handle: Any, slot: str, gpus: dict[str, Gpu], lost: dict[str, str]) -> None:
    """Adds the GPU to those that answer or, when it turns out to be gone, to those lost."""
    try:
        gpus[slot] = _gpu(handle, slot)
    except pynvml.NVMLError as error:
        lost[slot] = _words(error)


def _gpu(handle: Any, slot: str) -> Gpu:
    """All of one GPU. NVMLError only when the GPU is gone."""
    memory = _field(slot, "memory", lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
    bar1 = _field(slot, "BAR1 memory", lambda: pynvml.nvmlDeviceGetBAR1MemoryInfo(handle))
    mig = _or_none(slot, "MIG mode", lambda: _mig_mode(handle))
    return Gpu(
        slot=slot,
        uuid=_field(slot, "UUID", lambda: pynvml.nvmlDeviceGetUUID(handle)),
        model=_field(slot, "name", lambda: pynvml.nvmlDeviceGetName(handle)),
        memory_total_bytes=memory if isinstance(memory, Unreadable) else memory.total,
        bar1_total_bytes=bar1 if isinstance(bar1, Unreadable) else bar1.bar1Total,
        bar1_used_bytes=bar1 if isinstance(bar1, Unreadable) else bar1.bar1Used,
        mig=mig,
        mig_devices=_mig_devices(handle, slot, mig),
        processes=_field(slot, "compute processes", lambda: _processes(handle)),
        compute_mode=_field(slot, "compute mode", lambda: _compute_mode(handle)),
        fabric_state=_or_none(slot, "fabric state", lambda: _fabric_state(handle)),
        virtualization=_or_none(slot, "virtualization mode", lambda: _virtualization(handle)),
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
    return _field(slot, "MIG devices", lambda: tuple(_list_mig_devices(handle, slot)))


def _list_mig_devices(handle: Any, slot: str) -> Iterator[MigDevice]:
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except pynvml.NVMLError_NotFound:
            continue  # No instance was created at this index.
        yield MigDevice(
            uuid=pynvml.nvmlDeviceGetUUID(device),
            name=_field(
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
        return f"failed: {_words(pynvml.NVMLError(info.status))}"
    return FABRIC_STATES.get(info.state, f"state {info.state}")


def _fabric_info(handle: Any) -> Any:
    """State and status; None of a driver that knows of no fabric."""
    versioned, plain = pynvml.c_nvmlGpuFabricInfoV_t(), pynvml.c_nvmlGpuFabricInfo_t()
    for info, ask in (
        (versioned, pynvml.nvmlDeviceGetGpuFabricInfoV),
        # Older drivers have this one alone, those before them none.
        (plain, pynvml.nvmlDeviceGetGpuFabricInfo),
    ):
        try:
            ask(handle, ctypes.byref(info))
        except pynvml.NVMLError_FunctionNotFound:
            continue
        return info
    return None


def _virtualization(handle: Any) -> Virtualization:
    mode = pynvml.nvmlDeviceGetVirtualizationMode(handle)
    if mode not in VIRTUALIZATION:
        raise ValueError(f"mode {mode} is unknown")
    return VIRTUALIZATION[mode]


def _confidential_computing() -> Literal["on", "off"]:
    state = pynvml.nvmlSystemGetConfComputeState()
    return "on" if state.ccFeature == pynvml.NVML_CC_SYSTEM_FEATURE_ENABLED else "off"


def _cuda_version() -> str:
    version = pynvml.nvmlSystemGetCudaDriverVersion_v2()
    return f"{version // 1000}.{version % 1000 // 10}"


def _slot(bus_id: bytes | str) -> str:
    """``00000000:1B:00.0`` as sysfs writes it. ValueError if it is no PCI address."""
    text = bus_id.decode("ascii", "replace") if isinstance(bus_id, bytes) else bus_id
    parts = BUS_ID.fullmatch(text)
    if parts is None:
        raise ValueError(f"bus id {text[:40]!r} is no PCI address")
    domain, bus, device, function = parts.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()


def _bound_slots(folder: Path) -> tuple[str, ...]:
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return ()  # Sandboxes have no such folder; the GPUs of the indexes are all there is.
    return tuple(sorted(_slot(name) for name in names if BUS_ID.fullmatch(name)))


def _or_none(place: str, what: str, call: Callable[[], T]) -> T | Unreadable | None:
    """Like ``_field``, but None when NVML says that there is no such thing here."""

    def or_absent() -> T | None:
        try:
            return call()
        except pynvml.NVMLError_NotSupported:
            return None

    return _field(place, what, or_absent)


def _field(place: str, what: str, call: Callable[[], T]) -> T | Unreadable:
    """What ``call`` returns, or why not. NVMLError only when the GPU is gone."""
    _about_to(f"{place}: {what}")
    try:
        return call()
    except (pynvml.NVMLError, ValueError) as error:
        if isinstance(error, GONE):
            raise
        return Unreadable(unreadable=f"NVML: {_words(error)}")


def _words(error: Exception) -> str:
    """``NVML_ERROR_GPU_IS_LOST (15): GPU is lost``."""
    if not isinstance(error, pynvml.NVMLError):
        return str(error)
    names = (name for name in vars(pynvml) if name.startswith("NVML_ERROR_"))
    name = next((one for one in names if getattr(pynvml, one) == error.value), "NVML error")
    return f"{name} ({error.value}): {error}"


def _about_to(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
