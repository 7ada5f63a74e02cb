"""Codes about registering memory with a NIC."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES = (
    Entry(
        code="MR-HOST-FAILED",
        title="Host memory does not register",
        meaning=(
            "ibv_reg_mr on ordinary host memory failed, and not for the memlock limit. Without "
            "it no RDMA works on this NIC, and GPU memory cannot be judged."
        ),
        evidence="The errno, the size, and whether smaller sizes registered.",
        causes=(
            "The NIC ran out of resources for memory regions (ENOMEM or EINVAL from the device).",
            "The node has too little free memory, or a memory cgroup limits the container.",
            "Driver and user space do not fit each other.",
            "The firmware of the NIC has stopped.",
        ),
        repair=(
            "Read the kernel's messages at the time of the failure: `dmesg -T | tail`.",
            "Check free memory (`free -m`) and the container's memory limit.",
            "Look for leaked memory regions: `rdma resource show mr`.",
            "Reload the driver or restart the node; then compare driver and firmware versions "
            "with those of a good node.",
        ),
        source="ibv_reg_mr(3), rdma-resource(8), Linux drivers/infiniband/core/umem.c",
    ),
    Entry(
        code="MR-ENOMEM-MEMLOCK",
        title="Registering memory fails with ENOMEM because of the memlock limit",
        meaning=(
            "Registration failed with ENOMEM at a size above RLIMIT_MEMLOCK while smaller sizes "
            "registered: the limit on locked memory stops it, not a lack of memory."
        ),
        evidence="errno 12, the size, RLIMIT_MEMLOCK, and whether CAP_IPC_LOCK is effective.",
        causes=(
            "The container was started without `--ulimit memlock=-1:-1` and without an effective "
            "CAP_IPC_LOCK.",
            "IPC_LOCK was granted, but the process is not root, so it has no effect.",
            "The process has registered other memory already: all that it has pinned counts "
            "towards the limit.",
        ),
        repair=(
            "Inside the container: `grep locked /proc/self/limits`; `grep CapEff "
            "/proc/self/status`.",
            "Start the container with `--ulimit memlock=-1:-1` and `--cap-add IPC_LOCK`, as root.",
            "Set `LimitMEMLOCK=infinity` where the container's parent service is defined.",
        ),
        source="ibv_reg_mr(3), getrlimit(2), Linux drivers/infiniband/core/umem.c (ib_umem_get)",
    ),
    Entry(
        code="MR-WRONG-RANGE",
        title="A registration covers another range than was asked for",
        meaning=(
            "The memory region came back with an address or a length that differs from the "
            "request. Using it would read or write memory that nobody offered."
        ),
        evidence="Address and length as asked for and as returned.",
        causes=(
            "A fault in the user-space provider or its Python binding.",
            "Library and kernel driver come from different releases.",
        ),
        repair=(
            "Do not use this node for RDMA.",
            "Compare the versions of rdma-core in the image and of the driver on the host "
            "(`modinfo mlx5_ib`, `uname -r`) with those of a good node.",
            "If they are the same, report the fault to the maintainers of the provider.",
        ),
        source="ibv_reg_mr(3)",
    ),
)
