"""The operating system below the container.

What is not said otherwise is documented in the kernel sources: Documentation/ABI/testing/
sysfs-kernel-mm-hugepages, sysfs-kernel-iommu_groups, sysfs-class-iommu, and
Documentation/networking/ip-sysctl.rst.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from gdrcheck.facts import Host, HugePages, Iommu, LogLine, Unreadable
from gdrcheck.facts.pci import DISPLAY_CLASSES, NVIDIA_VENDOR
from gdrcheck.probes.collected import HOST_FILE, Collected
from gdrcheck.probes.modules import loaded_modules, read_modules
from gdrcheck.probes.process import read_limits, read_page_bytes
from gdrcheck.probes.reading import is_there, list_names, read_bytes, read_number, read_text, shaped

__all__ = ["read_host", "read_limits"]

LIVE_ROOT = Path("/")
HUGE_PAGES = "sys/kernel/mm/hugepages"
HUGE_PAGE = re.compile(r"hugepages-([1-9]\d{0,9})kB")
SELINUX = "sys/fs/selinux"
APPARMOR = "sys/module/apparmor"
LABEL = "proc/self/attr/current"
IOMMU_UNITS = "sys/class/iommu"
IOMMU_GROUPS = "sys/kernel/iommu_groups"
PCI_DEVICES = "sys/bus/pci/devices"
NETWORK_CLASS = 0x02  # PCI Code and ID Assignment; InfiniBand controllers are 02h, 07h
NUMA_NODES = "sys/devices/system/node"
SYSCTL_FOLDER = "proc/sys/net/ipv4/conf"
SYSCTLS = ("arp_ignore", "arp_announce", "arp_filter", "rp_filter")

SelinuxMode = Literal["enforcing", "permissive", "disabled"]
TEXT: TypeAdapter[str] = TypeAdapter(str)
MODE: TypeAdapter[SelinuxMode] = TypeAdapter(SelinuxMode)
TEXTS: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])
LINES: TypeAdapter[tuple[LogLine, ...]] = TypeAdapter(tuple[LogLine, ...])

Domain = Literal["identity", "DMA", "mixed"]
# Types of groups. A function that is given to a guest or to user space (vfio) has no default.
DOMAINS: dict[str, Domain | None] = {
    "identity": "identity",
    "DMA": "DMA",
    "DMA-FQ": "DMA",  # translated as well; it only invalidates later
    "unmanaged": None,
    "blocked": None,
}


def read_host(root: Path, left: Collected, netdevs: Iterable[str]) -> Host:
    """All about the host below ``root``; ``left`` is what the host collector left.

    ``netdevs`` are the interfaces of RDMA devices.
    """
    selinux, apparmor = _selinux(root, left), _apparmor(root)
    hostname = read_text(root / "proc/sys/kernel/hostname")
    return Host(
        os=shaped(left.value("os"), TEXT, f"{HOST_FILE}: os"),
        kernel=read_text(root / "proc/sys/kernel/osrelease"),
        architecture=_architecture(root),
        hostname=hostname if isinstance(hostname, str) else "unknown",
        page_bytes=read_page_bytes(root),
        command_line=read_text(root / "proc/cmdline"),
        kernel_config=shaped(left.value("kernel_config"), TEXTS, f"{HOST_FILE}: kernel_config"),
        huge_pages=_huge_pages(root / HUGE_PAGES),
        selinux=selinux,
        apparmor=apparmor,
        lsm_label=_label(root, labelled=(selinux, apparmor) != ("disabled", "disabled")),
        iommu=Iommu(units=_iommu_units(root / IOMMU_UNITS), default_domain=_default_domain(root)),
        numa_nodes=_numa_nodes(root / NUMA_NODES),
        modules=read_modules(root, left),
        loaded_modules=loaded_modules(root),
        units=shaped(left.value("units"), TEXTS, f"{HOST_FILE}: units"),
        sysctls=_sysctls(root, netdevs),
        kernel_log=shaped(left.value("kernel_log"), LINES, f"{HOST_FILE}: kernel_log"),
    )


def _architecture(root: Path) -> str:
    """In the words of uname(2); ``unknown`` for a tree that does not tell."""
    if root == LIVE_ROOT:
        return platform.machine()
    text = read_text(root / "proc/sys/kernel/arch")
    return text if isinstance(text, str) else "unknown"


def _huge_pages(folder: Path) -> tuple[HugePages, ...] | Unreadable:
    """One pool for each size that the kernel offers; none when it has no huge pages."""
    there = is_there(folder)
    if there is not True:
        return there or ()
    names = list_names(folder)
    if isinstance(names, Unreadable):
        return names
    pools = [
        HugePages(
            page_bytes=int(size[1]) << 10,
            total=read_number(folder / name / "nr_hugepages", 10),
            free=read_number(folder / name / "free_hugepages", 10),
        )
        for name in names
        if (size := HUGE_PAGE.fullmatch(name))
    ]
    return tuple(sorted(pools, key=lambda pool: pool.page_bytes))


def _selinux(root: Path, left: Collected) -> SelinuxMode | Unreadable:
    """The folder is there only where SELinux is built in; engines hide what is in it."""
    there = is_there(root / SELINUX)
    if there is not True:
        return there or "disabled"
    enforce = read_number(root / SELINUX / "enforce", 10)
    if isinstance(enforce, Unreadable):
        return shaped(left.value("selinux"), MODE, f"{HOST_FILE}: selinux")
    return "enforcing" if enforce else "permissive"


def _apparmor(root: Path) -> Literal["enabled", "disabled"] | Unreadable:
    there = is_there(root / APPARMOR)
    if there is not True:
        return there or "disabled"
    answer = read_text(root / APPARMOR / "parameters/enabled")
    if answer == "Y":
        return "enabled"
    if answer == "N":
        return "disabled"
    unknown = Unreadable(unreadable=f"enabled: unknown form {str(answer)[:40]!r}")
    return answer if isinstance(answer, Unreadable) else unknown


def _label(root: Path, *, labelled: bool) -> str | Unreadable:
    """The process's label; ``none`` when no module that gives labels is on (EINVAL then)."""
    if not labelled:
        return "none"
    data = read_bytes(root / LABEL)
    if isinstance(data, Unreadable):
        return data
    # SELinux ends its label with a zero byte (proc_pid_attr_current(5)).
    text = data.rstrip(b"\0\n").decode("utf-8", "replace").strip()
    return text if text.isprintable() and text else Unreadable(unreadable="current: no label")


