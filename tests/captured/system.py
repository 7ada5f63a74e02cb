"""Builds the operating system of a machine: /proc, modules, limits, and what the collector left."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from gdrcheck.host_collector.software import FIELDS, MODULES, OPTIONS, UNITS
from tests.captured.tree import Tree

HOST_FOLDER = "run/gdrcheck/host"
NVML_FOLDER = "run/gdrcheck/recorded"
RAN_AT_S = 1764460000.0
AT_PAGE_SIZE = 6  # auxiliary vector: getauxval(3), AT_PAGESZ
IPC_LOCK = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A loaded kernel module. ``path`` is below the folder of the kernel, or ``(builtin)``."""

    path: str
    version: str | None = None
    source: str = "0000000000000000000000A"
    license: str = "Dual BSD/GPL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvidia:
    """NVIDIA's driver as /proc shows it."""

    version: str = "570.86.15"
    open_module: bool = True
    parameters: Mapping[str, str] = field(
        default_factory=lambda: {"GrdmaPciTopoCheckOverride": "0", "EnableStreamMemOPs": "0"}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """An operating system. ``memory_peers`` None: the kernel has no such interface.

    ``os`` is what the collector read; ``collected`` False: it did not run.
    """

    hostname: str
    os: str
    kernel: str
    architecture: str = "x86_64"
    page_bytes: int = 4096
    command_line: str
    numa_nodes: int = 1
    huge_pages: tuple[int, ...] = (2 << 20, 1 << 30)
    iommu_units: tuple[str, ...] = ()
    modules: Mapping[str, Module]
    memory_peers: tuple[str, ...] | None = None
    nvidia: Nvidia | None = None
    ofed: str = "inbox"
    units: Mapping[str, str] = field(default_factory=dict)
    capabilities: int = IPC_LOCK
    lsm_label: str = "unconfined"
    collected: bool = True


def write_system(tree: Tree, system: System) -> None:
    """Adds everything of ``system`` to ``tree``."""
    _proc(tree, system)
    _own_process(tree, system)
    _sys(tree, system)
    _image(tree, system)
    if system.nvidia is not None:
        _nvidia(tree, system, system.nvidia)
    if system.collected:
        tree.put(HOST_FOLDER, {"host.json": json.dumps(_collected(system), indent=1)})


def _proc(tree: Tree, system: System) -> None:
    tree.put(
        "proc/sys/kernel",
        {
            "osrelease": system.kernel,
            "hostname": system.hostname,
            "arch": system.architecture,
            "version": "#1 SMP PREEMPT_DYNAMIC",
        },
    )
    tree.put("proc", {"cmdline": system.command_line})
    modules = (f"{name} 1 1 - Live 0x0000000000000000" for name in _real_modules(system))
    tree.put("proc", {"modules": "\n".join(modules)})
    for name in ("all", "default", "lo"):
        files = {"arp_announce": 0, "arp_filter": 0, "arp_ignore": 0, "rp_filter": 0}
        tree.put(f"proc/sys/net/ipv4/conf/{name}", files)


def _own_process(tree: Tree, system: System) -> None:
    status = [
        "Name:\tpython3",
        "Uid:\t0\t0\t0\t0",
        "Gid:\t0\t0\t0\t0",
        f"CapEff:\t{system.capabilities:016x}",
        f"CapBnd:\t{system.capabilities:016x}",
        "Mems_allowed_list:\t0",
    ]
    columns = "{:<26}{:<21}{:<21}{:<10}"
    limits = [
        columns.format("Limit", "Soft Limit", "Hard Limit", "Units"),
        columns.format("Max open files", "1024", "1048576", "files"),
        columns.format("Max locked memory", "unlimited", "unlimited", "bytes"),
    ]
    vector = struct.pack("=QQQQ", AT_PAGE_SIZE, system.page_bytes, 0, 0)
    tree.put(
        "proc/self",
        {
            "status": "\n".join(status),
            "limits": "\n".join(limits),
            "auxv": vector,
            "smaps": f"KernelPageSize: {system.page_bytes >> 10:8d} kB",
        },
    )
    tree.put("proc/self/attr", {"current": system.lsm_label})


def _sys(tree: Tree, system: System) -> None:
    for name, module in system.modules.items():
        files: dict[str, str | int] = {"srcversion": module.source}
        if module.version is not None:
            files["version"] = module.version
        if module.path != "(builtin)":
            files |= {"initstate": "live", "refcnt": 1}
        tree.put(f"sys/module/{name}", files)
    if "ib_core" in system.modules:
        tree.put("sys/module/ib_core/parameters", {"netns_mode": "Y"})
    tree.put("sys/module/apparmor/parameters", {"enabled": "Y"})
    for size_bytes in system.huge_pages:
        folder = f"sys/kernel/mm/hugepages/hugepages-{size_bytes >> 10}kB"
        tree.put(folder, {"nr_hugepages": 0, "free_hugepages": 0})
    for client in system.memory_peers or ():
        tree.put(f"sys/kernel/mm/memory_peers/{client}", {"version": "570.86.15"})
    nodes = "0" if system.numa_nodes == 1 else f"0-{system.numa_nodes - 1}"
    tree.put("sys/devices/system/node", {"online": nodes, "possible": nodes, "has_memory": nodes})
    for number in range(system.numa_nodes):
        tree.put(f"sys/devices/system/node/node{number}", {"cpulist": number})
    # There also where SELinux is not.
    tree.folder("sys/fs/cgroup")
    tree.folder("sys/class/iommu")
    tree.folder("sys/kernel/iommu_groups")
    for unit in system.iommu_units:
        tree.folder(f"sys/devices/virtual/iommu/{unit}")
        tree.link(f"sys/class/iommu/{unit}", f"sys/devices/virtual/iommu/{unit}")


def _image(tree: Tree, system: System) -> None:
    packages = {"libibverbs1": "56.1-1", "ibverbs-providers": "56.1-1", "rdma-core": "56.1-1"}
    versions = {"apt": packages, "pip": {"cuda-bindings": "12.9.4"}}
    tree.put("opt/gdrcheck", {"versions.json": json.dumps(versions)})
    folder = f"usr/lib/{system.architecture}-linux-gnu"
    for provider in ("mlx5", "rxe", "bnxt_re", "irdma"):
        tree.put("etc/libibverbs.d", {f"{provider}.driver": f"driver {provider}"})
        tree.put(f"{folder}/libibverbs", {f"lib{provider}-rdmav34.so": b"\x7fELF"})


def _nvidia(tree: Tree, system: System, nvidia: Nvidia) -> None:
    kind = "Open Kernel Module" if nvidia.open_module else f"{system.architecture} Kernel Module"
    release = f"NVRM version: NVIDIA UNIX {kind} for {system.architecture}  {nvidia.version}"
    if not nvidia.open_module:
        release = f"NVRM version: NVIDIA UNIX {kind}  {nvidia.version}"
    text = f"{release}  Release Build\nGCC version:  gcc version 13.3.0"
    parameters = "\n".join(f"{name}: {value}" for name, value in nvidia.parameters.items())
    tree.put("proc/driver/nvidia", {"version": text, "params": parameters})
    tree.put("dev", {"nvidiactl": ""})


def _real_modules(system: System) -> tuple[str, ...]:
    return tuple(name for name, one in system.modules.items() if one.path != "(builtin)")


def _collected(system: System) -> dict[str, object]:
    magic = f"{system.kernel} SMP preempt mod_unload modversions"
    modules: dict[str, object] = {name: dict.fromkeys(FIELDS) for name in MODULES}
    modules |= {
        name: {
            "path": _path(system, module),
            "version": module.version,
            "source_version": None if module.path == "(builtin)" else module.source,
            "version_magic": None if module.path == "(builtin)" else magic,
            "license": module.license,
        }
        for name, module in system.modules.items()
    }
    return {
        "version": 1,
        "ran_at_s": RAN_AT_S,
        "complaints": [],
        "os": system.os,
        "kernel_config": dict.fromkeys(OPTIONS, "y"),
        "modules": modules,
        "ofed": system.ofed,
        "selinux": "disabled",
        "units": {**dict.fromkeys(UNITS, "not-found"), **system.units},
        "kernel_log": [],
        "config_spaces": {"saved": 0, "failed": {}},
    }


def _path(system: System, module: Module) -> str:
    if module.path == "(builtin)":
        return module.path
    return f"/lib/modules/{system.kernel}/{module.path}"
