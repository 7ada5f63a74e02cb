"""libcuda itself, without its binding: what must be known before the binding can be used, or is
told wrong by it.

The binding of CUDA 12 needs ``cuGetProcAddress_v2``, which no driver before 12.0 has; asked through
it, an old driver is a missing symbol instead of a version.
"""

from __future__ import annotations

import ctypes

from gdrcheck.gpu.errors import CudaError, LibraryMissing

_NAME = "libcuda.so.1"
# CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL of cuda.h.
_DEVICE_ORDINAL = 9
# The emulated driver of the lab has this symbol, no driver of NVIDIA has.
_MARKER = "gdrcheck_emulated_gpu"


def driver_version() -> tuple[int, int]:
    """The CUDA version of the driver, ``(12, 4)`` for 12040. Needs no cuInit.

    LibraryMissing without a libcuda, CudaError if it does not answer.
    """
    name = "cuDriverGetVersion"
    library = _load(name)
    version = ctypes.c_int(0)
    status = int(library.cuDriverGetVersion(ctypes.byref(version)))
    if status:
        raise CudaError(
            name,
            function=name,
            name=f"CUDA error {status}",
            number=status,
            explanation="the driver does not tell its version",
        )
    return version.value // 1000, version.value % 1000 // 10


def device_ordinal(what: str, address: int) -> int:
    """CUDA's number of the device that has the memory at ``address``; ``what`` is the step.

    The binding 13.3.1 answers 0 whatever the driver says (13.5.0 does not): it reads another field
    of its ``_HelperCUpointer_attribute`` than the driver has written. LibraryMissing without a
    libcuda, CudaError if it does not answer.
    """
    name = "cuPointerGetAttribute"
    ordinal = ctypes.c_int(0)
    status = int(
        getattr(_load(name), name)(
            ctypes.byref(ordinal), ctypes.c_int(_DEVICE_ORDINAL), ctypes.c_uint64(address)
        )
    )
    if status:
        raise CudaError(
            what,
            function=name,
            name=f"CUDA error {status}",
            number=status,
            explanation="the driver does not tell which device has this memory",
        )
    return ordinal.value


def emulated() -> bool:
    """Whether the libcuda of this process is the lab's stand-in. LibraryMissing without one."""
    return hasattr(_load("the symbols of libcuda"), _MARKER)


def _load(function: str) -> ctypes.CDLL:
    # A library of this name that is loaded already is the one that comes back.
    try:
        return ctypes.CDLL(_NAME)
    except OSError as problem:
        raise LibraryMissing(f"load {_NAME}", function=function, reason=str(problem)) from problem
