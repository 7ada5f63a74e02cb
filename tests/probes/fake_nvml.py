"""An NVML library in Python, below NVIDIA's real binding: each function writes through pointers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pynvml
import pytest

from tests.probes.fake_nvml_health import FakeHealth, HealthLibrary

MIB = 1 << 20
FIRST_MIG = 100
OK = pynvml.NVML_SUCCESS


@dataclass
class FakeGpu:
    """What one GPU answers; ``errors`` maps the name of a function to the code that it returns."""

    bus_id: bytes = b"00000000:1B:00.0"
    name: bytes = b"NVIDIA H200"
    mig: int = 0
    mig_uuids: tuple[bytes, ...] = ()
    processes: tuple[tuple[int, int], ...] = ()
    fabric: tuple[int, int] = (pynvml.NVML_GPU_FABRIC_STATE_COMPLETED, OK)
    errors: dict[str, int] = field(default_factory=dict)
    health: FakeHealth = field(default_factory=FakeHealth)


class FakeLibrary(HealthLibrary):
    """Stands for libnvidia-ml.so.1. A handle is the number of a GPU, or FIRST_MIG + that of a MIG
    device, which belongs to the first GPU."""

    def __init__(self, *gpus: FakeGpu, errors: dict[str, int] | None = None) -> None:
        self.gpus = gpus
        self.errors = errors or {}
        names = [name for name in dir(type(self)) if name.startswith("nvml")]
        injected = {
            name for errors in (self.errors, *(gpu.errors for gpu in gpus)) for name in errors
        }
        if unknown := injected.difference(names):
            raise LookupError(f"an error of a function that nobody calls: {unknown}")
        for name in names:
            setattr(self, name, self._guarded(name, getattr(self, name)))

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pynvml, "nvmlLib", self)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    def _guarded(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def function(*args: Any) -> Any:
            code = self.errors.get(name, OK)
            if name == "nvmlDeviceGetHandleByIndex_v2":
                code = self.gpus[args[0].value].errors.get(name, code)
            elif args and isinstance(args[0], pynvml.c_nvmlDevice_t):
                code = self._gpu(args[0]).errors.get(name, code)
            if code != OK:
                return code
            result = call(*args)
            return OK if result is None else result

        return function

    def _gpu(self, handle: Any) -> FakeGpu:
        number = self._number(handle)
        return self.gpus[0 if number >= FIRST_MIG else number]

    def _health(self, handle: Any) -> FakeHealth:
        return self._gpu(handle).health

    @staticmethod
    def _number(handle: Any) -> int:
        return ctypes.cast(handle, ctypes.c_void_p).value - 0x1000

    @staticmethod
    def _point(handle: Any, number: int) -> None:
        address = ctypes.c_void_p(0x1000 + number)
        ctypes.memmove(handle, ctypes.byref(address), ctypes.sizeof(address))

    @staticmethod
    def _fill(pointer: Any, **values: Any) -> None:
        for name, value in values.items():
            setattr(pointer._obj, name, value)

    def nvmlInitWithFlags(self, _flags: int) -> None: ...

    def nvmlShutdown(self) -> None: ...

    def nvmlErrorString(self, code: int) -> bytes:
        return f"error {code}".encode()

    def nvmlSystemGetDriverVersion(self, buffer: Any, _length: Any) -> None:
        buffer.value = b"580.159.04"

    def nvmlSystemGetCudaDriverVersion_v2(self, version: Any) -> None:
        self._fill(version, value=13000)

    def nvmlSystemGetConfComputeState(self, state: Any) -> None:
        self._fill(state, ccFeature=0)

    def nvmlDeviceGetCount_v2(self, count: Any) -> None:
        self._fill(count, value=len(self.gpus))

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> None:
        self._point(handle, index.value)

    def nvmlDeviceGetHandleByPciBusId_v2(self, _bus_id: Any, _handle: Any) -> int:
        return int(pynvml.NVML_ERROR_GPU_IS_LOST)

    def nvmlDeviceGetPciInfo_v3(self, handle: Any, info: Any) -> None:
        self._fill(info, busId=self._gpu(handle).bus_id)

    def nvmlDeviceGetUUID(self, handle: Any, buffer: Any, _length: Any) -> None:
        number = self._number(handle)
        if number >= FIRST_MIG:
            buffer.value = self.gpus[0].mig_uuids[number - FIRST_MIG]
        else:
            buffer.value = f"GPU-{number}".encode()

    def nvmlDeviceGetName(self, handle: Any, buffer: Any, _length: Any) -> None:
        buffer.value = self._gpu(handle).name

    def nvmlDeviceGetMemoryInfo(self, _handle: Any, memory: Any) -> None:
        self._fill(memory, total=143771 * MIB, free=0, used=0)

    def nvmlDeviceGetBAR1MemoryInfo(self, _handle: Any, memory: Any) -> None:
        self._fill(memory, bar1Total=262144 * MIB, bar1Free=0, bar1Used=MIB)

    def nvmlDeviceGetMigMode(self, handle: Any, current: Any, pending: Any) -> None:
        self._fill(current, value=self._gpu(handle).mig)
        self._fill(pending, value=0)

    def nvmlDeviceGetMaxMigDeviceCount(self, _handle: Any, count: Any) -> None:
        self._fill(count, value=7)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: Any, device: Any) -> int:
        if index.value >= len(self._gpu(handle).mig_uuids):
            return int(pynvml.NVML_ERROR_NOT_FOUND)
        self._point(device, FIRST_MIG + index.value)
        return int(OK)

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any, count: Any, table: Any) -> int:
        processes = self._gpu(handle).processes
        if table is None:
            self._fill(count, value=len(processes))
            return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE if processes else OK)
        for row, (pid, used_bytes) in zip(table, processes, strict=False):
            row.pid, row.usedGpuMemory = pid, used_bytes
        self._fill(count, value=len(processes))
        return int(OK)

    def nvmlDeviceGetComputeMode(self, _handle: Any, mode: Any) -> None:
        self._fill(mode, value=pynvml.NVML_COMPUTEMODE_DEFAULT)

    def nvmlDeviceGetGpuFabricInfoV(self, handle: Any, info: Any) -> None:
        state, status = self._gpu(handle).fabric
        self._fill(info, state=state, status=status)

    def nvmlDeviceGetGpuFabricInfo(self, handle: Any, info: Any) -> None:
        state, status = self._gpu(handle).fabric
        self._fill(info, state=state, status=status)

    def nvmlDeviceGetVirtualizationMode(self, _handle: Any, mode: Any) -> None:
        self._fill(mode, value=pynvml.NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH)
