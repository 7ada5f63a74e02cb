"""Codes about drivers: NVIDIA's, and the RDMA stack, in the kernel and in the image."""

from __future__ import annotations

from gdrcheck.findings import drv_gpudirect, drv_nvidia
from gdrcheck.findings.model import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="DRV-MODULE-MISSING",
        title="A kernel module that is needed is not loaded",
        meaning=(
            "What the profile promises needs this kernel module, and it is neither loaded nor "
            "built in. What depends on it, up to whole devices, is missing for that reason."
        ),
        evidence=(
            "/sys/module, where the module lies on the host's disk, and what the kernel log says "
            "of it (the last two by the host collector)."
        ),
        causes=(
            "Nothing loads the module at boot: no line in /etc/modules-load.d, service not "
            "enabled.",
            "The module is not installed for the running kernel, for example after a kernel "
            "update without a rebuild (DKMS).",
            "The kernel refused it: symbols of another stack, missing signature with Secure Boot, "
            "unsupported device.",
            "It is blacklisted in /etc/modprobe.d, or on the kernel's command line.",
        ),
        repair=(
            "Try it on the host: `modprobe MODULE`, then `dmesg | tail`.",
            "Not found: install it for this kernel (`uname -r`; `dkms status`), then `depmod -a`.",
            "Refused: read the reason in the kernel log; sign it, or rebuild it against the "
            "stack that is loaded.",
            "Blacklisted: `grep -rw MODULE /etc/modprobe.d /usr/lib/modprobe.d /proc/cmdline`, and "
            "remove the line.",
            "Make it permanent: `echo MODULE > /etc/modules-load.d/MODULE.conf`.",
        ),
        source="modprobe(8), modprobe.d(5), modules-load.d(5), Linux Documentation/ABI/testing/"
        "sysfs-module",
    ),
    Entry(
        code="DRV-OFED",
        title="The host has another RDMA stack than promised",
        meaning=(
            "The vendor's RDMA stack (MLNX_OFED, DOCA-OFED), its version, or its absence (inbox) "
            "is not what the profile promises."
        ),
        evidence="`ofed_info -s` on the host, by the host collector; inbox when there is none.",
        causes=(
            "The node was left out of an upgrade, or was upgraded alone.",
            "A kernel update replaced the vendor's modules by the kernel's own.",
            "The profile belongs to another group of nodes.",
        ),
        repair=(
            "Read it on the host: `ofed_info -s`; `modinfo -n mlx5_core`.",
            "Install the promised version, and restart the stack (`systemctl restart openibd`) or "
            "the node.",
            "Or correct expect.ofed in the profile.",
        ),
        source="ofed_info of MLNX_OFED and DOCA-OFED",
    ),
    Entry(
        code="DRV-STACK-MIXED",
        title="RDMA modules of two sources are loaded together",
        meaning=(
            "Some of the RDMA modules are those of the kernel, and others a vendor's. They call "
            "each other's functions, and are only built and tested together: expect refused "
            "modules, missing devices, or crashes."
        ),
        evidence="Where the file of each loaded RDMA module lies, by the host collector.",
        causes=(
            "The initial RAM disk holds the kernel's own mlx5_core, which is loaded before the "
            "vendor's can be found.",
            "A kernel update: the vendor's modules were rebuilt for the new kernel in part.",
            "A vendor's package for Ethernet alone replaced mlx5_core, and not the rest.",
            "An installation or removal of OFED was broken off.",
        ),
        repair=(
            "List: `for m in ib_core ib_uverbs mlx5_core mlx5_ib; do modinfo -n $m; done`.",
            "See whether what is loaded is what is on the disk: `cat "
            "/sys/module/mlx5_core/srcversion`; `modinfo -F srcversion mlx5_core`.",
            "Install the vendor's stack again as a whole for the running kernel, or remove it.",
            "Rebuild the initial RAM disk (`update-initramfs -u`, or `dracut -f`).",
            "Restart the node; a reload in place leaves some of the old ones in use.",
        ),
        source="modinfo(8), MLNX_OFED's installation guide",
    ),
    Entry(
        code="DRV-PROVIDER-MISSING",
        title="The image has no user-space driver for a NIC",
        meaning=(
            "libibverbs loads a provider library for each kernel driver. The one for this NIC is "
            "not in the image, so the device is there, and cannot be opened."
        ),
        evidence="`etc/libibverbs.d/*.driver` and the libraries in libibverbs/ of the image.",
        causes=(
            "The package with the providers (ibverbs-providers) is not in the image.",
            "The NIC needs a provider that its vendor ships apart from rdma-core.",
            "The image's rdma-core is too old for this kind of NIC.",
        ),
        repair=(
            "Look in the image: `cat /etc/libibverbs.d/*.driver`; `ls /usr/lib*/libibverbs "
            "/usr/lib/*/libibverbs`.",
            "Use an image with a newer rdma-core, or with the vendor's provider.",
        ),
        source="libibverbs' README, ibv_get_device_list(3)",
    ),
    *drv_nvidia.ENTRIES,
    *drv_gpudirect.ENTRIES,
)
