"""Builders of facts: a healthy InfiniBand node with one rail, of which a test changes a part.

NIC mlx5_0 and GPU 0 sit below one PCIe switch, on the port of their own each::

    pci0000:16 ─ 0000:16:01.0 ─ 0000:17:00.0 ┬ 0000:18:00.0 ─ 0000:1a:00.0  mlx5_0
      (root port)      (switch, upstream)    └ 0000:18:01.0 ─ 0000:1b:00.0  GPU
"""

from __future__ import annotations

from gdrcheck.facts import (
    Acs,
    Collector,
    Facts,
    Gpu,
    Host,
    HugePages,
    Iommu,
    Limits,
    Link,
    Module,
    Netdev,
    NvidiaDriver,
    Nvml,
    PciFunction,
    PciSettings,
    PciTree,
    Peermem,
    Port,
    Provider,
    RdmaDevice,
    RdmaStack,
    VerbsDevice,
    VerbsPort,
)
from gdrcheck.profile import Profile
from tests.gpu_facts import gpu_health

NODE = "node1"
ROOT_BUS = "pci0000:16"
ROOT_PORT = "0000:16:01.0"
UPSTREAM_PORT = "0000:17:00.0"
NIC_PORT = "0000:18:00.0"
GPU_PORT = "0000:18:01.0"
NIC_SLOT = "0000:1a:00.0"
GPU_SLOT = "0000:1b:00.0"
KERNEL = "6.8.0-60-generic"
BRIDGE_DRIVER = "pcieport"
GIB = 1 << 30
# Modules of a node whose RDMA stack is the kernel's own; NVIDIA's come from DKMS.
MODULES = {
    "ib_core": f"/lib/modules/{KERNEL}/kernel/drivers/infiniband/core/ib_core.ko",
    "ib_uverbs": f"/lib/modules/{KERNEL}/kernel/drivers/infiniband/core/ib_uverbs.ko",
    "mlx5_core": f"/lib/modules/{KERNEL}/kernel/drivers/net/ethernet/mellanox/mlx5_core.ko",
    "mlx5_ib": f"/lib/modules/{KERNEL}/kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko",
    "nvidia": f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko",
}


def profile(**changes: object) -> Profile:
    """The complete profile of the node: one H200, one InfiniBand rail at 400 Gb/s."""
    values: dict[str, object] = {
        "gpus": {"count": 1, "model": "NVIDIA H200"},
        "rails": {
            "count": 1,
            "nics": [{"name": "mlx5_*"}],
            "port_rate_gbps": 400,
            "link_layer": "infiniband",
        },
    }
    return Profile.model_validate(values | changes)


def limits(**changes: object) -> Limits:
    """Root with IPC_LOCK and no limit on locked memory."""
    values: dict[str, object] = {
        "memlock_soft_bytes": None,
        "memlock_hard_bytes": None,
        "effective_capabilities": 1 << 14,
        "uid": 0,
    }
    return Limits.model_validate(values | changes)


def module(name: str, **changes: object) -> Module:
    """A loaded module that is the one on the disk."""
    values: dict[str, object] = {
        "name": name,
        "loaded": True,
        "version": None,
        "source_version": "5F2A1B3C4D5E6F708192A3B",
        "path": MODULES.get(name, f"/lib/modules/{KERNEL}/kernel/{name}.ko"),
        "disk_source_version": "5F2A1B3C4D5E6F708192A3B",
        "version_magic": f"{KERNEL} SMP preempt mod_unload modversions",
        "license": "Dual MIT/GPL" if name == "nvidia" else "Dual BSD/GPL",
    }
    return Module.model_validate(values | changes)


