"""libcuda itself, without its binding: what must be known before the binding can be used.

The binding of CUDA 12 needs ``cuGetProcAddress_v2``, which no driver before 12.0 has; asked through
it, an old driver is a missing symbol instead of a version.
"""

from __future__ import annotations

import ctypes

from gdrcheck.gpu.errors import CudaError, LibraryMissing

_NAME = "libcuda.so.1"
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


def emulated() -> bool:
    """Whether the libcuda of this process is the lab's stand-in. LibraryMissing without one."""
    return hasattr(_load("the symbols of libcuda"), _MARKER)


def _load(function: str) -> ctypes.CDLL:
    # A library of this name that is loaded already is the one that comes back.
    try:
        return ctypes.CDLL(_NAME)
    except OSError as problem:
        raise LibraryMissing(f"load {_NAME}", function=function, reason=str(problem)) from problem
