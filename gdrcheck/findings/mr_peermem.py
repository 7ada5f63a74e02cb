"""Codes about registering GPU memory by nvidia-peermem."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="MR-PEERMEM-ABSENT",
        title="GPU memory does not register by pointer: nvidia-peermem is not loaded",
        meaning=(
            "ibv_reg_mr on a device pointer failed, and no module is loaded that could tell the "
            "RDMA stack where GPU memory lies. The kernel takes the pointer for one to host memory "
            "and finds no page (EFAULT, bad address)."
        ),
        evidence=(
            "errno (mostly 14), /sys/module/nvidia_peermem, what the kernel said when it refused "
            "the module."
        ),
        causes=(
            "Nobody loads the module at boot.",
            "The kernel refused it: it was built against another ib_core (disagrees about version "
            "of symbol), or against one without peer memory (Invalid argument).",
            "The kernel's own RDMA stack has no interface for it.",
        ),
        repair=(
            "Load it on the host: `modprobe nvidia_peermem`.",
            "Refused: read why in `dmesg | grep -i peer`; the repair of DRV-PEERMEM-SYMBOLS tells "
            "how to build the driver against the stack that is loaded.",
            "At each boot: `echo nvidia_peermem > /etc/modules-load.d/nvidia-peermem.conf`.",
            "See whether the stack has the interface: `grep ib_register_peer_memory_client "
            "/proc/kallsyms`; without it install DOCA-OFED and build the driver again.",
            "If dma-buf works on this node (see its case) and the owner agrees: "
            "`registration: dmabuf` in the profile.",
        ),
        source="kernel-open/nvidia-peermem of NVIDIA's open driver, Linux "
        "drivers/infiniband/core/umem.c, NVIDIA's GPUDirect RDMA documentation",
    ),
    Entry(
        code="MR-PEERMEM-UNREGISTERED",
        title="GPU memory does not register by pointer: the RDMA stack does not know peermem",
        meaning=(
            "nvidia-peermem is loaded, and is not among the clients that the RDMA stack asks about "
            "pointers. ibv_reg_mr on a device pointer fails as if the module were not there."
        ),
        evidence="errno (mostly 14), /sys/module, the entries of /sys/kernel/mm/memory_peers.",
        causes=(
            "The RDMA stack was restarted or upgraded after the module had been loaded.",
            "The module was built against a stack without the interface for peer memory.",
            "The module's parameter peerdirect_support does not fit this OFED.",
        ),
        repair=(
            "Look for nv_mem: `ls /sys/kernel/mm/memory_peers`.",
            "Load it again: `modprobe -r nvidia_peermem && modprobe nvidia_peermem`, then "
            "`dmesg | tail`.",
            "Still not there: build NVIDIA's driver again (the repair of DRV-PEERMEM-SYMBOLS).",
            "With MLNX_OFED 4.9 unload it first, then `modprobe nvidia_peermem "
            "peerdirect_support=1`.",
        ),
        source="kernel-open/nvidia-peermem of NVIDIA's open driver, MLNX_OFED's ib_core",
    ),
    Entry(
        code="MR-PEERMEM-REFUSED",
        title="GPU memory does not register by pointer, although peermem is loaded",
        meaning=(
            "nvidia-peermem is loaded, and nothing says that the RDMA stack does not know it. The "
            "driver did not give it the pages of this range, so that the stack took the pointer "
            "for host memory (EFAULT, bad address)."
        ),
        evidence=(
            "errno, the range and what registered before, BAR1, the GPU's attribute 116, the "
            "clients of the RDMA stack where it shows them, the kernel log."
        ),
        causes=(
            "nvidia_p2p_get_pages failed: the GPU's window (BAR1) is full, or the GPU needs a "
            "reset.",
            "The module is loaded without effect, on a stack that does not show its clients.",
            "The GPU, or the profile of a virtual one, does not support it (attribute 116 is 0).",
            "The memory was freed, or is virtual memory without the flag for GPUDirect.",
        ),
        repair=(
            "Read the driver's words: `dmesg | grep -i -E 'NVRM|peermem' | tail`.",
            "Read the window and who uses it: `nvidia-smi -q -d MEMORY -i SLOT`; `nvidia-smi`.",
            "Load it again: `modprobe -r nvidia_peermem && modprobe nvidia_peermem`.",
            "Drain the node, then `nvidia-smi --gpu-reset -i SLOT`, or restart it.",
            "If dma-buf works on this node (see its case) and the owner agrees: "
            "`registration: dmabuf` in the profile.",
        ),
        source="kernel-open/nvidia-peermem of NVIDIA's open driver, NVIDIA's GPUDirect RDMA "
        "documentation (nvidia_p2p_get_pages)",
    ),
)
