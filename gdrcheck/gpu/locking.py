"""Host memory that copies of the GPU reach at full speed."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager

from gdrcheck.gpu.compat import call, driver, undone
from gdrcheck.gpu.context import Gpu
from gdrcheck.pattern import Bytes
from gdrcheck.sizes import size_text


@contextmanager
def page_locked(gpu: Gpu, memory: Bytes) -> Iterator[None]:
    """Lock the pages of ``memory`` for copies by ``gpu`` until the end of the block.

    Without it the driver copies by way of a buffer of its own, several times slower. The owner of
    ``memory`` keeps it mapped. CudaError if the driver refuses.
    """
    address = int(memory.ctypes.data)
    first = address - address % mmap.PAGESIZE
    length = -(-(address + memory.nbytes - first) // mmap.PAGESIZE) * mmap.PAGESIZE
    text = f"{size_text(length)} of host memory for {gpu.device.slot}"
    gpu.activate()
    call(f"cuMemHostRegister of {text}", driver.cuMemHostRegister, first, length, 0)
    with (
        undone(f"cuMemHostUnregister of {text}", driver.cuMemHostUnregister, first),
        gpu.current(),
    ):
        yield
