"""A node with two GPUs in MIG mode and two HDR NICs, below switches in two tiers (PXB)::

    pci0000:40 ─ 40:01.0 ─ 41:00.0 ┬ 42:00.0 ─ 43:00.0 ┬ 44:00.0 ─ 45:00.0 GPU 0
                           switch  │           switch  └ 44:01.0 ─ 46:00.0 GPU 1
                                   ├ 42:01.0 ─ 47:00.0 mlx5_0
                                   └ 42:02.0 ─ 48:00.0 mlx5_1

One socket. A MIG device shares the slot of its GPU; its UUID is what tells it from the others.
"""

from __future__ import annotations

from gdrcheck.expect import Distance
from gdrcheck.profile import Profile
from tests.captured import gpus, software
from tests.captured.config_space import Express
from tests.captured.gpu_health import healthy, to_gpus
from tests.captured.machine import ExpectedRail, Machine
from tests.captured.pci import Lanes, Pci
from tests.captured.rdma import Interface, Rdma, infiniband
from tests.captured.system import Nvidia, System, write_system
from tests.captured.tree import Tree

DRIVER = "535.216.01"
KERNEL = "6.1.0-31-amd64"
GEN4_X16 = Lanes(4, 16)
GPUS = ("0000:45:00.0", "0000:46:00.0")
NICS = {"mlx5_0": "0000:47:00.0", "mlx5_1": "0000:48:00.0"}

PROFILE = {
    "gpus": {"count": 2, "model": "NVIDIA A100*"},
    "rails": {
        "count": 2,
        "nics": [{"name": "mlx5_*"}],
        "port_rate_gbps": 200,
        "link_layer": "infiniband",
    },
    "registration": "peermem",
    "expect": {
        "os": "Debian GNU/Linux 12*",
        "iommu": "off",
        "ofed": "MLNX_OFED_LINUX-24.10-*",
        "driver": "535.*",
        "open_module": False,
        "mig": "enabled",
        "bar1_bytes": 128 << 30,
        "rail_distance": "PXB",
        "gpu_link": {"speed_gts": 16, "width": 16},
    },
}

NOT_JUDGED = (
    "kernel command_line cuda_supported fabric_manager dmabuf_possible acs relaxed_ordering "
    "max_payload max_read_request port_firmware port_partition port_traffic_class "
    "rails_keep_addresses_apart port_mtu gpu_memory_registers gpu_memory_moves "
    "gpu_recovery gpu_vbios gpu_nvlinks confidential_computing nvswitch_errors gpu_peers"
)


def machine() -> Machine:
    """The node with its healthy tree."""
    tree = Tree()
    pci, rdma = Pci(tree), Rdma(tree)
    root_port = pci.root_port(pci.host_bridge("0000:40", numa_node=0), "0000:40:01.0", GEN4_X16)
    switch = pci.upstream(root_port, "0000:41:00.0", GEN4_X16)
    middle = pci.downstream(switch, "0000:42:00.0", GEN4_X16)
    lower = pci.upstream(middle, "0000:43:00.0", GEN4_X16)
    for number, slot in enumerate(GPUS):
        port = pci.downstream(lower, f"0000:44:0{number}.0", GEN4_X16)
        pci.gpu(port, slot, 0x20B2, 128 << 30, lanes=GEN4_X16)
    for number, (name, slot) in enumerate(NICS.items()):
        port = pci.downstream(switch, f"0000:42:0{1 + number}.0", GEN4_X16)
        nic = pci.function(
            port,
            slot,
            (0x15B3, 0x101B, 0x020700),
            "mlx5_core",
            lanes=GEN4_X16,
            bars_bytes=(32 << 20,),
            express=Express(read_request=4096, ats=False),
        )
        interface = Interface(name=f"ib{number}", mtu_bytes=2044, hardware_type=32)
        hdr = infiniband(20 + number, rate="200 Gb/sec (4X HDR)", traffic_class="")
        rdma.mlx5(nic, name, [hdr], [interface], firmware="20.43.1014", board="MT_0000000223")
    rdma.done()
    _software(tree)
    distances: dict[tuple[str, str], Distance] = {
        (gpu, nic): "PXB" for gpu in GPUS for nic in NICS.values()
    }
    return Machine(
        name="mig",
        tree=tree,
        profile=Profile.model_validate(PROFILE),
        not_judged=NOT_JUDGED,
        rails=tuple(ExpectedRail(f"gpu{at}", name, "PXB") for at, name in enumerate(NICS)),
        gpus=GPUS,
        distances=distances,
    )


def _software(tree: Tree) -> None:
    write_system(
        tree,
        System(
            hostname="mig1",
            os="Debian GNU/Linux 12 (bookworm)",
            kernel=KERNEL,
            command_line=f"BOOT_IMAGE=/boot/vmlinuz-{KERNEL} root=/dev/sda1 ro quiet",
            modules={
                **software.ofed(),
                **software.nvidia(DRIVER, peermem=True, license="NVIDIA"),
            },
            memory_peers=("nv_mem", "nv_mem_nc"),
            nvidia=Nvidia(version=DRIVER, open_module=False),
            ofed="MLNX_OFED_LINUX-24.10-0.7.0.0",
        ),
    )
    answers = [
        gpus.gpu(
            number,
            slot,
            "NVIDIA A100-SXM4-80GB",
            80,
            mig="enabled",
            mig_devices=gpus.mig_devices(number, 2, "NVIDIA A100-SXM4-80GB MIG 3g.40gb"),
            health=healthy(
                "NVIDIA A100-SXM4-80GB",
                nvlinks=to_gpus(12, 4, GPUS[1 - number]),
                recovery_action=None,
            ),
        )
        for number, slot in enumerate(GPUS)
    ]
    gpus.write_nvml(tree, DRIVER, "12.2", answers)
