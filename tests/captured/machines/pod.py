"""A Kubernetes pod with two virtual functions, on a node that it shares with other pods.

No host collector ran. sysfs shows all RDMA devices of the node, also the physical ones, whose
interfaces are in another network namespace; the GID tables of its own have holes and entries that
belong to interfaces of other pods. A virtual function's link reads ``Unknown`` and width 0.
"""

from __future__ import annotations

from gdrcheck.expect import Distance
from gdrcheck.profile import Profile
from tests.captured import gpus, software
from tests.captured.config_space import Express
from tests.captured.machine import ExpectedRail, Machine
from tests.captured.pci import Lanes, Pci, Place
from tests.captured.rdma import Gid, Interface, Rdma, roce
from tests.captured.system import Nvidia, System, write_system
from tests.captured.tree import Tree

DRIVER = "570.86.15"
KERNEL = "5.14.0-503.el9.x86_64"
GEN5_X16 = Lanes(5, 16)
# The specification reserves the link status of a virtual function: it reads as zero.
VIRTUAL = Lanes(0, 0, 5, 16)
BUSES = (0x20, 0x60)
PHYSICAL, VIRTUAL_FUNCTION = (0x15B3, 0x1021, 0x020000), (0x15B3, 0x101E, 0x020000)

PROFILE = {
    "gpus": {"count": 2, "model": "NVIDIA L40S"},
    "rails": {
        "count": 2,
        "nics": [{"netdev": "net*"}],
        "port_rate_gbps": 200,
        "link_layer": "ethernet",
    },
    "gid": {"family": "ipv4", "type": "RoCE v2"},
    "expect": {
        "kernel": "5.14.0-*.el9.x86_64",
        "driver": "570.*",
        "mtu_bytes": 4096,
        "rail_distance": "PIX",
    },
}

NOT_JUDGED = (
    "os command_line iommu nvidia_module_kind cuda_supported fabric_manager dmabuf_possible "
    "peermem_fits peermem_registered ofed rdma_modules_fit gpu_mig gpu_link_speed acs "
    "relaxed_ordering max_payload max_read_request port_firmware port_partition "
    "port_traffic_class gpu_memory_registers gpu_memory_moves "
    "gpu_xids gpu_vbios gpu_nvlinks confidential_computing nvswitch_errors"
)


def machine() -> Machine:
    """The pod with its healthy tree."""
    tree = Tree()
    pci, rdma = Pci(tree, collected=False, group_type="identity"), Rdma(tree)
    for number, bus in enumerate(BUSES):
        _rail(tree, pci, rdma, number, bus)
    rdma.interface("sys/devices/virtual", Interface(name="eth0", mtu_bytes=1450))
    rdma.done()
    _software(tree)
    distances: dict[tuple[str, str], Distance] = {
        (gpu, nic): "PIX" if gpu[5] == nic[5] else "SYS"
        for gpu in map(_gpu_slot, BUSES)
        for nic in map(_nic_slot, BUSES)
    }
    return Machine(
        name="pod",
        tree=tree,
        profile=Profile.model_validate(PROFILE),
        not_judged=NOT_JUDGED,
        rails=(ExpectedRail("gpu0", "mlx5_1", "PIX"), ExpectedRail("gpu1", "mlx5_3", "PIX")),
        gpus=tuple(map(_gpu_slot, BUSES)),
        distances=distances,
        collected=False,
    )


def _gpu_slot(bus: int) -> str:
    return f"0000:{bus + 4:02x}:00.0"


def _nic_slot(bus: int) -> str:
    return f"0000:{bus + 3:02x}:00.2"


def _rail(tree: Tree, pci: Pci, rdma: Rdma, number: int, bus: int) -> None:
    """A switch with a GPU and a card; of the card the pod has one virtual function."""
    bridge = pci.host_bridge(f"0000:{bus:02x}", numa_node=number)
    root_port = pci.root_port(bridge, f"0000:{bus:02x}:01.0", GEN5_X16)
    switch = pci.upstream(root_port, f"0000:{bus + 1:02x}:00.0", GEN5_X16)
    nic_port = pci.downstream(switch, f"0000:{bus + 2:02x}:00.0", GEN5_X16)
    gpu_port = pci.downstream(switch, f"0000:{bus + 2:02x}:01.0", GEN5_X16)
    card = _card(pci, nic_port, f"0000:{bus + 3:02x}:00.0", PHYSICAL, GEN5_X16)
    function = _card(pci, nic_port, _nic_slot(bus), VIRTUAL_FUNCTION, VIRTUAL)
    tree.link(f"{function.folder}/physfn", card.folder)
    # The interface of the card is the node's own: only its device is seen from here.
    elsewhere = Interface(name=f"ens{bus}np0", mtu_bytes=9000)
    rdma.mlx5(card, f"mlx5_{2 * number}", [roce(10 + number, elsewhere, gids={})])
    interface = Interface(
        name=f"net{number + 1}", mtu_bytes=9000, address=f"198.51.100.{8 * number + 1}/29"
    )
    port = roce(number, interface, rate="200 Gb/sec (4X HDR)", gids=_sparse(number, interface))
    rdma.mlx5(function, f"mlx5_{2 * number + 1}", [port], [interface])
    pci.gpu(gpu_port, _gpu_slot(bus), 0x26B9, 64 << 30, lanes=Lanes(1, 16, 4, 16))


def _card(pci: Pci, port: Place, slot: str, kind: tuple[int, int, int], lanes: Lanes) -> Place:
    express = Express(read_request=512)
    return pci.function(
        port, slot, kind, "mlx5_core", lanes=lanes, bars_bytes=(32 << 20,), express=express
    )


def _sparse(number: int, interface: Interface) -> dict[int, Gid]:
    """Entries 4, 5 and 11 are this pod's; 2 and 7 belong to interfaces of others."""
    own = f"0000:0000:0000:0000:0000:ffff:c633:{0x6401 + 8 * number:04x}"
    other = "0000:0000:0000:0000:0000:ffff:c633:64{:02x}"
    return {
        2: Gid(other.format(0xC1), "RoCE v2", "net1-other"),
        4: Gid(own, "IB/RoCE v1", interface.name),
        5: Gid(own, "RoCE v2", interface.name),
        7: Gid(other.format(0xC2), "RoCE v2"),
        11: Gid(f"fe80:0000:0000:0000:0000:00ff:fe00:{number:04x}", "RoCE v2", interface.name),
    }


def _software(tree: Tree) -> None:
    write_system(
        tree,
        System(
            hostname="pod1",
            os="",
            kernel=KERNEL,
            command_line="BOOT_IMAGE=(hd0,gpt2)/vmlinuz root=/dev/sda3 ro intel_iommu=on iommu=pt",
            numa_nodes=2,
            iommu_units=("dmar0", "dmar1"),
            modules={**software.inbox(), **software.nvidia(DRIVER)},
            nvidia=Nvidia(version=DRIVER),
            lsm_label="system_u:system_r:container_t:s0:c100,c200",
            collected=False,
        ),
    )
    answers = [
        gpus.gpu(number, _gpu_slot(bus), "NVIDIA L40S", 45) for number, bus in enumerate(BUSES)
    ]
    gpus.write_nvml(tree, DRIVER, "12.8", answers)
