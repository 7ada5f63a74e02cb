"""A Grace Hopper node with 64 KiB pages: GPU and InfiniBand NIC in PCI domains of their own.

The processor is one NUMA node with CPUs; the other eight are for the GPU's memory and are empty.
"""

from __future__ import annotations

from gdrcheck.profile import Profile
from tests.captured import gpus, software
from tests.captured.config_space import Express
from tests.captured.machine import ExpectedRail, Machine
from tests.captured.pci import Lanes, Pci
from tests.captured.rdma import Interface, Rdma, infiniband
from tests.captured.system import Nvidia, System, write_system
from tests.captured.tree import Tree

DRIVER = "570.86.15"
KERNEL = "6.8.0-1021-nvidia-64k"
GPU_SLOT, NIC_SLOT = "0009:01:00.0", "0002:01:00.0"
GEN5_X16, GEN4_X1 = Lanes(5, 16), Lanes(4, 1)

PROFILE = {
    "gpus": {"count": 1, "model": "NVIDIA GH200*"},
    "rails": {
        "count": 1,
        "nics": [{"slot": NIC_SLOT}],
        "port_rate_gbps": 400,
        "link_layer": "infiniband",
    },
    "expect": {
        "os": "Ubuntu 22.04*",
        "kernel": "*-64k",
        "iommu": "translated",
        "open_module": True,
        "mtu_bytes": 4096,
        "nic_link": {"speed_gts": 32, "width": 16},
        "bar1_bytes": 128 << 30,
    },
}

NOT_JUDGED = (
    "command_line nvidia_version cuda_supported fabric_manager dmabuf_possible peermem_fits "
    "peermem_registered ofed gpu_mig rail_distance acs relaxed_ordering max_payload "
    "max_read_request no_device_lacking port_firmware port_partition port_traffic_class "
    "rails_keep_addresses_apart gpu_memory_registers gpu_memory_moves "
    "gpu_vbios gpu_nvlinks confidential_computing nvswitch_errors gpu_peers"
)


def machine() -> Machine:
    """The node with its healthy tree."""
    tree = Tree()
    pci, rdma = Pci(tree, group_type="DMA"), Rdma(tree)
    # The GPU's data goes by NVLink-C2C; its PCIe link is there for configuration only.
    gpu_port = pci.root_port(pci.host_bridge("0009:00", numa_node=0), "0009:00:00.0", GEN4_X1)
    pci.gpu(gpu_port, GPU_SLOT, 0x2342, 128 << 30, lanes=Lanes(4, 1, 5, 16))
    nic_port = pci.root_port(pci.host_bridge("0002:00", numa_node=0), "0002:00:00.0", GEN5_X16)
    nic = pci.function(
        nic_port,
        NIC_SLOT,
        (0x15B3, 0x1021, 0x020700),
        "mlx5_core",
        lanes=GEN5_X16,
        bars_bytes=(32 << 20,),
        express=Express(read_request=4096, ats=False),
    )
    interface = Interface(name="ibP2p1s0", mtu_bytes=4092, hardware_type=32)
    rdma.mlx5(nic, "mlx5_0", [infiniband(7)], [interface])
    rdma.done()
    _software(tree)
    return Machine(
        name="grace",
        tree=tree,
        profile=Profile.model_validate(PROFILE),
        not_judged=NOT_JUDGED,
        rails=(ExpectedRail("gpu0", "mlx5_0", "NODE"),),
        gpus=(GPU_SLOT,),
        distances={(GPU_SLOT, NIC_SLOT): "NODE"},
    )


def _software(tree: Tree) -> None:
    write_system(
        tree,
        System(
            hostname="grace1",
            os="Ubuntu 22.04.5 LTS",
            kernel=KERNEL,
            architecture="aarch64",
            page_bytes=64 << 10,
            command_line=f"BOOT_IMAGE=/vmlinuz-{KERNEL} root=/dev/nvme0n1p2 ro iommu.passthrough=0",
            numa_nodes=9,
            huge_pages=(2 << 20, 512 << 20, 16 << 30),
            iommu_units=("smmu3.0x0000000011000000", "smmu3.0x0000000012000000"),
            modules={**software.inbox(), **software.nvidia(DRIVER)},
            nvidia=Nvidia(version=DRIVER),
        ),
    )
    gpu = gpus.gpu(0, GPU_SLOT, "NVIDIA GH200 480GB", 96)
    gpus.write_nvml(tree, DRIVER, "12.8", [gpu])
