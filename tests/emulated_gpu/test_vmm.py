"""Virtual memory management: the flag for GPUDirect RDMA, mappings, access."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from cuda.bindings import driver

from lab.emulated_gpu.config import EmulatedGpu, h200s
from tests.emulated_gpu.emulation import (
    GDR_CAPABLE,
    RANGE_SIZE,
    Emulation,
    attribute,
    export,
    read,
    result,
    status,
    write,
)

BLOCK = 2 << 20

pytestmark = pytest.mark.usefixtures("context")


def properties(capable: bool = True) -> Any:
    prop = driver.CUmemAllocationProp()
    prop.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    prop.location.id = 0
    prop.allocFlags.gpuDirectRDMACapable = int(capable)
    return prop


def granted() -> Any:
    access = driver.CUmemAccessDesc()
    access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    access.location.id = 0
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    return access


@pytest.fixture
def reserved() -> Iterator[int]:
    """Addresses for two blocks."""
    address = result(driver.cuMemAddressReserve, 2 * BLOCK, 0, 0, 0)
    yield int(address)
    result(driver.cuMemAddressFree, address, 2 * BLOCK)


def mapped(address: int, capable: bool = True) -> None:
    """One block there, accessible; it goes when it is unmapped."""
    handle = result(driver.cuMemCreate, BLOCK, properties(capable), 0)
    result(driver.cuMemMap, address, BLOCK, 0, handle, 0)
    result(driver.cuMemRelease, handle)
    result(driver.cuMemSetAccess, address, BLOCK, [granted()], 1)


def test_granularity_is_two_mib() -> None:
    option = driver.CUmemAllocationGranularity_flags(0)
    assert result(driver.cuMemGetAllocationGranularity, properties(), option) == BLOCK
    assert status(driver.cuMemCreate, 4096, properties(), 0) == 1


@pytest.mark.parametrize("capable", [True, False])
def test_memory_without_the_flag_is_exported_all_the_same(reserved: int, capable: bool) -> None:
    mapped(reserved, capable)
    assert bool(attribute(GDR_CAPABLE, reserved)) == capable
    failed, fd = export(reserved, BLOCK)
    assert failed == 0
    os.close(fd)
    result(driver.cuMemUnmap, reserved, BLOCK)


def test_a_gpu_that_cannot_grants_memory_without_the_flag(
    emulation: Emulation, reserved: int
) -> None:
    gpu = h200s(1, memory_mib=64)[0]
    emulation.set([EmulatedGpu(gpu.slot, gpu.uuid, memory_mib=64, attributes={110: 0})])
    mapped(reserved)
    assert not attribute(GDR_CAPABLE, reserved)
    result(driver.cuMemUnmap, reserved, BLOCK)


def test_each_mapping_has_bytes_of_its_own(reserved: int) -> None:
    mapped(reserved)
    mapped(reserved + BLOCK)
    write(reserved + BLOCK - 4, b"last")
    write(reserved + BLOCK, b"next")
    assert read(reserved + BLOCK - 4, 4) == b"last"
    assert read(reserved + BLOCK, 4) == b"next"
    assert int(attribute(RANGE_SIZE, reserved)) == 2 * BLOCK
    base, length = result(driver.cuMemGetAddressRange, reserved + BLOCK + 1)
    assert (int(base), length) == (reserved + BLOCK, BLOCK)
    result(driver.cuMemUnmap, reserved, 2 * BLOCK)


def test_memory_is_inaccessible_until_access_is_granted(reserved: int) -> None:
    handle = result(driver.cuMemCreate, BLOCK, properties(), 0)
    result(driver.cuMemMap, reserved, BLOCK, 0, handle, 0)
    assert status(driver.cuMemsetD8, reserved, 1, 1) == 1
    result(driver.cuMemSetAccess, reserved, BLOCK, [granted()], 1)
    assert status(driver.cuMemsetD8, reserved, 1, 1) == 0
    result(driver.cuMemUnmap, reserved, BLOCK)
    result(driver.cuMemRelease, handle)


def test_memory_is_given_back_by_the_last_of_handle_and_mapping(reserved: int) -> None:
    before = result(driver.cuMemGetInfo)
    mapped(reserved)
    free, _ = result(driver.cuMemGetInfo)
    assert free == before[0] - BLOCK
    result(driver.cuMemUnmap, reserved, BLOCK)
    assert result(driver.cuMemGetInfo) == before
    assert status(driver.cuMemUnmap, reserved, BLOCK) == 1


def test_addresses_in_use_stay_reserved(reserved: int) -> None:
    mapped(reserved)
    assert status(driver.cuMemAddressFree, reserved, 2 * BLOCK) == 1
    handle = result(driver.cuMemCreate, BLOCK, properties(), 0)
    assert status(driver.cuMemMap, reserved, BLOCK, 0, handle, 0) == 1
    assert status(driver.cuMemMap, reserved + 2 * BLOCK, BLOCK, 0, handle, 0) == 1
    result(driver.cuMemRelease, handle)
    assert status(driver.cuMemRelease, handle) == 1
    result(driver.cuMemUnmap, reserved, BLOCK)
