"""Codes about registering GPU memory, by whichever method."""

from __future__ import annotations

from gdrcheck.findings.model import Entry, Severity

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="MR-GPU-NO-GDR",
        title="The GPU has no GPUDirect RDMA",
        meaning=(
            "The GPU supports neither way for a NIC to its memory. Data to and from it goes "
            "through host memory; nothing on the side of the NIC changes that."
        ),
        evidence="The attributes 116 and 124 of the GPU, its model, virtualization.",
        causes=(
            "It is a model without it: GeForce boards, Jetson and DGX Spark have none.",
            "It is a virtual GPU (vGPU) whose profile or guest has none.",
            "Confidential computing is on.",
        ),
        repair=(
            "Read model and virtualization: `nvidia-smi -q | grep -E 'Product Name|Virtual'`.",
            "Virtual GPU: use a profile with GPUDirect, or pass the whole GPU through.",
            "Read the confidential mode: `nvidia-smi conf-compute -f`; switch it off if the node "
            "should not have it.",
            "If the model has none, take the node out of this profile.",
        ),
        source="CUDA driver API (CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, "
        "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED), NVIDIA's vGPU documentation",
    ),
    Entry(
        code="MR-BAR1-FULL",
        title="A registration does not fit into the GPU's window on PCIe (BAR1)",
        meaning=(
            "Every byte that a NIC reaches must lie in the window BAR1. The range is larger than "
            "what is left of it, or smaller ranges registered and this one did not."
        ),
        evidence=(
            "errno (12 or 14), the range, what registered before, size and use of BAR1 as NVML "
            "gave them before the checks."
        ),
        causes=(
            "BAR1 is of 256 MiB: resizable BARs or addressing above 4 GiB are switched off in the "
            "firmware, or the board is in display mode.",
            "Other processes have registered memory of this GPU, or mapped it.",
            "Registrations were leaked and never given back.",
        ),
        repair=(
            "Read size and use: `nvidia-smi -q -d MEMORY -i SLOT` (BAR1 Memory Usage).",
            "Look for who uses it: `nvidia-smi`; `rdma resource show mr`.",
            "Too small: the repair of GPU-BAR1-SMALL tells how to enlarge it.",
            "Otherwise applications must register less at a time.",
        ),
        source="NVIDIA's GPUDirect RDMA documentation (BAR sizes), nv-dmabuf.c and "
        "nvidia-peermem.c of NVIDIA's open driver",
    ),
    Entry(
        code="MR-GPU-DENIED",
        title="Registering GPU memory is not permitted",
        meaning=(
            "The call failed with EPERM or EACCES, or CUDA says that it is not permitted: a policy "
            "of the system forbids it, not the hardware."
        ),
        evidence="errno 1 or 13, or the CUDA error; SELinux, capabilities and user id.",
        causes=(
            "SELinux or AppArmor does not allow the container to use the devices.",
            "The container's list of allowed devices lacks one of NVIDIA's or of InfiniBand's.",
            "A seccomp profile forbids the call.",
            "The GPU's memory belongs to a partition that this user may not use.",
        ),
        repair=(
            "Look for refusals: `ausearch -m AVC -ts recent`; `dmesg | grep -i -E 'avc|apparmor'`.",
            "Start the container with `--security-opt label=disable`, once, to see whether it is "
            "SELinux; then give it a policy.",
            "Compare device nodes on host and in container: `ls -l /dev/infiniband "
            "/dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-uvm`.",
        ),
        source="ibv_reg_mr(3), CUDA driver API (CUresult), selinux(8), capabilities(7)",
    ),
    Entry(
        code="MR-GPU-FAILED",
        title="GPU memory does not register, and no single cause explains it",
        meaning=(
            "Registration failed with an errno that none of the known causes gives, or gives under "
            "these circumstances. What comes into question is in the evidence (candidates)."
        ),
        evidence=(
            "errno or CUDA error, the step and range, what registered before, and all that is "
            "known of modules, attributes, BAR1, limits, IOMMU and topology."
        ),
        causes=(
            "The NIC's firmware or driver refused the region (EINVAL, EIO, EREMOTEIO, ETIMEDOUT).",
            "The NIC ran out of resources for memory regions (ENOMEM, ENOSPC).",
            "The IOMMU could not map the GPU's window for the NIC.",
            "Driver and user space do not fit each other.",
        ),
        repair=(
            "Read the kernel's messages at that time: `dmesg -T | tail`.",
            "See whether host memory registers on the same NIC (host_memory_registers).",
            "Compare with the cases of the other method, and of the other NICs with this GPU: all "
            "are tried and told. With `matrix: full` in the profile all pairs are judged, too.",
            "Look for leaked memory regions: `rdma resource show mr`.",
            "Compare driver, firmware and kernel with a good node; restart the node.",
        ),
        source="ibv_reg_mr(3), Linux drivers/infiniband/core/umem.c and umem_dmabuf.c",
    ),
    Entry(
        code="MR-NOT-GPU-MEMORY",
        title="A registration works that cannot work: it was not of GPU memory",
        meaning=(
            "The registration succeeded, and the evidence says that it could not have: no peermem "
            "module is loaded, or the GPU cannot export memory. What was registered was host "
            "memory, or the evidence is not of this machine. Nothing is proven by it."
        ),
        evidence="Module state, the GPU's attributes, what the driver says of the buffer.",
        causes=(
            "The memory was managed memory, or host memory with a device pointer.",
            "The facts were read from another root than the one that the driver runs on.",
            "A module under another name does the work of nvidia-peermem.",
            "A library that stands before libibverbs or libcuda changes the calls.",
        ),
        repair=(
            "List the modules: `lsmod | grep -E 'peer|nvidia'`.",
            "See which libraries are loaded before others: `echo $LD_PRELOAD $LD_LIBRARY_PATH` in "
            "the container.",
            "Trust no result about GPUDirect from this node until it is explained.",
        ),
        source="kernel-open/nvidia-peermem of NVIDIA's open driver, CUDA driver API "
        "(cuPointerGetAttribute), Linux drivers/infiniband/core/umem.c",
    ),
    Entry(
        code="MR-WRONG-KEY",
        title="Two memory regions have a key in common",
        meaning=(
            "Two regions that lived at the same time came back with the same lkey or rkey. A work "
            "request that names one of them may read or write the other."
        ),
        evidence="The keys of two neighbouring ranges of one allocation.",
        causes=(
            "A fault in the user-space provider or its Python binding.",
            "Library and kernel driver come from different releases.",
        ),
        repair=(
            "Do not use this NIC for RDMA.",
            "Compare the versions of rdma-core in the image and of the driver on the host "
            "(`modinfo mlx5_ib`, `uname -r`) with those of a good node.",
            "If they are the same, report the fault to the maintainers of the provider.",
        ),
        source="ibv_reg_mr(3), InfiniBand Architecture Specification vol. 1, 10.6",
    ),
    Entry(
        code="MR-LEAK",
        title="Registering GPU memory again and again leaves something behind",
        meaning=(
            "The same range was registered many times, each undone before the next, and "
            "descriptors, memory of the process or memory of the GPU stayed in use; or after many "
            "times there was none left. Long runs will end in failures."
        ),
        evidence="Open files, resident memory and the GPU's free memory, before and after.",
        causes=(
            "The driver does not give back what a dma-buf or a pinned range held.",
            "A fault in the user-space provider or its Python binding.",
            "Another process took memory of the GPU meanwhile.",
        ),
        repair=(
            "See whether another process uses the GPU: `nvidia-smi`.",
            "Run the checks once more on the drained node.",
            "Watch the regions while it runs: `rdma resource show mr`.",
            "Compare the versions of NVIDIA's driver and rdma-core with a good node, and install "
            "newer ones.",
        ),
        source="ibv_dereg_mr(3), CUDA driver API (cuMemGetHandleForAddressRange), gdrcheck's own "
        "tolerance",
    ),
    Entry(
        code="MR-SLOW",
        title="Registering GPU memory is very slow",
        meaning=(
            "A step took more than a second for each GiB, or ever longer with each repetition. "
            "Everything works; programs that register often will wait."
        ),
        evidence="The time of the step by size, and at the beginning and end of many times.",
        causes=(
            "Some drivers need longer the more memory is registered already.",
            "The IOMMU maps page by page.",
            "The node was busy with something else.",
        ),
        repair=(
            "Run the checks once more on the drained node.",
            "Read whether the IOMMU translates: `cat /proc/cmdline`; `iommu=pt` on the kernel's "
            "command line lets devices pass.",
            "Register once and keep the region; use fewer domains for the same memory.",
        ),
        severity=Severity.WARN,
        source="gdrcheck's own rule: 1 s for each GiB, and growth by ten times",
    ),
)
