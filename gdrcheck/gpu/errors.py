"""Errors of the CUDA driver, with the function, the status and what it means kept.

Importable without cuda-python; ``compat.call`` makes these errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gdrcheck.outcome import ProbeError

# enum CUresult of cuda.h; the numbers are part of its ABI.
INVALID_VALUE = "CUDA_ERROR_INVALID_VALUE"
INSUFFICIENT_DRIVER = "CUDA_ERROR_INSUFFICIENT_DRIVER"
NOT_SUPPORTED = "CUDA_ERROR_NOT_SUPPORTED"
LIBRARY_MISSING = "CUDA_DRIVER_LIBRARY_MISSING"

# Where the driver's own words (cuGetErrorString) say less than is known.
_EXPLANATIONS: Mapping[str, str] = MappingProxyType(
    {
        "CUDA_ERROR_OUT_OF_MEMORY": "out of GPU memory, or of another resource that this needs",
        "CUDA_ERROR_NOT_INITIALIZED": "cuInit was not called, or failed",
        "CUDA_ERROR_STUB_LIBRARY": (
            "the libcuda.so.1 that was loaded is the toolkit's stub, not the driver's: the "
            "container runtime did not mount the host's"
        ),
        INSUFFICIENT_DRIVER: "the NVIDIA driver is older than this software needs",
        "CUDA_ERROR_DEVICE_UNAVAILABLE": (
            "the GPU is held by another process: its compute mode allows one process or none"
        ),
        "CUDA_ERROR_NO_DEVICE": (
            "the driver shows this process no GPU: none is there, none is passed to the "
            "container, or CUDA_VISIBLE_DEVICES hides them"
        ),
        "CUDA_ERROR_INVALID_DEVICE": "there is no GPU of this number",
        "CUDA_ERROR_INVALID_CONTEXT": "no context of this GPU is current, or it was destroyed",
        "CUDA_ERROR_ECC_UNCORRECTABLE": (
            "the GPU's memory had an error that ECC could not correct; the kernel log has an XID"
        ),
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": (
            "the kernels are in a PTX version that this driver is too old for"
        ),
        "CUDA_ERROR_JIT_COMPILER_NOT_FOUND": (
            "libnvidia-ptxjitcompiler.so.1 of the driver cannot be loaded: the container runtime "
            "did not mount it beside libcuda.so.1"
        ),
        "CUDA_ERROR_ILLEGAL_ADDRESS": (
            "a kernel touched an address that is not mapped; the context is lost"
        ),
        "CUDA_ERROR_LAUNCH_FAILED": "a kernel died on the GPU; the context is lost",
        "CUDA_ERROR_NOT_PERMITTED": "the driver does not allow this operation here",
        NOT_SUPPORTED: "the GPU, its driver or this machine cannot do this",
        "CUDA_ERROR_SYSTEM_NOT_READY": (
            "the NVSwitch fabric is not ready: the fabric manager does not run, has not finished "
            "or is of another version than the driver"
        ),
        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": (
            "libcuda and the loaded kernel module are of different driver versions"
        ),
        "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": (
            "a forward-compatibility libcuda was loaded on a GPU that does not support it"
        ),
        "CUDA_ERROR_UNKNOWN": (
            "the driver does not say why: the GPU may have fallen off the bus, or the nvidia_uvm "
            "module or device node may be missing; the kernel log has more"
        ),
    }
)


def explanation(name: str) -> str | None:
    """What the status ``name`` means in practice; None where the driver's own words are enough."""
    return _EXPLANATIONS.get(name)


class CudaError(ProbeError):
    """A call of the CUDA driver failed. ``step`` is what was being done.

    ``function`` is the call, ``name`` and ``number`` its CUresult, ``explanation`` what that means.
    ``number`` is -1 when the call was never made.
    """

    def __init__(
        self, step: str, *, function: str, name: str, number: int, explanation: str
    ) -> None:
        self.function = function
        self.name = name
        self.number = number
        self.explanation = explanation
        status = name if number < 0 or name.endswith(f" {number}") else f"{name} ({number})"
        super().__init__(f"{step}: {status}: {explanation}", step=step)


class DriverTooOld(CudaError):
    """The driver is older than the minimum; ``found`` and ``needed`` are CUDA versions."""

    def __init__(self, found: tuple[int, int], needed: tuple[int, int]) -> None:
        self.found = found
        self.needed = needed
        super().__init__(
            "cuDriverGetVersion",
            function="cuDriverGetVersion",
            name=INSUFFICIENT_DRIVER,
            number=-1,
            explanation=(
                f"the NVIDIA driver is of CUDA {found[0]}.{found[1]}, this software needs "
                f"{needed[0]}.{needed[1]} or newer: upgrade the driver, or use an image for it"
            ),
        )


class LibraryMissing(CudaError):
    """There is no libcuda.so.1 that this process can load."""

    def __init__(self, step: str, *, function: str, reason: str) -> None:
        super().__init__(
            step,
            function=function,
            name=LIBRARY_MISSING,
            number=-1,
            explanation=(
                f"libcuda.so.1 cannot be loaded ({reason}): no NVIDIA driver on the host, or the "
                "container runtime did not mount the driver's libraries"
            ),
        )
