"""Codes about registering GPU memory by dma-buf."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="MR-DMABUF-NO-GPU",
        title="The GPU's driver cannot export memory as a dma-buf",
        meaning=(
            "The GPU's attribute for dma-buf reads 0, so CUDA cannot give a NIC its memory in this "
            "way. GPUDirect RDMA may still be had with nvidia-peermem."
        ),
        evidence=(
            "The attributes 116 (GPUDirect RDMA) and 124 (dma-buf) of the GPU, the CUDA error of "
            "the export, driver and kind of its kernel module, kernel, confidential computing."
        ),
        causes=(
            "NVIDIA's proprietary kernel module is loaded.",
            "The driver is older than 515, or supports a CUDA older than 11.7.",
            "Confidential computing is on, which allows no direct access.",
            "The kernel was built without CONFIG_DMA_SHARED_BUFFER.",
            "The GPU is a virtual one whose profile has no GPUDirect.",
        ),
        repair=(
            "Read what is loaded: `head -1 /proc/driver/nvidia/version`.",
            "Proprietary: install the open kernel module of the same version (for example "
            "nvidia-open), and restart the node.",
            "Read the kernel's option: `grep DMA_SHARED_BUFFER /boot/config-$(uname -r)`.",
            "Read the confidential mode: `nvidia-smi conf-compute -f`; switch it off if the node "
            "should not have it.",
            "If nvidia-peermem works on this node (see its case) and the owner agrees: "
            "`registration: peermem` in the profile.",
        ),
        source="CUDA driver API (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED), "
        "subdevice_ctrl_gpu_kernel.c of NVIDIA's open driver, NVIDIA's GPUDirect RDMA "
        "documentation",
    ),
    Entry(
        code="MR-DMABUF-KERNEL",
        title="The kernel's RDMA stack does not know registration by dma-buf",
        meaning=(
            "ibv_reg_dmabuf_mr fails with errno 93 (EPROTONOSUPPORT): ib_uverbs has no such "
            "method. It is the same for every GPU."
        ),
        evidence=(
            "errno 93 of a registration without a descriptor, the kernel release, and which OFED "
            "the host has."
        ),
        causes=(
            "The kernel is older than 5.12.",
            "An old OFED has put its own ib_uverbs in the place of the kernel's.",
        ),
        repair=(
            "Read both: `uname -r`; `ofed_info -s`; `modinfo -n ib_uverbs`.",
            "Use a kernel of 5.12 or newer, or an OFED that has dma-buf (DOCA-OFED).",
            "If nvidia-peermem works on this node (see its case) and the owner agrees: "
            "`registration: peermem` in the profile.",
        ),
        source="ibv_reg_mr(3), Linux drivers/infiniband/core/uverbs_std_types_mr.c, perftest's "
        "README",
    ),
    Entry(
        code="MR-DMABUF-PROVIDER",
        title="The NIC's driver does not offer registration by dma-buf",
        meaning=(
            "ibv_reg_dmabuf_mr fails with errno 95 (EOPNOTSUPP), whatever descriptor it is given: "
            "the user-space provider or the kernel driver of this NIC has no such call. The GPU "
            "has nothing to do with it."
        ),
        evidence="errno 95 of a registration without a descriptor, kernel, OFED, rdma-core.",
        causes=(
            "The NIC is a software device: neither rxe nor siw has it.",
            "The kernel driver is too old, or comes from an OFED that is.",
            "The kernel was built without CONFIG_INFINIBAND_ON_DEMAND_PAGING, without which mlx5 "
            "refuses.",
            "The provider in the image is too old: mlx5 has it from rdma-core 34 on.",
            "A vendor whose NICs have no dma-buf.",
        ),
        repair=(
            "Read which driver serves the NIC: "
            "`readlink /sys/class/infiniband/DEVICE/device/driver`.",
            "Read the kernel's option: `grep ON_DEMAND_PAGING /boot/config-$(uname -r)`.",
            "Install a newer kernel or DOCA-OFED; use an image with a newer rdma-core.",
            "If nvidia-peermem works on this node (see its case) and the owner agrees: "
            "`registration: peermem` in the profile.",
        ),
        source="ibv_reg_mr(3), rdma-core's providers, Linux drivers/infiniband/hw/mlx5/mr.c",
    ),
    Entry(
        code="MR-DMABUF-EXPORT",
        title="CUDA refuses to export GPU memory that it can export",
        meaning=(
            "The GPU says that it supports dma-buf, and cuMemGetHandleForAddressRange failed for "
            "memory that was allocated for this purpose, at page borders."
        ),
        evidence="The CUDA error with each flag that was tried, the range, the host's page size.",
        causes=(
            "Not supported (error 801): libcuda in the container and the kernel module are of "
            "different versions, or the driver cannot export on this platform, whatever its "
            "attribute says.",
            "Not supported or invalid value (801, 1): the memory is made of several pieces, or of "
            "virtual memory without the flag for GPUDirect.",
            "Invalid value (1): pointer or length is not a multiple of the host's page, which may "
            "be of 64 KiB.",
            "Any other error: the process has no file descriptors left.",
            "A fault of the driver.",
        ),
        repair=(
            "Read the driver's words: `dmesg | grep -i -E 'NVRM.*dma-buf'`.",
            "Compare versions: `head -1 /proc/driver/nvidia/version` on the host, `nvidia-smi` in "
            "the container.",
            "Read the page size: `getconf PAGESIZE`; the limit on files: `ulimit -n`.",
            "Look at a good node with the same driver; if it fails there as well, install another "
            "version.",
        ),
        source="CUDA driver API (cuMemGetHandleForAddressRange), nv-dmabuf.c of NVIDIA's open "
        "driver",
    ),
    Entry(
        code="MR-DMABUF-TOPOLOGY",
        title="NVIDIA's driver refuses this NIC as a reader of the GPU's memory",
        meaning=(
            "The memory was exported, and the driver refused when the NIC was attached to it: GPU "
            "and NIC are not connected in a way that it supports, or the NIC cannot handle it. A "
            "NIC that is closer to the GPU may well be accepted."
        ),
        evidence=(
            "errno (524 is the driver's own for this), the kernel's lines about a dma-buf that "
            "could not be attached, the distance between GPU and NIC, GrdmaPciTopoCheckOverride."
        ),
        causes=(
            "GPU and NIC have no PCIe switch in common, on a chipset that the driver does not list "
            "as fit for peer-to-peer (topology not supported for dma-buf).",
            "The mapping type over PCIe was asked for, and the GPU or its IOMMU group does not "
            "allow it (topology not supported for mapping type FORCE_PCIE).",
            "The NIC's driver cannot handle memory without page structures (importer unable to "
            "handle MMIO).",
        ),
        repair=(
            "Read the refusal: `dmesg | grep -E 'NVRM.*(dma-buf|topology)'`.",
            "See how GPU and NIC are connected: `nvidia-smi topo -m`; `lspci -tv`.",
            "Pair each GPU with a NIC below the same switch (gpu in rails.nics of the profile).",
            "If the machine's maker supports this pair: `echo 'options nvidia "
            "NVreg_GrdmaPciTopoCheckOverride=1' > /etc/modprobe.d/gdr-topology.conf`, then restart "
            "the node.",
            "In a virtual machine: have GPU and NIC passed through below one virtual switch.",
        ),
        source="nv-dmabuf.c and nv-pci.c of NVIDIA's open driver, Linux "
        "drivers/infiniband/core/umem_dmabuf.c",
    ),
)
