"""Codes about what dma-buf and nvidia-peermem need of kernel and driver. ``drv`` takes them in."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="DRV-DMABUF-IMPOSSIBLE",
        title="GPU memory cannot be exported as a dma-buf on this node",
        meaning=(
            "The profile demands registration by dma-buf, and kernel or driver cannot do that: "
            "it takes Linux 5.12 with CONFIG_DMA_SHARED_BUFFER, and NVIDIA's open kernel module "
            "with CUDA 11.7 or newer."
        ),
        evidence=(
            "Kernel release and CONFIG_DMA_SHARED_BUFFER, the kind of NVIDIA's kernel module, and "
            "the CUDA version of the driver."
        ),
        causes=(
            "NVIDIA's proprietary kernel module is loaded.",
            "The kernel is older than 5.12 (that of Ubuntu 20.04 is 5.4, for example).",
            "The driver is older than 515.",
            "The kernel was built without CONFIG_DMA_SHARED_BUFFER.",
        ),
        repair=(
            "Read kernel and driver: `uname -r`; `head -1 /proc/driver/nvidia/version`.",
            "Read the kernel's option: `grep DMA_SHARED_BUFFER /boot/config-$(uname -r)`, or "
            "`zgrep DMA_SHARED_BUFFER /proc/config.gz`.",
            "Install the open kernel module, or a newer driver, and restart the node.",
            "Use a kernel of 5.12 or newer.",
            "If nvidia-peermem works on this node (see its case) and the owner agrees: "
            "`registration: peermem` in the profile.",
        ),
        source="perftest's README, NVIDIA's GPUDirect RDMA documentation, nv-dmabuf.c of NVIDIA's "
        "open driver",
    ),
    Entry(
        code="DRV-PEERMEM-INERT",
        title="nvidia-peermem is loaded, but has no effect",
        meaning=(
            "The profile demands registration by nvidia-peermem. The module is loaded, but it is "
            "no client of the RDMA stack, which therefore does not ask it: registering GPU memory "
            "fails with EFAULT (bad address)."
        ),
        evidence="The entries of /sys/kernel/mm/memory_peers, and /sys/module/nvidia_peermem.",
        causes=(
            "The RDMA stack was restarted or replaced after the module had been loaded.",
            "The module was built before OFED was installed, against a stack without, or with "
            "another, interface for peer memory.",
        ),
        repair=(
            "Look for the client: `ls /sys/kernel/mm/memory_peers`.",
            "Load it again: `modprobe -r nvidia_peermem && modprobe nvidia_peermem`, then "
            "`dmesg | tail`.",
            "With OFED: build NVIDIA's driver again, so that it is built against OFED (the repair "
            "of DRV-PEERMEM-SYMBOLS tells how).",
            "The kernel's own stack has no such interface: install DOCA-OFED, then build the "
            "driver.",
            "If dma-buf works on this node (see its case) and the owner agrees: "
            "`registration: dmabuf` in the profile.",
        ),
        source="kernel-open/nvidia-peermem of NVIDIA's open driver, MLNX_OFED's ib_core",
    ),
    Entry(
        code="DRV-PEERMEM-SYMBOLS",
        title="nvidia-peermem and the RDMA stack do not fit each other",
        meaning=(
            "The profile demands registration by nvidia-peermem. The kernel refused to load it, "
            "since it was built against another ib_core; or the module that is loaded is not the "
            "one on the disk, so that the node will be another one after its next start."
        ),
        evidence=(
            "Lines of the kernel log (disagrees about version of symbol, Unknown symbol), and the "
            "source version of the loaded module against that of the file (host collector)."
        ),
        causes=(
            "OFED was installed or upgraded after NVIDIA's driver had been built.",
            "OFED was removed: the kernel's own ib_core lacks the functions.",
            "The driver came ready built from the distribution, against the kernel's own stack.",
            "NVIDIA's driver was upgraded, and the node was not restarted.",
            "ib_core is loaded from another place than the one that was built against.",
        ),
        repair=(
            "Read the refusal: `modprobe nvidia_peermem`, then `dmesg | grep -i peer`.",
            "Find NVIDIA's module and version in `dkms status`, and build it against the stack "
            "that is loaded: `dkms build --force nvidia/VERSION`, then "
            "`dkms install --force nvidia/VERSION`; install alone takes the old build again.",
            "If an old DKMS says that it is already built: `dkms remove nvidia/VERSION "
            "-k $(uname -r)`, then `dkms install nvidia/VERSION -k $(uname -r)`.",
            "Without DKMS: install NVIDIA's driver again, or its DKMS package in place of the "
            "ready-built one.",
            "Restart the node, so that what is loaded is what is installed.",
            "If dma-buf works on this node (see its case) and the owner agrees: "
            "`registration: dmabuf` in the profile.",
        ),
        source="kernel-open/nvidia-peermem of NVIDIA's open driver, modinfo(8), dkms(8)",
    ),
)
