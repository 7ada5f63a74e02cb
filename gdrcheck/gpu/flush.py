"""Making what a NIC wrote into GPU memory visible to the GPU."""

from __future__ import annotations

from gdrcheck.gpu.compat import call, driver
from gdrcheck.gpu.context import Gpu

# CUflushGPUDirectRDMAWritesOptions and CUGPUDirectRDMAWritesOrdering of cuda.h.
_BY_HOST = 1
_ORDERED_FOR_OWNER = 100

FLUSHED = "flushed"
BY_READ = "by read"


def flush_remote_writes(gpu: Gpu) -> str:
    """Make the writes of NICs visible to the GPU that owns the memory, as its attributes call for.

    ``flushed`` after cuFlushGPUDirectRDMAWrites; ``not needed (writes ordering N)`` when the
    platform orders them; ``by read`` when the caller must do an RDMA READ of the same memory
    through the same NIC, because the driver has no flush or does not know its ordering. The GPU
    sees the writes in work that is given to it afterwards. CudaError if the flush is refused.
    """
    attributes = gpu.device.attributes
    ordering = attributes.writes_ordering
    if ordering is not None and ordering >= _ORDERED_FOR_OWNER:
        return f"not needed (writes ordering {ordering})"
    if not (attributes.flush_options or 0) & _BY_HOST:
        return BY_READ
    gpu.activate()
    call(
        f"cuFlushGPUDirectRDMAWrites on {gpu.device.slot}",
        driver.cuFlushGPUDirectRDMAWrites,
        driver.CUflushGPUDirectRDMAWritesTarget.CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
        driver.CUflushGPUDirectRDMAWritesScope.CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER,
    )
    return FLUSHED
