"""Memory that a NIC may be pointed at, and the proof of what it is."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from gdrcheck import steps
from gdrcheck.gpu.compat import call, driver, undone
from gdrcheck.gpu.context import Gpu
from gdrcheck.gpu.library import device_ordinal
from gdrcheck.pattern import Bytes
from gdrcheck.registration import BufferKind, Proof
from gdrcheck.sizes import size_text

# CU_MEMHOSTALLOC_DEVICEMAP of cuda.h: the host memory has a device pointer as well.
_DEVICE_MAP = 2
_TRUE = 1


class Buffer:
    """Memory made and freed by ``allocate``; no view of it may be used afterwards.

    ``address`` is the device pointer. ``length_bytes`` is what was asked for; ``allocated_bytes``,
    what there is, can be more. ``host_view`` is the memory of kind ``pinned`` as the CPU sees it,
    None for memory that the CPU must not touch.
    """

    def __init__(
        self,
        gpu: Gpu,
        kind: BufferKind,
        *,
        address: int,
        length_bytes: int,
        allocated_bytes: int,
        host_view: Bytes | None = None,
    ) -> None:
        self.gpu = gpu
        self.kind = kind
        self.address = address
        self.length_bytes = length_bytes
        self.allocated_bytes = allocated_bytes
        self.host_view = host_view

    @property
    def name(self) -> str:
        """``64 KiB of gpu memory on 0000:24:00.0``, for the texts of steps."""
        return f"{size_text(self.length_bytes)} of {self.kind} memory on {self.gpu.device.slot}"

    def check_range(self, offset_bytes: int, length_bytes: int) -> None:
        """ValueError unless the range is inside the buffer and not empty."""
        if offset_bytes < 0 or length_bytes < 1 or offset_bytes + length_bytes > self.length_bytes:
            raise ValueError(
                f"range of {length_bytes} bytes at {offset_bytes} is not inside "
                f"a buffer of {self.length_bytes} bytes"
            )


@contextmanager
def allocate(gpu: Gpu, length_bytes: int, kind: BufferKind = "gpu") -> Iterator[Buffer]:
    """Memory of ``kind``, freed at the end of the block.

    ``managed`` is made only to see it refused. What is registered or exported must be undone
    before. CudaError if the driver refuses, ValueError for less than one byte.
    """
    if length_bytes < 1:
        raise ValueError(f"a buffer of {length_bytes} bytes")
    gpu.activate()
    with _MAKERS[kind](gpu, length_bytes) as buffer, gpu.current():
        yield buffer


def prove(buffer: Buffer) -> Proof:
    """What the driver says of the buffer's memory. CudaError if it does not answer."""
    buffer.gpu.activate()
    start = int(_attribute(buffer, "RANGE_START_ADDR"))
    return Proof(
        kind=buffer.kind,
        memory_type=_memory_type(int(_attribute(buffer, "MEMORY_TYPE"))),
        managed=bool(_attribute(buffer, "IS_MANAGED")),
        ordinal=_ordinal(buffer),
        expected_ordinal=buffer.gpu.device.ordinal,
        gdr_capable=bool(_attribute(buffer, "IS_GPU_DIRECT_RDMA_CAPABLE")),
        # Only what follows the pointer is the buffer's.
        range_bytes=start + int(_attribute(buffer, "RANGE_SIZE")) - buffer.address,
        length_bytes=buffer.length_bytes,
    )


def _attribute(buffer: Buffer, name: str) -> Any:
    attribute = getattr(driver.CUpointer_attribute, f"CU_POINTER_ATTRIBUTE_{name}")
    what = f"cuPointerGetAttribute {name} of {buffer.name}"
    (value,) = call(what, driver.cuPointerGetAttribute, attribute, buffer.address)
    return value


def _ordinal(buffer: Buffer) -> int:
    what = f"cuPointerGetAttribute DEVICE_ORDINAL of {buffer.name}"
    with steps.step(what):
        return device_ordinal(what, buffer.address)


def _memory_type(number: int) -> Any:
    # CUmemorytype of cuda.h.
    return {1: "host", 2: "device"}.get(number, "other")


