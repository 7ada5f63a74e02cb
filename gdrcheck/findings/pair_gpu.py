"""Codes about moving data between two nodes that are of GPU memory."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES = (
    Entry(
        code="PAIR-GPU-READ",
        title="The NIC cannot read this GPU's memory",
        meaning=(
            "Transfers whose source is memory of this GPU fail, while the same transfers from host "
            "memory pass: the fabric is fine, GPUDirect RDMA at this end is not, where the NIC "
            "reads (a peer read). SEND, RDMA WRITE and being read by RDMA READ all do so."
        ),
        evidence=(
            "Operations that failed and passed by mode and way of the data, completion status and "
            "vendor error, what both ends saw, the methods of registration, and the repetition."
        ),
        causes=(
            "Access control services (ACS) on PCIe bridges send peer traffic to the root complex, "
            "which does not pass it on.",
            "The IOMMU translates, and has no entry for the GPU's memory.",
            "The chipset does not forward reads between its root ports, though it forwards writes.",
            "The BIOS places GPU memory where the NIC cannot address it.",
            "In a virtual machine: address translation services (ATS) are off.",
            "The dma-buf was exported with a mapping for another path (GB200 and alike).",
        ),
        repair=(
            "See what lies between GPU and NIC, and how far apart they are: `gdrcheck topo`.",
            "Read ACS on each bridge between, as root: `lspci -vvv -s BRIDGE | grep ACSCtl`; turn "
            "the redirects off (SrcValid-, ReqRedir-, CmpltRedir-) in the BIOS.",
            "Look for faults of the IOMMU: `dmesg -T | grep -i -E 'IO_PAGE_FAULT|DMAR|smmu'`; use "
            "pass-through (`iommu=pt`), or turn it off.",
            "Compare BIOS settings and firmware with a node that passes; in a virtual machine turn "
            "ATS on for GPU and NIC at the hypervisor.",
            "Try the other method of registration: registration in the profile, or by hand "
            "`gdrcheck pingpong HOST --method peermem` (or dmabuf); the cases "
            "gpu_memory_registers tell with which mapping (pcie, plain) a dma-buf was exported.",
        ),
        source="ibv_poll_cq(3), PCI Express Base Specification (ACS, ordering), NVIDIA GPUDirect "
        "RDMA documentation",
    ),
    Entry(
        code="PAIR-GPU-WRITE",
        title="The NIC cannot write this GPU's memory",
        meaning=(
            "Transfers whose sink is memory of this GPU fail, while the same transfers to host "
            "memory pass: the fabric is fine, GPUDirect RDMA at this end is not, where the NIC "
            "writes (a peer write). Receiving a SEND, being written by RDMA WRITE and the answer "
            "to an RDMA READ all do so."
        ),
        evidence=(
            "Operations that failed and passed by mode and way of the data, completion status and "
            "vendor error, what both ends saw, the methods of registration, and the repetition."
        ),
        causes=(
            "Access control services (ACS) on PCIe bridges send peer traffic to the root complex, "
            "which does not pass it on.",
            "The IOMMU translates, and has no entry for the GPU's memory.",
            "The BIOS places GPU memory where the NIC cannot address it.",
            "In a virtual machine: address translation services (ATS) are off.",
            "Only RDMA WRITE fails: the memory was registered without the right to be written from "
            "afar.",
            "The dma-buf was exported with a mapping for another path (GB200 and alike).",
        ),
        repair=(
            "See what lies between GPU and NIC, and how far apart they are: `gdrcheck topo`.",
            "Read ACS on each bridge between, as root: `lspci -vvv -s BRIDGE | grep ACSCtl`; turn "
            "the redirects off (SrcValid-, ReqRedir-, CmpltRedir-) in the BIOS.",
            "Look for faults of the IOMMU: `dmesg -T | grep -i -E 'IO_PAGE_FAULT|DMAR|smmu'`; use "
            "pass-through (`iommu=pt`), or turn it off.",
            "Compare BIOS settings and firmware with a node that passes; in a virtual machine turn "
            "ATS on for GPU and NIC at the hypervisor.",
            "Try the other method of registration: registration in the profile, or by hand "
            "`gdrcheck pingpong HOST --method peermem` (or dmabuf); the cases "
            "gpu_memory_registers tell with which mapping (pcie, plain) a dma-buf was exported.",
        ),
        source="ibv_poll_cq(3), ibv_reg_mr(3), PCI Express Base Specification (ACS), NVIDIA "
        "GPUDirect RDMA documentation",
    ),
    Entry(
        code="PAIR-GPU-BOTH-ENDS",
        title="GPU memory to GPU memory fails, though each end alone works",
        meaning=(
            "Each end's GPU memory passes against the other's host memory, the same operation "
            "between both GPUs fails, and failed again when it was repeated alone. Only both ends "
            "together show it, so no end is named."
        ),
        evidence=(
            "Operations that failed and passed by mode and way of the data, completion status and "
            "vendor error, what both ends saw, and the repetition."
        ),
        causes=(
            "A peer path at one end is so slow that timers run out only when both ends are slow.",
            "The ends registered their memory by different methods, or with different mappings.",
            "Firmware or driver of the two nodes differ, and do not fit each other.",
        ),
        repair=(
            "Read both ends' statuses in the finding; the first that is no flush is the nearest.",
            "Compare the ends: HOST-DRIFT and PORT-FIRMWARE-DIFFERS say how they differ.",
            "Measure either node with a third one: the end that fails there is at fault.",
            "See PAIR-PEER-PATH-SLOW and PAIR-BANDWIDTH-LOW for the speed of each end's path.",
        ),
        source="ibv_poll_cq(3)",
    ),
    Entry(
        code="PAIR-READ-REFUSED",
        title="RDMA READ alone fails",
        meaning=(
            "RDMA READ of this end's memory fails, while SEND and RDMA WRITE from the same memory "
            "pass. The NIC can read the memory; what is missing is the right to be read from afar, "
            "or room for read requests."
        ),
        evidence=(
            "Operations that failed and passed by mode and way of the data, completion status and "
            "vendor error, what both ends saw, the methods of registration, and the repetition."
        ),
        causes=(
            "REM_ACCESS_ERR: the memory region, or the queue pair, has no IBV_ACCESS_REMOTE_READ.",
            "REM_INV_REQ_ERR: the responder was set up for fewer read requests at a time than the "
            "requester sends (max_dest_rd_atomic against max_rd_atomic).",
            "REM_OP_ERR, or no answer: the chipset does not serve the reads that the NIC makes in "
            "order to answer; reported of some platforms, with no error logged anywhere.",
            "A filter of the fabric or of the hypervisor refuses RDMA READ.",
        ),
        repair=(
            "Read the status in the finding, and that end's kernel messages: "
            "`dmesg -T | grep -i -E 'mlx5|cqe|rxe'`.",
            "REM_ACCESS_ERR: gdrcheck asks for that right itself, so driver or provider lost it: "
            "compare `ofed_info -s` or the packages with a node that passes.",
            "Compare what the devices can do: `ibv_devinfo -v -d DEVICE | grep rd_atom`; "
            "max_qp_rd_atom of 0 at an end means that it cannot be read from at all.",
            "Compare driver, rdma-core and firmware with a node that passes.",
            "No answer: treat it as PAIR-GPU-READ.",
        ),
        source="ibv_reg_mr(3), ibv_modify_qp(3), ibv_poll_cq(3)",
    ),
    Entry(
        code="PAIR-ATOMIC-REFUSED",
        title="Atomic operations alone fail with GPU memory",
        meaning=(
            "Fetch-and-add or compare-and-swap fails with memory of this GPU, while other "
            "operations with it pass, and atomic operations on host memory pass as well. The "
            "profile promises atomic operations."
        ),
        evidence=(
            "Operations that failed and passed by mode and way of the data, completion status and "
            "vendor error, what both ends saw, the methods of registration, and the repetition."
        ),
        causes=(
            "REM_ACCESS_ERR: the memory region, or the queue pair, has no "
            "IBV_ACCESS_REMOTE_ATOMIC.",
            "The NIC needs atomic operations of PCI Express for memory that is not the host's, and "
            "a bridge between does not pass them on.",
            "The device is atomic among its own operations only, and not for such memory.",
        ),
        repair=(
            "Read what the device offers: `ibv_devinfo -v -d DEVICE | grep -i atom`.",
            "Read what the bridges between pass on, as root: "
            "`lspci -vvv -s BRIDGE | grep -i AtomicOps`.",
            "Or drop transfers.atomics from the profile if nobody uses them on GPU memory.",
        ),
        source="ibv_post_send(3), ibv_query_device_ex(3), PCI Express Base Specification",
    ),
    Entry(
        code="PAIR-VERDICTS-DIFFER",
        title="GPU and CPU disagree about the same bytes",
        meaning=(
            "After a transfer the GPU's kernel and a copy to the CPU do not find the same in the "
            "same GPU memory. One of them saw old data: completions, or flushes, do not order the "
            "NIC's writes before the GPU's reads."
        ),
        evidence=(
            "What GPU and CPU found, operation, size, iteration, and how writes of the NIC are "
            "made visible (the flush)."
        ),
        causes=(
            "The NIC's firmware forces relaxed ordering (force_relax).",
            "The flush that the driver asks for is not enough on this platform.",
            "The GPU's cache or memory is defective.",
        ),
        repair=(
            "Do not use this GPU with this NIC until it is explained.",
            "Check that the NIC does not force relaxed ordering: "
            "`mlxconfig -d SLOT query PCI_WR_ORDERING` should say per_mkey.",
            "Compare driver and firmware with a node that passes, and update them.",
            "Look for memory errors: `nvidia-smi -q -d ECC,PAGE_RETIREMENT,ROW_REMAPPER`.",
        ),
        source="CUDA driver API (cuFlushGPUDirectRDMAWrites), PCI Express Base Specification "
        "(relaxed ordering)",
    ),
    Entry(
        code="PAIR-SOURCE-CHANGED",
        title="The source's memory is not as it was filled",
        meaning=(
            "A message was wrong, and the source found its own memory different from what it had "
            "written there. The fault is at the source, before anything was sent; the way to the "
            "sink is not at fault."
        ),
        evidence=(
            "What of the source's memory changed, and what the sink received: offset, number of "
            "wrong bytes, and what they look like."
        ),
        causes=(
            "GPU or host memory is defective.",
            "Another process, or another device, writes into that memory.",
            "The kernel that fills the memory did not do so (driver, or a GPU that fails).",
        ),
        repair=(
            "Do not use this GPU, or this host memory, until it is explained.",
            "GPU: look for memory errors and XIDs: "
            "`nvidia-smi -q -d ECC,PAGE_RETIREMENT,ROW_REMAPPER`; `dmesg -T | grep -i xid`.",
            "Host: `dmesg -T | grep -i -E 'mce|edac|hardware error'`, and run a memory test.",
            "Repeat alone; a GPU that fails again is to be replaced.",
        ),
        source="NVIDIA XID documentation, Linux Documentation/driver-api/edac.rst",
    ),
)
