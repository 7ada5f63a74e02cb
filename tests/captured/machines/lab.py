"""A node of the lab: Soft-RoCE over a virtio NIC below a switch, no GPU, two NUMA nodes::

pci0000:00 ─ the plain virtio devices
pci0000:20 ┬ 20:00.0 ─ 21:00.0 ┬ 22:00.0 ─ 23:00.0 virtio-net data0 ← rxe0
   (node 0)│ (root port, switch)└ 22:01.0 ─ 24:00.0 edu
           └ 20:01.0 ─ 25:00.0 edu
pci0000:60 ─ 60:00.0 ─ 61:00.0 edu   (node 1)
"""

from __future__ import annotations

from gdrcheck.profile import Profile
from tests.captured.machine import ExpectedRail, Machine
from tests.captured.pci import Lanes, Pci
from tests.captured.rdma import RXE_COUNTERS, Interface, Port, Rdma, roce
from tests.captured.software import inbox
from tests.captured.system import Module, System, write_system
from tests.captured.tree import Tree

KERNEL = "6.12.57+deb13-amd64"
VIRTIO_NET = (0x1AF4, 0x1041, 0x020000)
EDU = (0x1234, 0x11E8, 0x00FF00)
# What QEMU's ports show: 2.5 GT/s and one lane each, at both ends.
QEMU = Lanes(1, 1)

PROFILE = {
    "gpus": {"count": 0},
    "rails": {
        "count": 1,
        "nics": [{"name": "rxe0"}],
        "port_rate_gbps": 2.5,
        "link_layer": "ethernet",
    },
    "expect": {
        "os": "Debian GNU/Linux 13*",
        "kernel": "6.12.*",
        "modules": ["rdma_rxe"],
        "iommu": "off",
        "ofed": "inbox",
        "mtu_bytes": 4096,
    },
}

NOT_JUDGED = (
    "command_line nvidia_driver nvidia_version nvidia_module_kind cuda_supported "
    "fabric_manager dmabuf_possible peermem_fits peermem_registered providers gpu_present "
    "nvml_answers gpu_answers gpu_model gpu_mig gpu_bar1 gpu_link_width gpu_link_speed "
    "gpu_pci_errors rail_distance acs relaxed_ordering max_payload max_read_request "
    "no_device_lacking port_firmware port_partition port_traffic_class "
    "rails_keep_addresses_apart cuda_starts gpu_opens gpu_memory_kinds gpu_pattern "
    "gpu_memory_registers gpu_memory_moves "
    "gpu_ecc gpu_memory_repair gpu_recovery gpu_xids gpu_settings gpu_vbios gpu_nvlinks "
    "confidential_computing nvswitch_errors gpu_under_load gpu_peers"
)


def machine() -> Machine:
    """The node with its healthy tree."""
    tree = Tree()
    _pci_and_rdma(tree)
    modules = {
        **inbox(mlx5=False),
        "rdma_rxe": Module(path="kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz"),
    }
    write_system(
        tree,
        System(
            hostname="node1",
            os="Debian GNU/Linux 13 (trixie)",
            kernel=KERNEL,
            command_line="console=ttyS0 quiet panic=-1 mitigations=off audit=0 apparmor=0",
            numa_nodes=2,
            huge_pages=(2 << 20,),
            modules=modules,
        ),
    )
    return Machine(
        name="lab",
        tree=tree,
        profile=Profile.model_validate(PROFILE),
        not_judged=NOT_JUDGED,
        rails=(ExpectedRail(None, "rxe0", None),),
        distances={},
    )


def _pci_and_rdma(tree: Tree) -> None:
    pci, rdma = Pci(tree), Rdma(tree)
    plain = pci.host_bridge("0000:00")
    pci.function(plain, "0000:00:00.0", (0x8086, 0x29C0, 0x060000), None)
    management = pci.function(plain, "0000:00:03.0", VIRTIO_NET, "virtio-pci")
    rdma.interface(
        f"{management.folder}/virtio1",
        Interface(name="mgmt0", mtu_bytes=1500, address="192.0.2.15/24"),
    )
    near = pci.host_bridge("0000:20", numa_node=0)
    root_port = pci.root_port(near, "0000:20:00.0", QEMU)
    switch = pci.upstream(root_port, "0000:21:00.0", QEMU)
    nic_port = pci.downstream(switch, "0000:22:00.0", QEMU)
    edu_port = pci.downstream(switch, "0000:22:01.0", QEMU)
    data = pci.function(nic_port, "0000:23:00.0", VIRTIO_NET, "virtio-pci", lanes=QEMU)
    pci.function(edu_port, "0000:24:00.0", EDU, None)
    other_port = pci.root_port(near, "0000:20:01.0", QEMU)
    pci.function(other_port, "0000:25:00.0", EDU, None)
    far = pci.root_port(pci.host_bridge("0000:60", numa_node=1), "0000:60:00.0", QEMU)
    pci.function(far, "0000:61:00.0", EDU, None)
    interface = Interface(name="data0", mtu_bytes=4200, address="198.51.100.1/24")
    rdma.interface(f"{data.folder}/virtio4", interface)
    rdma.rxe("rxe0", interface, _port(interface))
    rdma.done()


def _port(interface: Interface) -> Port:
    return roce(
        1,
        interface,
        rate="2.5 Gb/sec (1X SDR)",
        gid_slots=1024,
        counters="",
        hw_counters=RXE_COUNTERS,
    )
