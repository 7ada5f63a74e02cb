"""A virtual machine with a flat topology: 2 GPUs and 2 virtual functions on the root bus.

No function shows a PCIe link, no firmware names a NUMA node, there is no IOMMU, and what the
hypervisor has below is unknown: all pairs look as if they met at the host bridge.
"""

from __future__ import annotations

from gdrcheck.expect import Distance
from gdrcheck.profile import Profile
from tests.captured import gpus, software
from tests.captured.config_space import Express
from tests.captured.machine import ExpectedRail, Machine
from tests.captured.pci import Pci
from tests.captured.rdma import Interface, Rdma, infiniband
from tests.captured.system import Nvidia, System, write_system
from tests.captured.tree import Tree

DRIVER = "580.95.05"
KERNEL = "6.8.0-1028-azure"
GPUS = ("0000:00:05.0", "0000:00:06.0")
# The settings of a virtual function are reserved and read as 0; those of its card are elsewhere.
RESERVED = Express(relaxed_ordering=False, payload=128, read_request=128)
NICS = {"mlx5_ib0": "0000:00:07.0", "mlx5_ib1": "0000:00:08.0"}

PROFILE = {
    "gpus": {"count": 2, "model": "NVIDIA H200"},
    "rails": {
        "count": 2,
        "nics": [{"name": "mlx5_ib0"}, {"name": "mlx5_ib1"}],
        "port_rate_gbps": 400,
        "link_layer": "infiniband",
    },
    "expect": {
        "os": "Ubuntu 24.04*",
        "iommu": "off",
        "driver": "580.*",
        "cuda": "13.0",
        "bar1_bytes": 256 << 30,
    },
}

NOT_JUDGED = (
    "kernel command_line nvidia_module_kind fabric_manager dmabuf_possible peermem_fits "
    "peermem_registered ofed gpu_mig pci_link_width pci_link_speed pci_errors gpu_link_width "
    "gpu_link_speed gpu_pci_errors rail_distance acs relaxed_ordering max_payload "
    "max_read_request no_device_lacking port_firmware port_partition port_traffic_class "
    "rails_keep_addresses_apart port_mtu gpu_memory_registers gpu_memory_moves "
    "gpu_vbios gpu_nvlinks confidential_computing nvswitch_errors gpu_peers"
)


def machine() -> Machine:
    """The virtual machine with its healthy tree."""
    tree = Tree()
    pci, rdma = Pci(tree), Rdma(tree)
    bus = pci.host_bridge("0000:00")
    pci.function(bus, "0000:00:00.0", (0x8086, 0x29C0, 0x060000), None)
    pci.function(bus, "0000:00:03.0", (0x1AF4, 0x1041, 0x020000), "virtio-pci")
    for slot in GPUS:
        pci.gpu(bus, slot, 0x2335, 256 << 30, lanes=None)
    for number, (name, slot) in enumerate(NICS.items()):
        kind = (0x15B3, 0x101E, 0x020700)
        nic = pci.function(bus, slot, kind, "mlx5_core", bars_bytes=(2 << 20,), express=RESERVED)
        interface = Interface(name=f"ib{number}", mtu_bytes=2044, hardware_type=32)
        rdma.mlx5(nic, name, [infiniband(60 + number)], [interface])
    rdma.done()
    _software(tree)
    distances: dict[tuple[str, str], Distance] = {
        (gpu, nic): "PHB" for gpu in GPUS for nic in NICS.values()
    }
    return Machine(
        name="vm",
        tree=tree,
        profile=Profile.model_validate(PROFILE),
        not_judged=NOT_JUDGED,
        rails=tuple(ExpectedRail(f"gpu{at}", name, "PHB") for at, name in enumerate(NICS)),
        gpus=GPUS,
        distances=distances,
    )


def _software(tree: Tree) -> None:
    write_system(
        tree,
        System(
            hostname="vm1",
            os="Ubuntu 24.04.3 LTS",
            kernel=KERNEL,
            command_line=f"BOOT_IMAGE=/boot/vmlinuz-{KERNEL} root=/dev/sda1 ro console=ttyS0",
            modules={**software.inbox(), **software.nvidia(DRIVER)},
            nvidia=Nvidia(version=DRIVER),
        ),
    )
    answers = [gpus.gpu(number, slot, "NVIDIA H200", 140) for number, slot in enumerate(GPUS)]
    gpus.write_nvml(tree, DRIVER, "13.0", answers, "chipset not supported")
