"""What holds on any GPU: run on the emulated one here, and on a real one in tests/gpu.

A subclass named ``Test…`` is what pytest collects; it needs a fixture ``gpu``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from gdrcheck.facts.base import SLOT_PATTERN
from gdrcheck.gpu.buffers import allocate, prove
from gdrcheck.gpu.context import Gpu, open_gpu
from gdrcheck.gpu.devices import enumerate_gpus, find
from gdrcheck.gpu.errors import INVALID_VALUE, CudaError
from gdrcheck.gpu.export import export
from gdrcheck.gpu.flush import flush_remote_writes
from gdrcheck.pattern import Bytes
from gdrcheck.registration import BufferKind

KIB, MIB = 1 << 10, 1 << 20
GPU_MEMORY: tuple[BufferKind, ...] = ("gpu", "gpu-vmm")
NOT_GPU_MEMORY: tuple[BufferKind, ...] = ("pinned", "managed")


def some_bytes(length: int, seed: int = 1) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, length, dtype=np.uint8)


def open_descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


class AnyGpu:
    """Tests that every GPU with dma-buf export passes."""

    def test_the_device_is_found_again_by_its_uuid(self, gpu: Gpu) -> None:
        device = gpu.device
        assert re.match(SLOT_PATTERN, device.slot)
        found = find(enumerate_gpus(), slot="ffff:ff:1f.7", uuids=[f"GPU-{device.uuid}"])
        assert found == device

    def test_the_device_says_what_it_is(self, gpu: Gpu) -> None:
        device = gpu.device
        assert device.name
        assert device.capability >= (5, 0)
        assert device.total_bytes >= 256 * MIB

    def test_allocated_memory_is_missing_from_what_is_free(self, gpu: Gpu) -> None:
        before, total = gpu.memory_info()
        with allocate(gpu, 64 * MIB):
            within, _ = gpu.memory_info()
        assert 0 < before <= total
        assert before - within >= 64 * MIB

    @pytest.mark.parametrize("kind", GPU_MEMORY)
    @pytest.mark.parametrize(("offset", "length"), [(0, 1), (1, 4095), (4097, 65537), (7, MIB)])
    def test_what_is_copied_in_comes_back(
        self, gpu: Gpu, kind: BufferKind, offset: int, length: int
    ) -> None:
        data, back = some_bytes(length), np.zeros(length, dtype=np.uint8)
        with allocate(gpu, 2 * MIB, kind) as buffer:
            gpu.host_to_device(buffer.address + offset, data)
            gpu.device_to_host(buffer.address + offset, back)
        assert np.array_equal(back, data)

    def test_a_copy_touches_nothing_beside_its_range(self, gpu: Gpu) -> None:
        whole, back = some_bytes(64 * KIB), np.zeros(64 * KIB, dtype=np.uint8)
        with allocate(gpu, 64 * KIB) as buffer:
            gpu.host_to_device(buffer.address, whole)
            gpu.host_to_device(buffer.address + 1001, some_bytes(333, seed=2))
            gpu.device_to_host(buffer.address, back)
        whole[1001:1334] = some_bytes(333, seed=2)
        assert np.array_equal(back, whole)

    def test_pinned_memory_is_the_same_memory_for_both(self, gpu: Gpu) -> None:
        data, back = some_bytes(5000), np.zeros(5000, dtype=np.uint8)
        with allocate(gpu, 5000, "pinned") as buffer:
            assert buffer.host_view is not None
            buffer.host_view[:] = data
            gpu.device_to_host(buffer.address, back)
        assert np.array_equal(back, data)

    @pytest.mark.parametrize("kind", GPU_MEMORY)
    @pytest.mark.parametrize("length", [1, 64 * KIB, 3 * MIB + 1])
    def test_gpu_memory_proves_what_it_is(self, gpu: Gpu, kind: BufferKind, length: int) -> None:
        with allocate(gpu, length, kind) as buffer:
            proof = prove(buffer)
        assert proof.gpu_memory, proof.text()
        assert buffer.host_view is None
        assert buffer.length_bytes == length <= buffer.allocated_bytes <= proof.range_bytes

    def test_pinned_memory_is_host_memory_and_never_gpudirect(self, gpu: Gpu) -> None:
        with allocate(gpu, 64 * KIB, "pinned") as buffer:
            proof = prove(buffer)
        assert (proof.memory_type, proof.gdr_capable) == ("host", False)
        assert not proof.gpu_memory

    def test_managed_memory_is_no_gpu_memory_whatever_its_type_says(self, gpu: Gpu) -> None:
        with allocate(gpu, 64 * KIB, "managed") as buffer:
            proof = prove(buffer)
        assert (proof.managed, proof.gdr_capable) == (True, False)
        assert not proof.gpu_memory

    @pytest.mark.parametrize("kind", GPU_MEMORY)
    @pytest.mark.parametrize("length", [1, 64 * KIB, 2 * MIB, 32 * MIB])
    def test_gpu_memory_is_exported_whole(self, gpu: Gpu, kind: BufferKind, length: int) -> None:
        with allocate(gpu, length, kind) as buffer, export(buffer, 0, length) as exported:
            os.fstat(exported.fd)
            assert exported.length_bytes == length
            assert exported.offset_bytes == buffer.address % os.sysconf("SC_PAGESIZE")
            assert exported.export_us > 0
            assert bool(exported.refused) <= (exported.flag == "plain")

    @pytest.mark.parametrize(("offset", "length"), [(4096, 4096), (4097, 1), (70_001, 123_457)])
    def test_an_interior_range_is_exported_with_its_offset(
        self, gpu: Gpu, offset: int, length: int
    ) -> None:
        with allocate(gpu, 2 * MIB) as buffer, export(buffer, offset, length) as exported:
            page = os.sysconf("SC_PAGESIZE")
            assert exported.offset_bytes == (buffer.address + offset) % page
            assert exported.length_bytes == length

    @pytest.mark.parametrize("kind", NOT_GPU_MEMORY)
    def test_no_other_memory_is_exported(self, gpu: Gpu, kind: BufferKind) -> None:
        with (
            allocate(gpu, 64 * KIB, kind) as buffer,
            pytest.raises(CudaError) as caught,
            export(buffer, 0, 64 * KIB),
        ):
            pass
        assert caught.value.name == INVALID_VALUE
        assert caught.value.function == "cuMemGetHandleForAddressRange"

    def test_descriptors_are_closed_also_after_a_failure(self, gpu: Gpu) -> None:
        with allocate(gpu, 2 * MIB) as buffer:
            before = open_descriptors()
            for _ in range(10):
                with pytest.raises(ZeroDivisionError), export(buffer, 0, 4096):
                    raise ZeroDivisionError
            assert open_descriptors() == before

    @pytest.mark.parametrize("kind", [*GPU_MEMORY, *NOT_GPU_MEMORY])
    def test_memory_is_freed_also_after_a_failure(self, gpu: Gpu, kind: BufferKind) -> None:
        # More all together than any GPU has: it must come back each time.
        free, _ = gpu.memory_info()
        length = min(free // 2, 256 * MIB) if kind == "pinned" else free // 2
        for _ in range(3):
            with pytest.raises(ZeroDivisionError), allocate(gpu, length, kind):
                raise ZeroDivisionError
        after, _ = gpu.memory_info()
        assert after >= free - 64 * MIB

    @pytest.mark.parametrize("kind", GPU_MEMORY)
    def test_more_memory_than_there_is_is_one_clear_error(self, gpu: Gpu, kind: BufferKind) -> None:
        length = 2 * gpu.device.total_bytes
        with pytest.raises(CudaError) as caught, allocate(gpu, length, kind):
            pass
        assert caught.value.name == "CUDA_ERROR_OUT_OF_MEMORY"
        assert caught.value.number == 2
        assert caught.value.function in {"cuMemAlloc", "cuMemCreate", "cuMemAddressReserve"}
        assert gpu.device.slot in str(caught.value)
        with allocate(gpu, 64 * KIB, kind) as buffer:
            assert prove(buffer).gpu_memory

    @pytest.mark.parametrize(
        ("offset", "length"), [(-1, 10), (0, 0), (0, 4097), (4096, 1), (4000, 97)]
    )
    def test_a_range_outside_of_the_buffer_is_refused(
        self, gpu: Gpu, offset: int, length: int
    ) -> None:
        with (
            allocate(gpu, 4096) as buffer,
            pytest.raises(ValueError, match=r"not inside a buffer of 4096 bytes"),
            export(buffer, offset, length),
        ):
            pass

    def test_the_flush_is_the_one_that_the_attributes_call_for(self, gpu: Gpu) -> None:
        attributes = gpu.device.attributes
        assert attributes.writes_ordering is not None
        done = flush_remote_writes(gpu)
        if attributes.writes_ordering >= 100:
            assert done == f"not needed (writes ordering {attributes.writes_ordering})"
        else:
            assert done == ("flushed" if (attributes.flush_options or 0) & 1 else "by read")

    def test_a_gpu_opened_twice_stays_open_for_the_other(self, gpu: Gpu) -> None:
        with open_gpu(gpu.device) as other:
            other.synchronize()
        with allocate(gpu, 4096) as buffer:
            assert prove(buffer).gpu_memory
