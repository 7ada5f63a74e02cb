"""All facts of a node in lines, for people: what is there, and once what could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gdrcheck.facts import (
    Collector,
    Facts,
    Host,
    HugePages,
    Iommu,
    Limits,
    Module,
    NvidiaDriver,
    RdmaStack,
    Unreadable,
)
from gdrcheck.show import devices, notices, pci
from gdrcheck.show.words import UNKNOWN, Gaps, counted, moment, row, settings, size, wrapped

# Capabilities of interest by bit: include/uapi/linux/capability.h.
CAPABILITIES = {12: "NET_ADMIN", 13: "NET_RAW", 14: "IPC_LOCK", 21: "SYS_ADMIN"}


def as_lines(facts: Facts, now_s: float) -> list[str]:
    """The whole tree: host, drivers, RDMA devices, GPUs, PCI Express, and what was not read.

    ``now_s``, in seconds since 1970, is what ages are told against.
    """
    gaps = Gaps()
    parts = [
        _head(facts, now_s),
        ["host:", *_host(facts.host, gaps)],
        ["this process:", *_limits(facts.limits, gaps)],
        ["NVIDIA driver:", *_nvidia(facts.nvidia, gaps)],
        ["RDMA stack:", *_rdma_stack(facts.rdma_stack, gaps)],
        ["RDMA devices:", *devices.rdma(facts, gaps)],
        ["GPUs:", *devices.gpus(facts, gaps)],
        ["PCI Express:", *_pci(facts, gaps)],
        gaps.lines(),
    ]
    return [line for part in parts if part for line in ("", *part)][1:]


def _head(facts: Facts, now_s: float) -> list[str]:
    lines = [f"node {facts.node}, read by gdrcheck {facts.versions.get('gdrcheck', UNKNOWN)}"]
    lines += notices.of_facts(facts)
    if isinstance(facts.collector, Collector):
        lines.append(f"the host collector ran {moment(facts.collector.ran_at_s, now_s)}")
        for complaint in counted(facts.collector.complaints):
            lines += wrapped(f"it complains: {complaint}")
    return lines


def _host(host: Host, gaps: Gaps) -> Iterator[str]:
    yield from row("name", f"{host.hostname}, {host.architecture}")
    yield from row("system", gaps.text(host.os, "operating system"))
    pages = gaps.text(host.page_bytes, "page size", size)
    yield from row("kernel", f"{gaps.text(host.kernel, 'kernel')}, pages of {pages}")
    yield from row("command line", gaps.text(host.command_line, "kernel command line"))
    yield from row("configuration", gaps.text(host.kernel_config, "kernel configuration", settings))
    yield from row("IOMMU", _iommu(host.iommu, gaps))
    yield from row("NUMA nodes", gaps.text(host.numa_nodes, "NUMA nodes", _numbers))
    yield from row("huge pages", _huge_pages(host.huge_pages, gaps))
    selinux = gaps.text(host.selinux, "SELinux")
    apparmor = gaps.text(host.apparmor, "AppArmor")
    label = gaps.text(host.lsm_label, "security label")
    yield from row("security", f"SELinux {selinux}, AppArmor {apparmor}, label {label}")
    yield from row("modules", _modules(host.modules, gaps))
    yield from row("units", gaps.text(host.units, "systemd units", _units))
    yield from row("network", settings(host.sysctls, usual="0"))
    yield from _kernel_log(host, gaps)


def _units(values: Mapping[str, str]) -> str:
    return settings(values, usual="not-found")


def _numbers(values: tuple[int, ...]) -> str:
    return ", ".join(str(value) for value in values) or "none"


def _iommu(iommu: Iommu, gaps: Gaps) -> str:
    if iommu.units == ():
        return "off"
    units = gaps.text(iommu.units, "IOMMU", ", ".join)
    if iommu.default_domain is None:
        return f"{units}, no groups"
    return f"{units}, domain {gaps.text(iommu.default_domain, 'IOMMU domain')}"


def _huge_pages(pools: tuple[HugePages, ...] | Unreadable, gaps: Gaps) -> str:
    if isinstance(pools, Unreadable):
        return gaps.text(pools, "huge pages")
    words = [
        f"{size(pool.page_bytes)}: {gaps.text(pool.free, 'huge pages')} of "
        f"{gaps.text(pool.total, 'huge pages')} free"
        for pool in pools
    ]
    return ", ".join(words) or "none"


def _modules(modules: tuple[Module, ...] | Unreadable, gaps: Gaps) -> str:
    if isinstance(modules, Unreadable):
        return gaps.text(modules, "kernel modules")
    found = []
    for module in modules:
        if isinstance(module.loaded, Unreadable):
            gaps.note(module.loaded, f"module {module.name}")
        elif module.loaded:
            version = module.version if isinstance(module.version, str) else ""
            found.append(f"{module.name} {version}".rstrip())
        if isinstance(module.path, Unreadable):
            gaps.note(module.path, "modules on the disk")
    return ", ".join(found) or "none of interest is loaded"


def _kernel_log(host: Host, gaps: Gaps) -> Iterator[str]:
    if isinstance(host.kernel_log, Unreadable):
        gaps.note(host.kernel_log, "kernel log")
        return
    if not host.kernel_log:
        yield from row("kernel log", "nothing of interest")
    for line in host.kernel_log:
        yield from row("kernel log", f"[{line.seconds_since_boot:.1f}] {line.topic}: {line.text}")


def _limits(limits: Limits, gaps: Gaps) -> Iterator[str]:
    soft = _limit(limits.memlock_soft_bytes, gaps)
    yield from row("memlock", f"{soft}, at most {_limit(limits.memlock_hard_bytes, gaps)}")
    yield from row("user", gaps.text(limits.uid, "user"))
    yield from row(
        "capabilities", gaps.text(limits.effective_capabilities, "capabilities", _capabilities)
    )


def _limit(value: int | Unreadable | None, gaps: Gaps) -> str:
    return "unlimited" if value is None else gaps.text(value, "memlock limit", size)


def _capabilities(value: int) -> str:
    names = [name for bit, name in CAPABILITIES.items() if value >> bit & 1]
    return f"{value:#x} ({', '.join(names) or 'none of interest'})"


def _nvidia(nvidia: NvidiaDriver | Unreadable | None, gaps: Gaps) -> Iterator[str]:
    if nvidia is None:
        yield "  is not loaded"
        return
    if isinstance(nvidia, Unreadable):
        yield f"  {gaps.text(nvidia, 'NVIDIA driver')}"
        return
    version = gaps.text(nvidia.version, "version of the NVIDIA driver")
    kind = gaps.text(nvidia.open_module, "kind of the NVIDIA module", _open)
    yield from row("version", f"{version}, {kind}")
    yield from row("CUDA", f"up to {gaps.text(nvidia.cuda, 'CUDA version of the driver')}")
    peermem = nvidia.peermem
    loaded = gaps.text(peermem.loaded, "peermem module", lambda yes: "" if yes else "not ")
    registered = gaps.text(
        peermem.registered, "peer memory clients", lambda yes: "" if yes else "not "
    )
    module = peermem.module or "nvidia_peermem"
    yield from row("peermem", f"{module} {loaded}loaded, {registered}registered with ib_core")
    yield from row(
        "settings", gaps.text(nvidia.parameters, "settings of the NVIDIA driver", settings)
    )


def _open(value: bool) -> str:
    return "open kernel module" if value else "proprietary kernel module"


def _rdma_stack(stack: RdmaStack, gaps: Gaps) -> Iterator[str]:
    yield from row("OFED", gaps.text(stack.ofed, "OFED"))
    abi = "none" if stack.uverbs_abi is None else gaps.text(stack.uverbs_abi, "uverbs ABI")
    yield from row("uverbs ABI", abi)
    yield from row("rdma-core", gaps.text(stack.rdma_core, "version of rdma-core"))
    yield from row("providers", _providers(stack, gaps))
    mode = gaps.text(stack.exclusive_namespaces, "network namespace mode", _namespaces)
    yield from row("namespaces", mode)


def _namespaces(exclusive: bool) -> str:
    return "exclusive: devices are seen in one network namespace" if exclusive else "shared"


def _providers(stack: RdmaStack, gaps: Gaps) -> str:
    if isinstance(stack.providers, Unreadable):
        return gaps.text(stack.providers, "providers of libibverbs")
    names = [
        one.name if one.library else f"{one.name} (its library is missing)"
        for one in stack.providers
    ]
    return ", ".join(names) or "none"


def _pci(facts: Facts, gaps: Gaps) -> list[str]:
    return [f"  {line}" for line in pci.tree(facts, gaps)] or ["  no GPU or RDMA NIC was found"]
