"""A node like a DGX H100: 8 GPUs, 8 InfiniBand NDR NICs for them, 4 storage ports, 4 NVSwitches.

Each GPU shares a switch with its NIC, on a host bridge of their own; four of them a socket::

    pci0000:15 ─ 15:01.0 ─ 16:00.0 ┬ 17:00.0 ─ 18:00.0 mlx5_0
                 root port  switch └ 17:01.0 ─ 1b:00.0 GPU 0

The storage ports come between the rails in the order of PCI addresses, and so in that of names:
mlx5_1, 2, 7 and 8 are no rails.
"""

from __future__ import annotations

from gdrcheck.expect import Distance
from gdrcheck.profile import Profile
from tests.captured import gpus, software
from tests.captured.config_space import Express
from tests.captured.gpu_health import healthy, to_switches
from tests.captured.machine import ExpectedRail, Machine
from tests.captured.pci import Lanes, Pci
from tests.captured.rdma import Interface, Rdma, infiniband, roce
from tests.captured.system import Nvidia, System, write_system
from tests.captured.tree import Tree

DRIVER = "550.127.08"
KERNEL = "5.15.0-1063-nvidia"
GEN5_X16, GEN4_X16 = Lanes(5, 16), Lanes(4, 16)
# The bus of each NIC, its name, and the NUMA node; the GPU's bus comes three later.
COMPUTE = (
    (0x18, "mlx5_0", 0),
    (0x40, "mlx5_3", 0),
    (0x4F, "mlx5_4", 0),
    (0x5E, "mlx5_5", 0),
    (0x9A, "mlx5_6", 1),
    (0xC0, "mlx5_9", 1),
    (0xCE, "mlx5_10", 1),
    (0xDC, "mlx5_11", 1),
)
STORAGE = ((0x29, ("mlx5_1", "mlx5_2"), 0), (0xAA, ("mlx5_7", "mlx5_8"), 1))
NVSWITCH = (0x10DE, 0x22A3, 0x068000)
CONNECTX7_IB, CONNECTX7_ETH = (0x15B3, 0x1021, 0x020700), (0x15B3, 0x1021, 0x020000)

PROFILE = {
    "gpus": {"count": 8, "model": "NVIDIA H100*"},
    "rails": {
        "count": 8,
        "nics": [{"name": name, "gpu": gpu} for gpu, (_, name, _) in enumerate(COMPUTE)],
        "port_rate_gbps": 400,
        "link_layer": "infiniband",
    },
    "registration": "both",
    "pkey": 0x8001,
    "expect": {
        "os": "Ubuntu 22.04*",
        "kernel": "5.15.*-nvidia",
        "command_line": ["iommu=pt"],
        "modules": ["nvidia_uvm"],
        "iommu": "passthrough",
        "ofed": "MLNX_OFED_LINUX-24.10-*",
        "firmware": "28.43.*",
        "driver": "550.*",
        "cuda": "12.4",
        "open_module": True,
        "fabric_manager": "active",
        "mig": "disabled",
        "bar1_bytes": 128 << 30,
        "vbios": "96.00.99.*",
        "ecc": "enabled",
        "compute_mode": "default",
        "persistence": "on",
        "confidential_computing": "off",
        "power_limit_w": 700,
        "nvlinks": 18,
        "peer_access": "all",
        "mtu_bytes": 4096,
        "rail_distance": "PIX",
        "nic_link": {"speed_gts": 32, "width": 16},
        "gpu_link": {"speed_gts": 32, "width": 16},
        "acs_redirect": "off",
        "relaxed_ordering": True,
        "max_payload_bytes": 256,
        "max_read_request_bytes": 4096,
    },
}

NOT_JUDGED = (
    "no_device_lacking port_traffic_class rails_keep_addresses_apart gpu_memory_registers "
    "gpu_recovery"
)


def machine() -> Machine:
    """The node with its healthy tree."""
    tree = Tree()
    pci, rdma = Pci(tree, group_type="identity"), Rdma(tree)
    _nvswitches(pci)
    compute = {bus: (name, node) for bus, name, node in COMPUTE}
    storage = {bus: (names, node) for bus, names, node in STORAGE}
    for bus in sorted({*compute, *storage}):
        if bus in compute:
            _compute(pci, rdma, bus, *compute[bus])
        else:
            _storage(pci, rdma, bus, *storage[bus])
    rdma.done()
    _software(tree)
    return Machine(
        name="dgx",
        tree=tree,
        profile=Profile.model_validate(PROFILE),
        not_judged=NOT_JUDGED,
        rails=tuple(
            ExpectedRail(f"gpu{gpu}", name, "PIX") for gpu, (_, name, _) in enumerate(COMPUTE)
        ),
        gpus=tuple(_gpu_slot(bus) for bus, _, _ in COMPUTE),
        distances=_distances(),
    )


def _gpu_slot(bus: int) -> str:
    return f"0000:{bus + 3:02x}:00.0"


def _nic_slot(bus: int) -> str:
    return f"0000:{bus:02x}:00.0"


