"""Which codes a failed call of the CUDA driver stands for. Pure.

Source: CUresult in CUDA's driver API documentation; the causes of 802 in NVIDIA's Fabric Manager
user guide.
"""

from __future__ import annotations

from typing import Literal, Protocol

# start: before any GPU can be asked. open: its first use. use: after it had worked.
Phase = Literal["start", "open", "use"]

NO_DEVICE = "CUDA_ERROR_NO_DEVICE"
OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
NOT_PERMITTED = "CUDA_ERROR_NOT_PERMITTED"
NOT_SUPPORTED = "CUDA_ERROR_NOT_SUPPORTED"
INVALID_VALUE = "CUDA_ERROR_INVALID_VALUE"
SYSTEM_NOT_READY = "CUDA_ERROR_SYSTEM_NOT_READY"
# What they mean does not depend on when they come.
CODES = {
    "CUDA_ERROR_INSUFFICIENT_DRIVER": "GPU-CUDA-DRIVER-OLD",
    "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER": "GPU-CUDA-DRIVER-OLD",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "GPU-CUDA-DRIVER-OLD",
    SYSTEM_NOT_READY: "GPU-CUDA-FABRIC",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "GPU-CUDA-MISMATCH",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": "GPU-CUDA-MISMATCH",
    "CUDA_ERROR_STUB_LIBRARY": "GPU-CUDA-MISMATCH",
    OUT_OF_MEMORY: "GPU-MEMORY-FULL",
}
# With these a driver answers for a GPU that it has lost. Before the GPU was used they mean less.
GONE = (
    "CUDA_ERROR_UNKNOWN",
    "CUDA_ERROR_INVALID_DEVICE",
    "CUDA_ERROR_DEVICE_UNAVAILABLE",
    "CUDA_ERROR_DEINITIALIZED",
    NO_DEVICE,
)


class CudaFailure(Protocol):
    """A call of the driver that failed: which, the name and number of the error, and its text."""

    function: str
    name: str
    number: int
    explanation: str


def cuda_cause(name: str, phase: Phase) -> tuple[str, ...]:
    """The codes that the error ``name`` may stand for, the most likely first."""
    if name in CODES:
        return (CODES[name],)
    if phase == "start":
        return ("GPU-CUDA-NONE",) if name == NO_DEVICE else ("GPU-CUDA-FAILED",)
    if name not in GONE:
        return ("GPU-CUDA-FAILED",)
    if phase == "use":
        return ("GPU-GONE", "GPU-CUDA-FAILED")
    return ("GPU-CUDA-UNSEEN",) if name == NO_DEVICE else ("GPU-CUDA-FAILED", "GPU-GONE")
