"""Codes about the memory of a GPU: what the driver says it is, and whether it keeps its bytes."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="GPU-MEMORY-KIND",
        title="Memory is not of the kind that was asked for",
        meaning=(
            "The driver's own attributes contradict what was allocated: memory of the GPU must be "
            "device memory, not managed, on this GPU and fit for GPUDirect; host memory must not "
            "pass for it. Tests with such memory would measure the way to host memory."
        ),
        evidence=(
            "Memory type, whether it is managed, device, whether it is fit for GPUDirect RDMA, and "
            "the range, as cuPointerGetAttribute gives them."
        ),
        causes=(
            "A library that stands before libcuda allocates managed memory instead.",
            "The GPU, or this virtual GPU, has no GPUDirect RDMA (attribute 116).",
            "The GPU cannot make virtual memory that is fit for GPUDirect (attribute 110).",
            "A fault of the driver.",
        ),
        repair=(
            "See which libraries are loaded before others: `echo $LD_PRELOAD $LD_LIBRARY_PATH` in "
            "the container.",
            "Read model and virtualization: `nvidia-smi -q | grep -E 'Product Name|Virtual'`.",
            "Compare with a good node that has the same driver; install another version.",
        ),
        source="CUDA driver API (cuPointerGetAttribute, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, "
        "IS_MANAGED, DEVICE_ORDINAL, IS_GPU_DIRECT_RDMA_CAPABLE)",
    ),
    Entry(
        code="GPU-PATTERN-WRONG",
        title="GPU memory does not hold the bytes that were written to it",
        meaning=(
            "A kernel wrote a pattern, no NIC was involved, and both the GPU and the CPU read "
            "other bytes back; or a byte that was made wrong on purpose was not found. The GPU's "
            "memory or its way to it is faulty, or the check cannot be trusted here."
        ),
        evidence="The first wrong offset, the number of wrong bytes, expected and found bytes.",
        causes=(
            "The GPU's memory has errors that ECC does not correct, or ECC is off.",
            "The GPU overheats or has too little power.",
            "A fault of the driver, or of a library that stands before libcuda.",
        ),
        repair=(
            "Do not use this GPU.",
            "Read the errors: `nvidia-smi -q -d ECC,ROW_REMAPPER -i SLOT`; `dmesg | grep Xid`.",
            "Drain the node, then `nvidia-smi --gpu-reset -i SLOT`, and run the checks again.",
            "Run NVIDIA's own test of memory: `dcgmi diag -r 3`.",
            "If it stays, have the GPU replaced.",
        ),
        source="NVIDIA Data Center GPU Manager documentation (diagnostics), gdrcheck's own pattern",
    ),
    Entry(
        code="GPU-VERIFIERS-DISAGREE",
        title="GPU and CPU judge the same bytes of GPU memory differently",
        meaning=(
            "The GPU's kernel and the CPU, which looks at a copy, compared the same range with the "
            "same pattern and came to different results. Bytes changed in between, or one of them "
            "does not see what is in the memory."
        ),
        evidence="What each of the two found, the transfer if there was one, the flush.",
        causes=(
            "Writes of the NIC arrived after the GPU had looked: they were not ordered or flushed "
            "as the device's attributes promise.",
            "The GPU read stale lines of a cache.",
            "The GPU computes wrongly, or its memory is faulty.",
            "A fault in the kernels of this program.",
        ),
        repair=(
            "Run the checks once more: note whether the same bytes differ.",
            "Read whether ordering is forced: `mlxconfig -d SLOT query PCI_WR_ORDERING` should say "
            "per_mkey.",
            "Read the GPU's errors: `nvidia-smi -q -d ECC,ROW_REMAPPER -i SLOT`; "
            "`dmesg | grep Xid`.",
            "Without any NIC in it (gpu_pattern): have the GPU tested, `dcgmi diag -r 3`.",
        ),
        source="NVIDIA's GPUDirect RDMA documentation (memory consistency), CUDA driver API "
        "(cuFlushGPUDirectRDMAWrites)",
    ),
)