def host(**changes: object) -> Host:
    """An operating system on which GPUDirect RDMA works, by dma-buf."""
    values: dict[str, object] = {
        "os": "Ubuntu 24.04.3 LTS",
        "kernel": KERNEL,
        "architecture": "x86_64",
        "hostname": NODE,
        "page_bytes": 4096,
        "command_line": "BOOT_IMAGE=/vmlinuz root=/dev/sda2 ro iommu=pt",
        "kernel_config": {"CONFIG_PCI_P2PDMA": "y", "CONFIG_DMABUF_MOVE_NOTIFY": "y"},
        "huge_pages": (HugePages(page_bytes=2 << 20, total=0, free=0),),
        "selinux": "disabled",
        "apparmor": "enabled",
        "lsm_label": "unconfined",
        "iommu": Iommu(units=("dmar0",), default_domain="identity"),
        "numa_nodes": (0, 1),
        "modules": tuple(module(name) for name in MODULES),
        "loaded_modules": tuple(sorted(MODULES)),
        "units": {"nvidia-fabricmanager.service": "not-found"},
        "sysctls": {"net.ipv4.conf.all.arp_ignore": "0", "net.ipv4.conf.all.arp_announce": "0"},
        "kernel_log": (),
    }
    return Host.model_validate(values | changes)


def port(**changes: object) -> Port:
    """Port 1: active InfiniBand at 400 Gb/s."""
    values: dict[str, object] = {
        "number": 1,
        "state": "ACTIVE",
        "physical_state": "LinkUp",
        "rate_gbps": 400,
        "lanes": 4,
        "speed": "NDR",
        "link_layer": "infiniband",
        "lid": 17,
        "sm_lid": 1,
        "pkeys": (0xFFFF,),
        "gids": (
            {
                "index": 0,
                "gid": "fe80:0000:0000:0000:b83f:d203:00aa:0001",
                "type": "IB/RoCE v1",
                "netdev": "",
            },
        ),
        "traffic_class": None,
        "counters": {"link_downed": 0, "symbol_error": 0, "port_xmit_data": 1000},
    }
    return Port.model_validate(values | changes)


def netdev(name: str = "ibs1", **changes: object) -> Netdev:
    """An interface that is up, on a subnet of its own."""
    values: dict[str, object] = {
        "name": name,
        "mtu_bytes": 4092,
        "up": True,
        "subnets": ("10.0.0.0/24",),
    }
    return Netdev.model_validate(values | changes)


def rdma_device(name: str = "mlx5_0", **changes: object) -> RdmaDevice:
    """A ConnectX-7 that opens."""
    values: dict[str, object] = {
        "name": name,
        "driver": "mlx5_core",
        "slot": NIC_SLOT,
        "netdevs": (netdev(),),
        "uverbs": "uverbs0",
        "software": False,
        "firmware": "28.43.2026",
        "board": "MT_0000000838",
        "ports": (port(),),
        "verbs": VerbsDevice(
            name=name,
            error=None,
            error_number=None,
            ports=(VerbsPort(number=1, active_mtu_bytes=4096, max_mtu_bytes=4096),),
        ),
    }
    return RdmaDevice.model_validate(values | changes)


def link(**changes: object) -> Link:
    """A Gen5 x16 link at full speed and width."""
    values: dict[str, object] = {
        "current_gts": 32.0,
        "max_gts": 32.0,
        "current_width": 16,
        "max_width": 16,
    }
    return Link.model_validate(values | changes)


def settings(**changes: object) -> PciSettings:
    """The settings of an endpoint that is tuned for peer-to-peer."""
    values: dict[str, object] = {
        "port_type": "endpoint",
        "relaxed_ordering": True,
        "max_payload_bytes": 256,
        "max_payload_supported_bytes": 512,
        "max_read_request_bytes": 4096,
        "acs": None,
        "ats_enabled": False,
    }
    return PciSettings.model_validate(values | changes)


def pci_function(slot: str = NIC_SLOT, **changes: object) -> PciFunction:
    """The NIC's function, or whatever ``changes`` make of it."""
    values: dict[str, object] = {
        "slot": slot,
        "vendor": 0x15B3,
        "device": 0x1021,
        "class_code": 0x020700,
        "driver": "mlx5_core",
        "parent": NIC_PORT,
        "root_bus": ROOT_BUS,
        "numa_node": 0,
        "link": link(),
        "aer_fatal": 0,
        "aer_nonfatal": 0,
        "iommu_group_type": "identity",
        "bars_bytes": (32 << 20,),
        "settings": settings(),
    }
    return PciFunction.model_validate(values | changes)


