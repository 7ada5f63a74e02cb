"""Memory of the emulated GPU: its kinds, its limits, and what the driver says of each address."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver

from tests.emulated_gpu.emulation import (
    GDR_CAPABLE,
    IS_MANAGED,
    MEMORY_TYPE,
    ORDINAL,
    RANGE_SIZE,
    RANGE_START,
    attribute,
    read,
    result,
    status,
    write,
)

MIB = 1 << 20
GLOBAL = 1
DEVICEMAP = 2

pytestmark = pytest.mark.usefixtures("context")


def test_bytes_come_back_as_they_were_written() -> None:
    pointer = int(result(driver.cuMemAlloc, 5000))
    data = bytes(range(250)) * 20
    write(pointer, data)
    result(driver.cuMemsetD8, pointer + 100, 0xEE, 3)
    result(driver.cuMemcpyDtoD, pointer + 4000, pointer, 1000)
    assert read(pointer, 5000) == data[:100] + b"\xee" * 3 + data[103:4000] + (
        data[:100] + b"\xee" * 3 + data[103:1000]
    )
    result(driver.cuMemFree, pointer)


def test_words_are_set_little_endian() -> None:
    pointer = int(result(driver.cuMemAlloc, 64))
    result(driver.cuMemsetD32, pointer, 0x01020304, 2)
    assert read(pointer, 8) == b"\4\3\2\1" * 2
    assert status(driver.cuMemsetD32, pointer + 1, 0, 1) == 1
    result(driver.cuMemFree, pointer)


def test_a_copy_that_leaves_its_allocation_is_refused() -> None:
    pointer = int(result(driver.cuMemAlloc, 1000))
    assert status(driver.cuMemcpyHtoD, pointer + 1, bytes(1000), 1000) == 1
    assert status(driver.cuMemcpyDtoH, bytearray(2000), pointer, 1001) == 1
    assert status(driver.cuMemsetD8, pointer - 1, 0, 1) == 1
    result(driver.cuMemFree, pointer)
    assert status(driver.cuMemsetD8, pointer, 0, 1) == 1


def test_a_device_address_is_no_host_address() -> None:
    pointer = int(result(driver.cuMemAlloc, 1000))
    assert status(driver.cuMemcpyHtoD, pointer, pointer, 10) == 1
    assert status(driver.cuMemcpyDtoH, pointer, pointer, 10) == 1
    result(driver.cuMemFree, pointer)


def test_memory_ends_where_the_file_says() -> None:
    free, total = result(driver.cuMemGetInfo)
    # Tests that ran before in this process may hold a block.
    assert total == 64 * MIB
    assert total - free <= 4 * MIB
    pointer = result(driver.cuMemAlloc, 40 * MIB)
    assert result(driver.cuMemGetInfo) == (free - 40 * MIB, total)
    assert status(driver.cuMemAlloc, 25 * MIB) == 2
    result(driver.cuMemFree, pointer)
    assert result(driver.cuMemGetInfo) == (free, total)


def test_freed_memory_is_used_again() -> None:
    first = int(result(driver.cuMemAlloc, 8 * MIB))
    kept = result(driver.cuMemAlloc, 8 * MIB)
    result(driver.cuMemFree, first)
    assert int(result(driver.cuMemAlloc, 8 * MIB)) == first
    for pointer in (first, kept):
        result(driver.cuMemFree, pointer)


def test_small_allocations_share_pages_and_do_not_overlap() -> None:
    pointers = [int(result(driver.cuMemAlloc, 700)) for _ in range(5)]
    assert all(pointer % 512 == 0 for pointer in pointers)
    assert any(pointer % 4096 for pointer in pointers)
    for number, pointer in enumerate(pointers):
        write(pointer, bytes([number]) * 700)
    for number, pointer in enumerate(pointers):
        assert read(pointer, 700) == bytes([number]) * 700
        result(driver.cuMemFree, pointer)


def test_large_allocations_begin_with_a_block() -> None:
    small = result(driver.cuMemAlloc, 1)
    large = int(result(driver.cuMemAlloc, 2 * MIB))
    assert large % (2 * MIB) == 0
    for pointer in (small, large):
        result(driver.cuMemFree, pointer)


def test_nothing_cannot_be_allocated_nor_freed_twice() -> None:
    assert status(driver.cuMemAlloc, 0) == 1
    pointer = int(result(driver.cuMemAlloc, 100))
    assert status(driver.cuMemFree, pointer + 1) == 1
    result(driver.cuMemFree, pointer)
    assert status(driver.cuMemFree, pointer) == 1
    assert status(driver.cuMemFree, 0) == 0


def says(pointer: Any) -> tuple[int, bool, int, bool]:
    """Memory type, managed, ordinal, capable of GPUDirect RDMA."""
    return (
        int(attribute(MEMORY_TYPE, pointer)),
        bool(attribute(IS_MANAGED, pointer)),
        int(attribute(ORDINAL, pointer)),
        bool(attribute(GDR_CAPABLE, pointer)),
    )


def test_device_memory_says_so() -> None:
    pointer = int(result(driver.cuMemAlloc, 5000))
    assert says(pointer + 4999) == (2, False, 0, True)
    assert int(attribute(RANGE_START, pointer + 10)) == pointer
    assert int(attribute(RANGE_SIZE, pointer + 10)) == 5000
    base, length = result(driver.cuMemGetAddressRange, pointer + 10)
    assert (int(base), length) == (pointer, 5000)
    result(driver.cuMemFree, pointer)
    assert status(driver.cuPointerGetAttribute, driver.CUpointer_attribute(2), pointer) == 1


def test_managed_memory_calls_itself_device_memory() -> None:
    pointer = result(driver.cuMemAllocManaged, 4096, GLOBAL)
    assert says(pointer) == (2, True, 0, False)
    result(driver.cuMemFree, pointer)


def test_pinned_memory_is_host_memory_at_the_same_address() -> None:
    host = result(driver.cuMemHostAlloc, 4096, DEVICEMAP)
    pointer = int(result(driver.cuMemHostGetDevicePointer, host, 0))
    assert pointer == int(host)
    assert says(pointer) == (1, False, 0, False)
    assert status(driver.cuMemFree, pointer) == 1
    result(driver.cuMemFreeHost, host)


def test_memory_of_the_process_is_page_locked_once_at_a_time() -> None:
    memory = np.zeros(8192, dtype=np.uint8)
    address = int(memory.ctypes.data)
    result(driver.cuMemHostRegister, address, 8192, 0)
    assert status(driver.cuMemHostRegister, address + 4096, 8192, 0) == 712
    assert status(driver.cuMemHostUnregister, address + 4096) == 713
    pointer = result(driver.cuMemAlloc, 8192)
    result(driver.cuMemcpyHtoD, pointer, address, 8192)
    result(driver.cuMemHostUnregister, address)
    assert status(driver.cuMemHostUnregister, address) == 713
    result(driver.cuMemHostRegister, address + 4096, 4096, 0)
    result(driver.cuMemHostUnregister, address + 4096)
    result(driver.cuMemFree, pointer)


def test_several_attributes_of_an_unknown_address_are_nothing() -> None:
    names = [driver.CUpointer_attribute(n) for n in (MEMORY_TYPE, ORDINAL, GDR_CAPABLE)]
    assert [int(v) for v in result(driver.cuPointerGetAttributes, 3, names, 4096)] == [0, -2, 0]


def test_synchronous_copies_can_be_asked_for() -> None:
    pointer = result(driver.cuMemAlloc, 100)
    sync_memops = driver.CUpointer_attribute(6)
    assert not attribute(6, pointer)
    result(driver.cuPointerSetAttribute, 1, sync_memops, pointer)
    assert attribute(6, pointer)
    result(driver.cuMemFree, pointer)


def test_memory_dies_with_its_context() -> None:
    context = result(driver.cuDevicePrimaryCtxRetain, 1)
    result(driver.cuCtxPushCurrent, context)
    pointer = result(driver.cuMemAlloc, 100)
    assert int(attribute(ORDINAL, pointer)) == 1
    result(driver.cuDevicePrimaryCtxRelease, 1)
    assert status(driver.cuMemAlloc, 100) == 709
    result(driver.cuCtxPopCurrent)
    assert status(driver.cuPointerGetAttribute, driver.CUpointer_attribute(2), pointer) == 1


def test_without_a_current_context_nothing_works() -> None:
    context = result(driver.cuCtxPopCurrent)
    calls = [
        (driver.cuMemAlloc, 100),
        (driver.cuCtxSynchronize,),
        (driver.cuMemGetInfo,),
        (driver.cuCtxGetDevice,),
        (driver.cuStreamCreate, 0),
    ]
    statuses = {call[0].__name__: status(*call) for call in calls}
    result(driver.cuCtxPushCurrent, context)
    assert statuses == dict.fromkeys(statuses, 201)
