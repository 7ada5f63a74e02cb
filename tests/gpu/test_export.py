"""dma-buf export of real GPU memory: any size, any range, nothing left behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.gpu_export import SIZES_BYTES, NotTried, measure
from gdrcheck.gpu.buffers import allocate
from gdrcheck.gpu.compat import call, driver
from gdrcheck.gpu.context import Gpu
from gdrcheck.gpu.errors import INVALID_VALUE, CudaError
from gdrcheck.gpu.export import export
from gdrcheck.registration import BufferKind
from gdrcheck.sizes import size_text
from tests.gpu.room import need
from tests.gpu_layer.bodies import GPU_MEMORY, open_descriptors

pytestmark = pytest.mark.gpu

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
PAGE = os.sysconf("SC_PAGESIZE")
TIMES = 500


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


@pytest.mark.parametrize("length_bytes", SIZES_BYTES, ids=size_text)
def test_a_size_exports(
    gpu: Gpu, length_bytes: int, record_property: Callable[[str, object], None]
) -> None:
    (answer,) = measure(gpu, [length_bytes])
    name = f"export of {size_text(length_bytes)}"
    if isinstance(answer, NotTried):
        record_property(name, answer.why)
        need(gpu, length_bytes)
        pytest.fail(f"{answer.why}, and that is enough")
    record_property(name, f"{answer.median_us:.1f} us, {answer.flag}")
    assert len(answer.times_us) > 1
    assert {answer.flag} <= {"pcie", "plain"}
    assert bool(answer.refused) <= (answer.flag == "plain")


@pytest.mark.parametrize("kind", GPU_MEMORY)
@pytest.mark.parametrize(
    ("offset_bytes", "length_bytes"),
    [(0, 1), (1, 1), (PAGE - 1, 2), (PAGE, PAGE), (12345, 67890), (4 * MIB - 1, 1)],
)
def test_a_dmabuf_holds_the_pages_around_its_range(
    gpu: Gpu, kind: BufferKind, offset_bytes: int, length_bytes: int
) -> None:
    with (
        allocate(gpu, 4 * MIB, kind) as buffer,
        export(buffer, offset_bytes, length_bytes) as exported,
    ):
        assert exported.offset_bytes == (buffer.address + offset_bytes) % PAGE
        assert exported.length_bytes == length_bytes
        pages = os.lseek(exported.fd, 0, os.SEEK_END)
        assert pages % PAGE == 0
        assert exported.offset_bytes + length_bytes <= pages
        assert pages < exported.offset_bytes + length_bytes + PAGE
        assert "dmabuf" in os.readlink(f"/proc/self/fd/{exported.fd}")


@pytest.mark.parametrize("length_bytes", [1, 100, PAGE, 64 * KIB, 64 * KIB + 1, 3 * MIB + 5])
def test_an_odd_allocation_exports_whole_beside_others(gpu: Gpu, length_bytes: int) -> None:
    """Small allocations share a block of the driver, so not each begins where a block does."""
    with (
        allocate(gpu, length_bytes) as first,
        allocate(gpu, length_bytes) as second,
        export(first, 0, length_bytes) as one,
        export(second, 0, length_bytes) as other,
    ):
        assert one.fd != other.fd
        assert (one.offset_bytes, other.offset_bytes) == (0, 0)


@pytest.mark.parametrize(("shift", "length_bytes"), [(0, PAGE + 1), (1, PAGE), (8, PAGE)])
def test_the_driver_refuses_what_export_rounds(gpu: Gpu, shift: int, length_bytes: int) -> None:
    """The trap is real: passed on as it is, such a range is refused."""
    with allocate(gpu, MIB) as buffer:
        with pytest.raises(CudaError) as refused:
            call(
                "cuMemGetHandleForAddressRange without rounding",
                driver.cuMemGetHandleForAddressRange,
                buffer.address + shift,
                length_bytes,
                driver.CUmemRangeHandleType.CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                0,
            )
        assert refused.value.name == INVALID_VALUE
        with export(buffer, shift, length_bytes) as exported:
            assert exported.offset_bytes == shift


def test_exports_leave_nothing_behind(gpu: Gpu) -> None:
    need(gpu, GIB)
    with allocate(gpu, GIB) as buffer:

        def again(times: int) -> None:
            for _ in range(times):
                with export(buffer, 4097, MIB):
                    pass

        again(TIMES // 10)
        descriptors, resident, free = open_descriptors(), resident_bytes(), gpu.memory_info()[0]
        again(TIMES)
        assert open_descriptors() == descriptors
        # What every export would hold, had it stayed, is more by far.
        assert resident_bytes() - resident < TIMES * KIB
        assert free - gpu.memory_info()[0] < TIMES * KIB