def gpu_function(slot: str = GPU_SLOT, **changes: object) -> PciFunction:
    """The GPU's function."""
    values: dict[str, object] = {
        "vendor": 0x10DE,
        "device": 0x2335,
        "class_code": 0x030200,
        "driver": "nvidia",
        "parent": GPU_PORT,
        "bars_bytes": (16 << 20, 256 * GIB, 32 << 20),
    }
    return pci_function(slot, **(values | changes))


def bridge(slot: str, parent: str | None, port_type: str, **changes: object) -> PciFunction:
    """A root port or a port of a switch, with ACS off."""
    values: dict[str, object] = {
        "vendor": 0x1000,
        "device": 0xC030,
        "class_code": 0x060400,
        "driver": BRIDGE_DRIVER,
        "parent": parent,
        "bars_bytes": (),
        "settings": settings(port_type=port_type, acs=Acs(enabled=()), ats_enabled=None),
    }
    return pci_function(slot, **(values | changes))


def pci_tree(**changes: object) -> PciTree:
    """The tree that the module's docstring draws."""
    values: dict[str, object] = {
        "functions": (
            bridge(ROOT_PORT, None, "root port"),
            bridge(UPSTREAM_PORT, ROOT_PORT, "upstream port"),
            bridge(NIC_PORT, UPSTREAM_PORT, "downstream port"),
            bridge(GPU_PORT, UPSTREAM_PORT, "downstream port"),
            pci_function(NIC_SLOT),
            gpu_function(GPU_SLOT),
        ),
        "misplaced": {},
    }
    return PciTree.model_validate(values | changes)


def gpu(slot: str = GPU_SLOT, **changes: object) -> Gpu:
    """An idle, healthy H200 without MIG; no fabric state."""
    values: dict[str, object] = {
        "slot": slot,
        "uuid": "GPU-00000000-0000-0000-0000-000000000001",
        "model": "NVIDIA H200",
        "memory_total_bytes": 141 * GIB,
        "bar1_total_bytes": 256 * GIB,
        "bar1_used_bytes": 1 << 20,
        "mig": "disabled",
        "mig_devices": (),
        "processes": (),
        "compute_mode": "default",
        "fabric_state": None,
        "health": gpu_health(),
    }
    return Gpu.model_validate(values | changes)


def nvml(**changes: object) -> Nvml:
    """NVML's answer about the one GPU."""
    values: dict[str, object] = {
        "driver_version": "580.95.05",
        "cuda_version": "13.0",
        "gpus": (gpu(),),
        "lost": {},
    }
    return Nvml.model_validate(values | changes)


def peermem(**changes: object) -> Peermem:
    """nvidia-peermem is not loaded, and the kernel has no interface for it: an inbox stack."""
    values: dict[str, object] = {"loaded": False, "module": None, "clients": None}
    return Peermem.model_validate(values | changes)


def nvidia_driver(**changes: object) -> NvidiaDriver:
    """The open kernel module."""
    values: dict[str, object] = {
        "version": "580.95.05",
        "open_module": True,
        "cuda": "13.0",
        "peermem": peermem(),
        "parameters": {"GrdmaPciTopoCheckOverride": "0"},
        "nvswitches": (),
    }
    return NvidiaDriver.model_validate(values | changes)


def rdma_stack(**changes: object) -> RdmaStack:
    """The kernel's own stack, and an image with the provider of mlx5."""
    values: dict[str, object] = {
        "ofed": "inbox",
        "uverbs_abi": 6,
        "rdma_core": "56.1-1",
        "providers": (Provider(name="mlx5", library="libmlx5-rdmav34.so"),),
        "exclusive_namespaces": False,
    }
    return RdmaStack.model_validate(values | changes)


def facts(**changes: object) -> Facts:
    """Everything of the healthy node."""
    values: dict[str, object] = {
        "node": NODE,
        "collector": Collector(version=1, ran_at_s=1.7e9, complaints=()),
        "host": host(),
        "limits": limits(),
        "nvidia": nvidia_driver(),
        "nvml": nvml(),
        "rdma_stack": rdma_stack(),
        "rdma_devices": (rdma_device(),),
        "pci": pci_tree(),
        "emulated": False,
        "versions": {"gdrcheck": "0.1.0", "libibverbs1": "56.1-1"},
    }
    return Facts.model_validate(values | changes)