def _compute(pci: Pci, rdma: Rdma, bus: int, name: str, node: int) -> None:
    """One GPU and its NIC below one switch, on a host bridge of their own."""
    bridge = pci.host_bridge(f"0000:{bus - 3:02x}", numa_node=node)
    root_port = pci.root_port(bridge, f"0000:{bus - 3:02x}:01.0", GEN5_X16)
    switch = pci.upstream(root_port, f"0000:{bus - 2:02x}:00.0", GEN5_X16)
    nic_port = pci.downstream(switch, f"0000:{bus - 1:02x}:00.0", GEN5_X16)
    gpu_port = pci.downstream(switch, f"0000:{bus - 1:02x}:01.0", GEN5_X16)
    nic = pci.function(
        nic_port,
        _nic_slot(bus),
        CONNECTX7_IB,
        "mlx5_core",
        lanes=GEN5_X16,
        bars_bytes=(32 << 20,),
        express=Express(read_request=4096, ats=False),
    )
    # The partition of the compute fabric at index 0, the default one after it.
    port = infiniband(bus, pkeys=(0x8001, 0x7FFF), traffic_class="")
    interface = Interface(name=f"ibp{bus}s0", mtu_bytes=4092, hardware_type=32)
    rdma.mlx5(nic, name, [port], [interface])
    pci.gpu(gpu_port, _gpu_slot(bus), 0x2330, 128 << 30, lanes=GEN5_X16)


def _storage(pci: Pci, rdma: Rdma, bus: int, names: tuple[str, ...], node: int) -> None:
    """A two-port Ethernet card; the second port has no cable."""
    bridge = pci.host_bridge(f"0000:{bus - 3:02x}", numa_node=node)
    root_port = pci.root_port(bridge, f"0000:{bus - 3:02x}:01.0", GEN5_X16)
    for number, name in enumerate(names):
        interface = Interface(name=f"ens{bus}f{number}np{number}", mtu_bytes=1500, up=not number)
        card = pci.function(
            root_port,
            f"0000:{bus:02x}:00.{number}",
            CONNECTX7_ETH,
            "mlx5_core",
            lanes=GEN4_X16,
            bars_bytes=(32 << 20,),
            express=Express(read_request=512),
        )
        cable = {} if not number else {"state": "1: DOWN", "physical_state": "3: Disabled"}
        port = roce(bus + number, interface, rate="200 Gb/sec (4X HDR)", mtu_bytes=1024, **cable)
        rdma.mlx5(card, name, [port], [interface], firmware="28.42.1000", board="MT_0000001108")


def _nvswitches(pci: Pci) -> None:
    bridge = pci.host_bridge("0000:00", numa_node=0)
    for number in range(4):
        lanes = Lanes(4, 2)
        root_port = pci.root_port(bridge, f"0000:00:1{number}.0", lanes)
        pci.function(
            root_port,
            f"0000:0{5 + number}:00.0",
            NVSWITCH,
            "nvidia-nvswitch",
            lanes=lanes,
            bars_bytes=(32 << 20,),
            express=Express(),
        )


def _software(tree: Tree) -> None:
    write_system(
        tree,
        System(
            hostname="dgx1",
            os="Ubuntu 22.04.5 LTS",
            kernel=KERNEL,
            command_line=f"BOOT_IMAGE=/boot/vmlinuz-{KERNEL} root=/dev/md0 ro iommu=pt",
            numa_nodes=2,
            iommu_units=tuple(f"dmar{number}" for number in range(8)),
            modules={**software.ofed(), **software.nvidia(DRIVER, peermem=True)},
            memory_peers=("nv_mem",),
            nvidia=Nvidia(version=DRIVER),
            ofed="MLNX_OFED_LINUX-24.10-0.7.0.0",
            units={"nvidia-fabricmanager.service": "active"},
        ),
    )
    tree.put("dev", {f"nvidia-nvswitch{number}": "" for number in range(4)})
    answers = [
        gpus.gpu(
            number,
            _gpu_slot(bus),
            "NVIDIA H100 80GB HBM3",
            80,
            bar1_total_bytes=128 << 30,
            fabric_state="completed",
            health=healthy("NVIDIA H100 80GB HBM3", nvlinks=to_switches(18), recovery_action=None),
        )
        for number, (bus, _, _) in enumerate(COMPUTE)
    ]
    gpus.write_nvml(tree, DRIVER, "12.4", answers)


def _distances() -> dict[tuple[str, str], Distance]:
    """Of every GPU to every NIC of a rail: same switch, same socket, the other one."""
    found: dict[tuple[str, str], Distance] = {}
    for gpu_bus, _, gpu_node in COMPUTE:
        for nic_bus, _, nic_node in COMPUTE:
            far: Distance = "NODE" if gpu_node == nic_node else "SYS"
            pair = (_gpu_slot(gpu_bus), _nic_slot(nic_bus))
            found[pair] = "PIX" if gpu_bus == nic_bus else far
    return found
