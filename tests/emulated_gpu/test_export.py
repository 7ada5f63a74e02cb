"""Exporting memory as a dma-buf: what an H200 takes and what it refuses."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator

import pytest
from cuda.bindings import driver

from lab.emulated_gpu import build
from lab.emulated_gpu.config import EmulatedGpu, h200s
from tests.emulated_gpu.emulation import PCIE, Emulation, export, result, write

MIB = 1 << 20
PAGE = os.sysconf("SC_PAGESIZE")

pytestmark = pytest.mark.usefixtures("context")


class Range(ctypes.Structure):
    """struct gdrcheck_emulated_range of memory.h."""

    _fields_ = (
        ("gpu", ctypes.c_int),
        ("bar1_bytes", ctypes.c_ulonglong),
        ("alias", ctypes.c_void_p),
        ("bytes", ctypes.c_ulonglong),
        ("pointer", ctypes.c_ulonglong),
    )


def exported(fd: int) -> Range | None:
    """What libcuda tells the preload of a descriptor."""
    out = Range()
    failed = ctypes.CDLL(build.LIBCUDA).gdrcheck_emulated_export_of(fd, ctypes.byref(out))
    return None if failed else out


@pytest.fixture
def pointer() -> Iterator[int]:
    """4 MiB of GPU 0, which begin with a block."""
    allocated = int(result(driver.cuMemAlloc, 4 * MIB))
    yield allocated
    result(driver.cuMemFree, allocated)


@pytest.mark.parametrize(
    ("offset", "length"), [(0, 4 * MIB), (0, PAGE), (3 * PAGE, PAGE), (4 * MIB - PAGE, PAGE)]
)
def test_any_range_of_whole_pages_can_be_exported(pointer: int, offset: int, length: int) -> None:
    write(pointer + offset, b"gpu bytes")
    status, fd = export(pointer + offset, length)
    assert status == 0
    assert os.lseek(fd, 0, os.SEEK_END) == length
    found = exported(fd)
    assert found is not None
    assert (found.gpu, found.pointer, found.bytes) == (0, pointer + offset, length)
    assert ctypes.string_at(found.alias, 9) == b"gpu bytes"
    os.close(fd)


@pytest.mark.parametrize(
    ("offset", "length"),
    [
        (512, PAGE),
        (0, 512),
        (0, 0),
        (0, 4 * MIB + PAGE),
        (-PAGE, 2 * PAGE),
        (4 * MIB - PAGE, 2 * PAGE),
    ],
)
def test_other_ranges_are_invalid(pointer: int, offset: int, length: int) -> None:
    assert export(pointer + offset, length)[0] == 1


def test_the_pages_of_a_small_allocation_can_be_exported() -> None:
    pointers = [int(result(driver.cuMemAlloc, 700)) for _ in range(3)]
    unaligned = next(pointer for pointer in pointers if pointer % PAGE)
    start = unaligned // PAGE * PAGE
    status, fd = export(start, (unaligned + 700 - start + PAGE - 1) // PAGE * PAGE)
    assert status == 0
    write(unaligned, b"here")
    found = exported(fd)
    assert found is not None
    assert ctypes.string_at(found.alias + unaligned - start, 4) == b"here"
    os.close(fd)
    for pointer in pointers:
        result(driver.cuMemFree, pointer)


def test_a_duplicate_is_the_same_range_and_another_file_is_none(pointer: int) -> None:
    _, first = export(pointer, PAGE)
    _, second = export(pointer + PAGE, PAGE)
    duplicate = os.dup(first)
    os.close(first)
    found, other = exported(duplicate), exported(second)
    assert found is not None
    assert other is not None
    assert (found.pointer, other.pointer) == (pointer, pointer + PAGE)
    os.close(duplicate)
    os.close(second)
    with open(os.devnull) as stream:
        assert exported(stream.fileno()) is None


def test_the_cpu_cannot_map_what_was_exported(pointer: int) -> None:
    _, fd = export(pointer, PAGE)
    with pytest.raises(OSError):  # noqa: PT011 - the errno is the exporter's choice
        mmap.mmap(fd, PAGE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    os.close(fd)


def test_a_pcie_mapping_is_not_supported(pointer: int) -> None:
    assert export(pointer, PAGE, PCIE)[0] == 801


def test_an_older_driver_does_not_know_the_flag(emulation: Emulation, pointer: int) -> None:
    emulation.set(cuda_version=12070)
    assert export(pointer, PAGE, PCIE)[0] == 1


def test_a_gpu_without_dmabuf_exports_nothing(emulation: Emulation, pointer: int) -> None:
    gpu = h200s(1, memory_mib=64)[0]
    emulation.set([EmulatedGpu(gpu.slot, gpu.uuid, memory_mib=64, attributes={124: 0})])
    assert export(pointer, PAGE)[0] == 801


def test_memory_of_the_host_is_not_exported() -> None:
    host = result(driver.cuMemHostAlloc, PAGE, 2)
    managed = result(driver.cuMemAllocManaged, PAGE, 1)
    assert export(int(host), PAGE)[0] == 1
    assert export(int(managed), PAGE)[0] == 1
    result(driver.cuMemFreeHost, host)
    result(driver.cuMemFree, managed)


def test_remote_writes_can_be_flushed(emulation: Emulation) -> None:
    target = driver.CUflushGPUDirectRDMAWritesTarget(0)
    scope = driver.CUflushGPUDirectRDMAWritesScope(100)
    result(driver.cuFlushGPUDirectRDMAWrites, target, scope)
    gpu = h200s(1, memory_mib=64)[0]
    emulation.set([EmulatedGpu(gpu.slot, gpu.uuid, memory_mib=64, attributes={117: 0})])
    assert int(driver.cuFlushGPUDirectRDMAWrites(target, scope)[0]) == 801


def pointed(pointer: int, length: int) -> tuple[int, Range]:
    """What libcuda tells the preload of an address."""
    out = Range()
    library = ctypes.CDLL(build.LIBCUDA)
    where = ctypes.c_ulonglong(pointer), ctypes.c_ulonglong(length)
    return library.gdrcheck_emulated_range_of(*where, ctypes.byref(out)), out


def test_an_address_is_found_where_the_cpu_reaches_it(pointer: int) -> None:
    write(pointer + 100, b"inside")
    failed, found = pointed(pointer + 100, 6)
    assert failed == 0
    assert (found.gpu, found.pointer, found.bytes) == (0, pointer + 100, 4 * MIB - 100)
    assert found.bar1_bytes == 1024 * MIB
    assert ctypes.string_at(found.alias, 6) == b"inside"
    assert pointed(pointer + 100, 4 * MIB)[0] == 14
    assert pointed(4096, 1)[0] == 2
