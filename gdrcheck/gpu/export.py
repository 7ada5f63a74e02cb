"""GPU memory as a dma-buf descriptor that a NIC can register."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from gdrcheck import steps
from gdrcheck.gpu.buffers import Buffer
from gdrcheck.gpu.compat import driver, quiet
from gdrcheck.gpu.errors import INVALID_VALUE, NOT_SUPPORTED, CudaError
from gdrcheck.gpu.library import driver_version
from gdrcheck.sizes import size_text

Flag = Literal["pcie", "plain"]
# CUmemRangeFlags of cuda.h: pcie is CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE.
_NUMBERS: dict[Flag, int] = {"pcie": 1, "plain": 0}
# In the order in which they are tried.
FLAGS: tuple[Flag, ...] = ("pcie", "plain")
PLAIN: tuple[Flag, ...] = ("plain",)
# The first CUDA version whose drivers know the PCIe flag: drivers from 570 on.
_PCIE_FLAG_CUDA = (12, 8)
# How a driver says that it has no such mapping here; anything else is a failure of the export.
_CANNOT = frozenset({INVALID_VALUE, NOT_SUPPORTED})


@dataclass(frozen=True, slots=True)
class Export:
    """An exported range; ``fd`` is closed by ``export``, registrations of it live on.

    The dma-buf starts at a page: the range that was asked for, ``length_bytes`` long, begins
    ``offset_bytes`` into it. ``flag`` is the mapping type that worked, ``refused`` tells of the one
    that was tried before. ``export_us`` is the time of the call that worked.
    """

    fd: int
    offset_bytes: int
    length_bytes: int
    flag: Flag
    export_us: float
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PageRange:
    """Whole pages around a range, which begins ``offset_bytes`` into them."""

    address: int
    length_bytes: int
    offset_bytes: int


def page_range(address: int, length_bytes: int, page_bytes: int) -> PageRange:
    """The fewest pages that hold ``length_bytes`` bytes at ``address``."""
    start = address - address % page_bytes
    end = -(-(address + length_bytes) // page_bytes) * page_bytes
    return PageRange(start, end - start, address - start)


@contextmanager
def export(
    buffer: Buffer,
    offset_bytes: int,
    length_bytes: int,
    page_bytes: int | None = None,
    flags: tuple[Flag, ...] = FLAGS,
) -> Iterator[Export]:
    """A range of the buffer as a dma-buf; the descriptor is closed at the end of the block.

    The driver takes whole pages of the host only, ``page_bytes`` if that is not to be asked. The
    mapping for PCIe is tried first and the plain one when the driver cannot make that one; with
    ``PLAIN`` for ``flags``, the plain one only. CudaError when no mapping could be made, ValueError
    for a range outside of the buffer.
    """
    buffer.check_range(offset_bytes, length_bytes)
    pages = page_range(
        buffer.address + offset_bytes, length_bytes, page_bytes or os.sysconf("SC_PAGESIZE")
    )
    buffer.gpu.activate()
    made = _made(buffer, pages, length_bytes, flags)
    try:
        yield made
    finally:
        os.close(made.fd)


def _made(buffer: Buffer, pages: PageRange, length_bytes: int, flags: tuple[Flag, ...]) -> Export:
    refused: tuple[str, ...] = ()
    if "pcie" in flags and driver_version() >= _PCIE_FLAG_CUDA:
        try:
            fd, took_us = _handle(buffer, pages, "pcie")
            return Export(fd, pages.offset_bytes, length_bytes, "pcie", took_us, refused)
        except CudaError as problem:
            if problem.name not in _CANNOT:
                raise
            refused = (str(problem),)
    fd, took_us = _handle(buffer, pages, "plain")
    return Export(fd, pages.offset_bytes, length_bytes, "plain", took_us, refused)


def _handle(buffer: Buffer, pages: PageRange, flag: Flag) -> tuple[int, float]:
    what = (
        f"cuMemGetHandleForAddressRange ({flag}) of {size_text(pages.length_bytes)} of "
        f"{buffer.kind} memory on {buffer.gpu.device.slot}"
    )
    with steps.step(what):
        start = time.perf_counter()
        (fd,) = quiet(
            what,
            driver.cuMemGetHandleForAddressRange,
            pages.address,
            pages.length_bytes,
            driver.CUmemRangeHandleType.CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
            _NUMBERS[flag],
        )
        took_s = time.perf_counter() - start
    return int(fd), took_s * 1e6