@contextmanager
def _device_memory(gpu: Gpu, length_bytes: int) -> Iterator[Buffer]:
    slot = gpu.device.slot
    # Whole pages: what is exported is.
    allocated = _rounded(length_bytes, os.sysconf("SC_PAGESIZE"))
    what = f"cuMemAlloc of {size_text(allocated)} on {slot}"
    (pointer,) = call(what, driver.cuMemAlloc, allocated)
    with undone(f"cuMemFree of {size_text(allocated)} on {slot}", driver.cuMemFree, pointer):
        buffer = Buffer(
            gpu,
            "gpu",
            address=int(pointer),
            length_bytes=length_bytes,
            allocated_bytes=allocated,
        )
        # Without it a copy may still be under way when a NIC reads the memory.
        call(
            f"cuPointerSetAttribute SYNC_MEMOPS of {buffer.name}",
            driver.cuPointerSetAttribute,
            _TRUE,
            driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
            pointer,
        )
        yield buffer


@contextmanager
def _vmm_memory(gpu: Gpu, length_bytes: int) -> Iterator[Buffer]:
    slot = gpu.device.slot
    properties = _vmm_properties(gpu)
    (granularity,) = call(
        f"cuMemGetAllocationGranularity on {slot}",
        driver.cuMemGetAllocationGranularity,
        properties,
        driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM,
    )
    size = _rounded(length_bytes, int(granularity))
    text = f"{size_text(size)} on {slot}"
    (pointer,) = call(
        f"cuMemAddressReserve of {text}", driver.cuMemAddressReserve, size, int(granularity), 0, 0
    )
    with undone(f"cuMemAddressFree of {text}", driver.cuMemAddressFree, pointer, size):
        (handle,) = call(f"cuMemCreate of {text}", driver.cuMemCreate, size, properties, 0)
        with undone(f"cuMemRelease of {text}", driver.cuMemRelease, handle):
            call(f"cuMemMap of {text}", driver.cuMemMap, pointer, size, 0, handle, 0)
            with undone(f"cuMemUnmap of {text}", driver.cuMemUnmap, pointer, size):
                access = [_vmm_access(properties)]
                call(f"cuMemSetAccess of {text}", driver.cuMemSetAccess, pointer, size, access, 1)
                yield Buffer(
                    gpu,
                    "gpu-vmm",
                    address=int(pointer),
                    length_bytes=length_bytes,
                    allocated_bytes=size,
                )


def _vmm_properties(gpu: Gpu) -> Any:
    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = gpu.device.ordinal
    # Without it the export succeeds all the same, and the memory is not capable.
    properties.allocFlags.gpuDirectRDMACapable = 1
    return properties


def _vmm_access(properties: Any) -> Any:
    access = driver.CUmemAccessDesc()
    access.location = properties.location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    return access


@contextmanager
def _pinned_memory(gpu: Gpu, length_bytes: int) -> Iterator[Buffer]:
    text = f"{size_text(length_bytes)} for {gpu.device.slot}"
    (host,) = call(f"cuMemHostAlloc of {text}", driver.cuMemHostAlloc, length_bytes, _DEVICE_MAP)
    with undone(f"cuMemFreeHost of {text}", driver.cuMemFreeHost, host):
        (pointer,) = call(
            f"cuMemHostGetDevicePointer of {text}", driver.cuMemHostGetDevicePointer, host, 0
        )
        memory = (ctypes.c_uint8 * length_bytes).from_address(int(host))
        yield Buffer(
            gpu,
            "pinned",
            address=int(pointer),
            length_bytes=length_bytes,
            allocated_bytes=length_bytes,
            host_view=np.ctypeslib.as_array(memory),
        )


@contextmanager
def _managed_memory(gpu: Gpu, length_bytes: int) -> Iterator[Buffer]:
    text = f"{size_text(length_bytes)} on {gpu.device.slot}"
    attach = driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL
    (pointer,) = call(
        f"cuMemAllocManaged of {text}", driver.cuMemAllocManaged, length_bytes, int(attach)
    )
    with undone(f"cuMemFree of {text}", driver.cuMemFree, pointer):
        yield Buffer(
            gpu,
            "managed",
            address=int(pointer),
            length_bytes=length_bytes,
            allocated_bytes=length_bytes,
        )


_MAKERS: dict[BufferKind, Callable[[Gpu, int], AbstractContextManager[Buffer]]] = {
    "gpu": _device_memory,
    "gpu-vmm": _vmm_memory,
    "pinned": _pinned_memory,
    "managed": _managed_memory,
}


def _rounded(length_bytes: int, unit_bytes: int) -> int:
    return -(-length_bytes // unit_bytes) * unit_bytes
