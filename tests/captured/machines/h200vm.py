"""A virtual machine with one H200 and no RDMA at all: no NIC for it, and no RDMA module loaded.

The host collector did not run. There is no ``/sys/class/infiniband`` to be read, which is no error.
"""

from __future__ import annotations

from gdrcheck.profile import Profile
from tests.captured import gpus, software
from tests.captured.machine import Machine
from tests.captured.pci import Pci
from tests.captured.system import Nvidia, System, write_system
from tests.captured.tree import Tree

DRIVER = "580.159.03"
KERNEL = "6.8.0-60-generic"
GPU_SLOT = "0000:04:00.0"

PROFILE = {
    "gpus": {"count": 1, "model": "NVIDIA H200"},
    "registration": "dmabuf",
    "pairs": "none",
    "expect": {
        "kernel": "6.8.*",
        "iommu": "off",
        "driver": "580.*",
        "cuda": "13.0",
        "open_module": True,
        "mig": "disabled",
        "bar1_bytes": 256 << 30,
    },
}
NOT_JUDGED = (
    "os command_line fabric_manager dmabuf_possible peermem_fits peermem_registered ofed "
    "rdma_modules_fit providers nic_driver_bound pci_link_width pci_link_speed pci_errors "
    "gpu_link_width gpu_link_speed gpu_pci_errors rail_distance acs relaxed_ordering "
    "max_payload max_read_request device_present no_extra_device no_device_lacking port_active "
    "port_link_layer port_lanes port_rate port_firmware port_partition port_traffic_class "
    "rails_keep_addresses_apart device_opens port_mtu gid_usable "
    "gpu_xids gpu_vbios gpu_nvlinks confidential_computing nvswitch_errors gpu_peers"
)


def machine() -> Machine:
    """The virtual machine with its healthy tree."""
    tree = Tree()
    pci = Pci(tree, collected=False)
    bus = pci.host_bridge("0000:00")
    pci.function(bus, "0000:00:00.0", (0x8086, 0x29C0, 0x060000), None)
    pci.gpu(pci.host_bridge("0000:04"), GPU_SLOT, 0x2335, 256 << 30, lanes=None)
    tree.folder("sys/class/net")
    write_system(
        tree,
        System(
            hostname="h200vm",
            os="",
            kernel=KERNEL,
            command_line=f"BOOT_IMAGE=/boot/vmlinuz-{KERNEL} root=/dev/vda1 ro console=ttyS0",
            modules=software.nvidia(DRIVER),
            nvidia=Nvidia(version=DRIVER),
            collected=False,
        ),
    )
    gpus.write_nvml(tree, DRIVER, "13.0", [gpus.gpu(0, GPU_SLOT, "NVIDIA H200", 140)])
    return Machine(
        name="h200vm",
        tree=tree,
        profile=Profile.model_validate(PROFILE),
        not_judged=NOT_JUDGED,
        rails=(),
        gpus=(GPU_SLOT,),
        distances={},
        collected=False,
        unreadable=("rdma_stack.exclusive_namespaces",),
    )
