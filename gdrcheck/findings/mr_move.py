"""Codes about moving data from and to GPU memory through one NIC."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="MR-MOVE-FAILED",
        title="GPU memory registers, and a transfer through the NIC fails",
        meaning=(
            "RDMA WRITE or READ between regions of the same NIC did not complete. The NIC could "
            "not reach the GPU's memory, in this direction at least; registration alone proves "
            "nothing."
        ),
        evidence=(
            "The operation and way, completion status and vendor's error, which transfers "
            "completed before, distance, ACS, IOMMU."
        ),
        causes=(
            "ACS on the bridges between GPU and NIC sends requests up to the root complex, which "
            "does not pass them on (LOC_PROT_ERR with vendor error 0x51, or no end).",
            "READ alone fails: the chipset passes writes between devices on, but no reads.",
            "The IOMMU translates, and has no mapping for the GPU's window.",
            "The dma-buf was exported with the wrong mapping type for this NIC (GPUs that are "
            "coherent with the CPU).",
            "The GPU was reset or fell off the bus.",
        ),
        repair=(
            "Read the kernel's messages: `dmesg | grep -i -E 'IO_PAGE_FAULT|DMAR|Xid|AER'`.",
            "Read ACS as root: `lspci -vvv | grep -E '^[0-9a-f]|ACSCtl'`; the repair of PCI-ACS "
            "tells how to switch it off.",
            "Read the IOMMU: `cat /proc/cmdline`; `iommu=pt` lets devices pass.",
            "In a virtual machine ask for ATS, or for pass-through below one switch.",
            "Try a NIC below the same switch (`nvidia-smi topo -m`), and compare firmware settings "
            "with a good node.",
        ),
        source="ibv_poll_cq(3), NVIDIA's GPUDirect RDMA documentation (supported systems), PCI "
        "Express base specification 6.12 (ACS)",
    ),
    Entry(
        code="MR-DATA-WRONG",
        title="Data that went through the NIC is wrong in GPU memory",
        meaning=(
            "The transfer completed without an error, and bytes of the range are not those that "
            "were sent. Programs would compute with wrong data and not notice."
        ),
        evidence=(
            "The first wrong offset, the number of wrong bytes, expected and found bytes, what "
            "they look like: poison was never written, zeros were lost, a previous iteration is "
            "stale, shifted or a neighbour's is right data in the wrong place."
        ),
        causes=(
            "Zeros or poison: the IOMMU or ACS dropped the requests between GPU and NIC.",
            "Stale: the writes had not reached the GPU's memory when it looked, although they "
            "were flushed; the NIC is forced to relaxed ordering.",
            "Shifted or a neighbour's: an offset into the dma-buf is applied wrongly.",
            "Single wrong bytes: faulty memory, link or board.",
        ),
        repair=(
            "Do not use this GPU with this NIC.",
            "Read ACS and IOMMU as root: `lspci -vvv | grep -E '^[0-9a-f]|ACSCtl'`; "
            "`cat /proc/cmdline`; `dmesg | grep -i -E 'IO_PAGE_FAULT|DMAR'`.",
            "Read whether ordering is forced: `mlxconfig -d SLOT query PCI_WR_ORDERING` should say "
            "per_mkey.",
            "Read errors of memory and links: `nvidia-smi -q -d ECC,ROW_REMAPPER`; "
            "`dmesg | grep -E 'AER|Xid'`.",
            "Compare the versions of driver, firmware and rdma-core with a good node.",
        ),
        source="NVIDIA's GPUDirect RDMA documentation (memory consistency), CUDA driver API "
        "(cuFlushGPUDirectRDMAWrites)",
    ),
    Entry(
        code="MR-DATA-SPILLED",
        title="A transfer changed bytes beside its range",
        meaning=(
            "The transfer completed, and bytes before or after its range, or of the neighbouring "
            "region, are no longer what they were. Memory of others is overwritten without any "
            "error."
        ),
        evidence="Where the changed bytes lie, the range, operation and way.",
        causes=(
            "An offset into the dma-buf is ignored or applied twice, by a library or driver.",
            "The region covers more than was asked for.",
            "Another process writes to the same memory.",
        ),
        repair=(
            "Do not use this node for GPUDirect RDMA.",
            "Compare the versions of NVIDIA's driver, NIC driver and rdma-core with a good node.",
            "See whether the other method spills as well; if not, promise only that one.",
            "Report the fault to the maintainers of the driver.",
        ),
        source="ibv_reg_mr(3) (offset and iova), gdrcheck's own guard bytes",
    ),
)