def _iommu_units(folder: Path) -> tuple[str, ...] | Unreadable:
    there = is_there(folder)
    return list_names(folder) if there is True else there or ()


def _default_domain(root: Path) -> Domain | Unreadable | None:
    """What the groups of NVIDIA's GPUs and of the network functions have in common."""
    groups = root / IOMMU_GROUPS
    there = is_there(groups)
    if there is not True:
        return there or None
    names = list_names(groups)
    if isinstance(names, Unreadable):
        return names
    found: set[Domain] = set()
    for name in names:
        if not _serves_gpu_or_nic(root, groups / name / "devices"):
            continue
        kind = read_text(groups / name / "type")
        if isinstance(kind, Unreadable):
            return Unreadable(unreadable=f"iommu_groups: {name}: {kind.unreadable}")
        if kind not in DOMAINS:
            return Unreadable(unreadable=f"iommu_groups: {name}: unknown type {kind[:40]!r}")
        domain = DOMAINS[kind]
        if domain is not None:
            found.add(domain)
    return "mixed" if len(found) > 1 else next(iter(found), None)


def _serves_gpu_or_nic(root: Path, devices: Path) -> bool:
    names = list_names(devices)
    return isinstance(names, tuple) and any(_is_gpu_or_nic(root / PCI_DEVICES / n) for n in names)


def _is_gpu_or_nic(function: Path) -> bool:
    kind = read_number(function / "class")
    if not isinstance(kind, int):
        return False
    if kind >> 16 == NETWORK_CLASS:
        return True
    return kind >> 8 in DISPLAY_CLASSES and read_number(function / "vendor") == NVIDIA_VENDOR


def _numa_nodes(folder: Path) -> tuple[int, ...] | Unreadable:
    """The numbers of the nodes; 0 alone for a kernel without NUMA."""
    there = is_there(folder)
    if there is not True:
        return there or (0,)
    names = list_names(folder)
    if isinstance(names, Unreadable):
        return names
    found = sorted(int(name[4:]) for name in names if re.fullmatch(r"node\d{1,5}", name))
    return tuple(found) or Unreadable(unreadable="node: no NUMA node is listed")


def _sysctls(root: Path, netdevs: Iterable[str]) -> dict[str, str]:
    """How these interfaces, and all together, answer ARP and filter by route."""
    found: dict[str, str] = {}
    for interface in ("all", *sorted(netdevs)):
        for name in SYSCTLS:
            value = read_text(root / SYSCTL_FOLDER / interface / name)
            if isinstance(value, str):
                found[f"net.ipv4.conf.{interface}.{name}"] = value
    return found
