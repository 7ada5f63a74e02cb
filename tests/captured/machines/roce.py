"""A RoCE node: 4 GPUs and 4 NICs of 400 Gb/s, each on a root port of its own.

GPU and NIC of a rail share a host bridge (PHB), two rails a socket. The RDMA stack is the kernel's
own, so GPU memory goes by dma-buf; the GPUs are idle, and their links run slowly until they work.
"""

from __future__ import annotations

from gdrcheck.expect import Distance
from gdrcheck.profile import Profile
from tests.captured import gpus, software
from tests.captured.config_space import Express
from tests.captured.gpu_health import healthy, to_gpus
from tests.captured.machine import ExpectedRail, Machine
from tests.captured.pci import Lanes, Pci
from tests.captured.rdma import Interface, Rdma, roce
from tests.captured.system import Nvidia, System, write_system
from tests.captured.tree import Tree

DRIVER = "570.86.15"
KERNEL = "6.8.0-57-generic"
GEN5_X16 = Lanes(5, 16)
# What Linux enables when it translates addresses: drivers/pci/pci.c, pci_std_enable_acs().
REDIRECTING = ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd")
IDLE = Lanes(1, 16, max_generation=5)
# The root bus of each rail, and the NUMA node.
RAILS = ((0x10, 0), (0x30, 0), (0x90, 1), (0xB0, 1))

PROFILE = {
    "gpus": {"count": 4, "model": "NVIDIA H100 NVL"},
    "rails": {
        "count": 4,
        "nics": [{"netdev": "rdma*"}],
        "port_rate_gbps": 400,
        "link_layer": "ethernet",
    },
    "registration": "dmabuf",
    "gid": {"family": "ipv4", "type": "RoCE v2"},
    "traffic_class": 106,
    "expect": {
        "os": "Ubuntu 24.04*",
        "iommu": "translated",
        "ofed": "inbox",
        "driver": "570.*",
        "cuda": "12.8",
        "open_module": True,
        "mtu_bytes": 4096,
        "rail_distance": "PHB",
        "nic_link": {"speed_gts": 32, "width": 16},
        "gpu_link": {"width": 16},
        "acs_redirect": "on",
        "max_read_request_bytes": 4096,
    },
}

NOT_JUDGED = (
    "kernel command_line fabric_manager peermem_fits peermem_registered gpu_mig "
    "gpu_link_speed relaxed_ordering max_payload port_firmware port_partition "
    "gpu_memory_registers gpu_memory_moves "
    "gpu_vbios gpu_nvlinks confidential_computing nvswitch_errors"
)


def machine() -> Machine:
    """The node with its healthy tree."""
    tree = Tree()
    pci, rdma = Pci(tree, group_type="DMA-FQ"), Rdma(tree)
    for number, (bus, node) in enumerate(RAILS):
        _rail(pci, rdma, number, bus, node)
    rdma.done()
    _software(tree)
    return Machine(
        name="roce",
        tree=tree,
        profile=Profile.model_validate(PROFILE),
        not_judged=NOT_JUDGED,
        rails=tuple(ExpectedRail(f"gpu{number}", f"mlx5_{number}", "PHB") for number in range(4)),
        gpus=tuple(_gpu_slot(bus) for bus, _ in RAILS),
        distances=_distances(),
    )


def _gpu_slot(bus: int) -> str:
    return f"0000:{bus + 1:02x}:00.0"


def _nic_slot(bus: int) -> str:
    return f"0000:{bus + 2:02x}:00.0"


def _rail(pci: Pci, rdma: Rdma, number: int, bus: int, node: int) -> None:
    bridge = pci.host_bridge(f"0000:{bus:02x}", numa_node=node)
    ports = [
        pci.root_port(bridge, f"0000:{bus:02x}:0{device}.0", GEN5_X16, acs=REDIRECTING)
        for device in (1, 3)
    ]
    pci.gpu(ports[0], _gpu_slot(bus), 0x2321, 128 << 30, lanes=IDLE)
    nic = pci.function(
        ports[1],
        _nic_slot(bus),
        (0x15B3, 0x1021, 0x020000),
        "mlx5_core",
        lanes=GEN5_X16,
        bars_bytes=(32 << 20,),
        express=Express(read_request=4096, ats=True),
    )
    # A network of its own for each rail, so that no interface answers for another.
    interface = Interface(
        name=f"rdma{number}", mtu_bytes=9000, address=f"198.51.100.{1 + 2 * number}/31"
    )
    port = roce(number, interface, traffic_class="Global tclass=106")
    rdma.mlx5(nic, f"mlx5_{number}", [port], [interface])


def _software(tree: Tree) -> None:
    write_system(
        tree,
        System(
            hostname="roce1",
            os="Ubuntu 24.04.2 LTS",
            kernel=KERNEL,
            command_line=f"BOOT_IMAGE=/vmlinuz-{KERNEL} root=/dev/sda2 ro intel_iommu=on",
            numa_nodes=2,
            iommu_units=("dmar0", "dmar1"),
            modules={**software.inbox(), **software.nvidia(DRIVER)},
            nvidia=Nvidia(version=DRIVER),
        ),
    )
    # A bridge of NVLinks lies on each two cards.
    slots = [_gpu_slot(bus) for bus, _ in RAILS]
    answers = [
        gpus.gpu(
            number,
            slot,
            "NVIDIA H100 NVL",
            94,
            health=healthy("NVIDIA H100 NVL", nvlinks=to_gpus(12, 6, slots[number ^ 1])),
        )
        for number, slot in enumerate(slots)
    ]
    gpus.write_nvml(tree, DRIVER, "12.8", answers)


def _distances() -> dict[tuple[str, str], Distance]:
    found: dict[tuple[str, str], Distance] = {}
    for gpu_bus, gpu_node in RAILS:
        for nic_bus, nic_node in RAILS:
            far: Distance = "NODE" if gpu_node == nic_node else "SYS"
            pair = (_gpu_slot(gpu_bus), _nic_slot(nic_bus))
            found[pair] = "PHB" if gpu_bus == nic_bus else far
    return found
