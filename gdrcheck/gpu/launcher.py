"""The kernels of ``kernels/``, loaded into a GPU's context and launched."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from gdrcheck.gpu.compat import call, driver, undone
from gdrcheck.gpu.context import Gpu
from gdrcheck.sizes import size_text
from gdrcheck.stream import Kind, Stream

# What pattern.h calls them.
KIND_NUMBERS: dict[Kind, int] = {"mixed": 0, "even": 1, "constant": 2}

_NAMES = ("gdrcheck_fill", "gdrcheck_verify", "gdrcheck_classify")
# The most that kernels.cu is compiled for.
_THREADS = 256
_BLOCKS_PER_MULTIPROCESSOR = 64
# A thread handles this much at a time.
_UNIT_BYTES = 16


def ptx() -> bytes:
    """The text that is given to the driver."""
    return (files("gdrcheck.gpu") / "kernels" / "kernels.ptx").read_bytes()


class Kernels:
    """The kernels of one context, made by ``loaded``. A launch returns before the kernel ends.

    Addresses are device pointers; pattern.h says what each kernel does with them.
    """

    def __init__(self, gpu: Gpu, functions: dict[str, Any], multiprocessors: int) -> None:
        self._gpu = gpu
        self._functions = functions
        self._most_blocks = multiprocessors * _BLOCKS_PER_MULTIPROCESSOR

    def fill(self, address: int, length_bytes: int, stream: Stream, start: int) -> None:
        """Write the stream from byte ``start`` on."""
        self._launch("gdrcheck_fill", address, length_bytes, stream, start)

    def verify(
        self, address: int, length_bytes: int, stream: Stream, start: int, verdict: int
    ) -> None:
        """Compare with the stream; the outcome goes to device memory at ``verdict``."""
        self._launch("gdrcheck_verify", address, length_bytes, stream, start, verdict)

    def classify(
        self,
        address: int,
        length_bytes: int,
        stream: Stream,
        start: int,
        candidates: int,
        count: int,
        counts: int,
    ) -> None:
        """Add up at ``counts`` the wrong bytes that each of the ``candidates`` accounts for."""
        more = (candidates, count, counts)
        self._launch("gdrcheck_classify", address, length_bytes, stream, start, *more)

    def _launch(
        self, name: str, address: int, length_bytes: int, stream: Stream, start: int, *more: int
    ) -> None:
        arguments = (address, length_bytes, KIND_NUMBERS[stream.kind], stream.tag, start, *more)
        per_block = _THREADS * _UNIT_BYTES
        blocks = min(-(-length_bytes // per_block), self._most_blocks)
        self._gpu.activate()
        call(
            f"cuLaunchKernel {name} over {size_text(length_bytes)} on {self._gpu.device.slot}",
            driver.cuLaunchKernel,
            self._functions[name],
            *(blocks, 1, 1),
            *(_THREADS, 1, 1),
            *(0, 0),
            (arguments, (ctypes.c_uint64,) * len(arguments)),
            0,
        )


@contextmanager
def loaded(gpu: Gpu) -> Iterator[Kernels]:
    """The kernels in the GPU's context, unloaded at the end of the block.

    CudaError if the driver refuses them, for example because it is too old for their PTX version.
    """
    slot = gpu.device.slot
    gpu.activate()
    image = ptx() + b"\0"
    (module,) = call(f"cuModuleLoadData on {slot}", driver.cuModuleLoadData, image)
    with undone(f"cuModuleUnload on {slot}", driver.cuModuleUnload, module):
        functions = {}
        for name in _NAMES:
            what = f"cuModuleGetFunction {name} on {slot}"
            (functions[name],) = call(what, driver.cuModuleGetFunction, module, name.encode())
        yield Kernels(gpu, functions, _multiprocessors(gpu))


@contextmanager
def scratch(gpu: Gpu, length_bytes: int) -> Iterator[int]:
    """Device memory for what kernels read and write beside buffers; its address.

    Unlike a buffer's it is not made to wait for copies: none of them is seen by a NIC.
    """
    text = f"{size_text(length_bytes)} of scratch memory on {gpu.device.slot}"
    gpu.activate()
    (pointer,) = call(f"cuMemAlloc of {text}", driver.cuMemAlloc, length_bytes)
    with undone(f"cuMemFree of {text}", driver.cuMemFree, pointer):
        yield int(pointer)


def _multiprocessors(gpu: Gpu) -> int:
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    what = f"cuDeviceGetAttribute MULTIPROCESSOR_COUNT on {gpu.device.slot}"
    (count,) = call(what, driver.cuDeviceGetAttribute, attribute, gpu.device.ordinal)
    return int(count)
