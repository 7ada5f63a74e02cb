"""What the nodes of a profile are compared in: one value a node, made of all its parts.

Each reader returns the value, Unreadable, or None for a node that has no such thing. Rails and GPUs
of one node may differ by its design; so the value of a node names those that differ from its
others, and is compared with other nodes as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gdrcheck import topology
from gdrcheck.facts import Facts, Gpu, GpuHealth, Nvml, PciSettings, PciTree, Unreadable
from gdrcheck.rails import Rail
from gdrcheck.rules.alike import together
from gdrcheck.rules.host import MODE_OF_DOMAIN

Value = str | Unreadable | None
Reader = Callable[[Facts, tuple[Rail, ...]], Value]
# The beginnings of words of the kernel's command line that change how memory, PCI, cores and the
# drivers behave. All others (root=UUID, console, BOOT_IMAGE) differ between healthy nodes.
WORDS = (
    "iommu", "intel_iommu", "amd_iommu", "arm-smmu", "pci", "hugepages", "hugepagesz",
    "default_hugepagesz", "transparent_hugepage", "numa_balancing", "isolcpus", "nohz", "rcu_nocbs",
    "mitigations", "processor.max_cstate", "intel_idle.max_cstate", "intel_pstate", "amd_pstate",
    "cpufreq", "idle", "nosmt", "module_blacklist", "modprobe.blacklist", "nvidia", "mlx5", "ib_",
    "swiotlb", "init_on_alloc", "kvm",
)  # fmt: skip


def gpu_names(facts: Facts) -> dict[str, str]:
    """Slot → ``gpuN``, the N-th of NVIDIA's GPUs in PCI order."""
    there = () if isinstance(facts.pci, Unreadable) else facts.pci.nvidia_gpus
    return {gpu.slot: f"gpu{number}" for number, gpu in enumerate(there)}


def gpus(facts: Facts) -> dict[str, Gpu]:
    """The GPUs that NVML lists, by name; by slot one that PCI does not show."""
    if not isinstance(facts.nvml, Nvml):
        return {}
    names = gpu_names(facts)
    return {names.get(gpu.slot, gpu.slot): gpu for gpu in facts.nvml.gpus}


def _command_line(facts: Facts, _rails: tuple[Rail, ...]) -> Value:
    line = facts.host.command_line
    if isinstance(line, Unreadable):
        return line
    return " ".join(sorted(word for word in line.split() if word.startswith(WORDS))) or "(none)"


def _nvidia_version(facts: Facts, _rails: tuple[Rail, ...]) -> Value:
    driver = facts.nvidia
    return driver if driver is None or isinstance(driver, Unreadable) else driver.version


def _nvidia_module(facts: Facts, _rails: tuple[Rail, ...]) -> Value:
    driver = facts.nvidia
    if driver is None or isinstance(driver, Unreadable):
        return driver
    if isinstance(driver.open_module, Unreadable):
        return driver.open_module
    return "open" if driver.open_module else "proprietary"


def _iommu(facts: Facts, _rails: tuple[Rail, ...]) -> Value:
    """``off``, or what the devices get; the names of the units differ between machine models."""
    iommu = facts.host.iommu
    if isinstance(iommu.units, Unreadable):
        return iommu.units
    if not iommu.units:
        return "off"
    domain = iommu.default_domain
    return domain if isinstance(domain, Unreadable) else MODE_OF_DOMAIN.get(str(domain), "on")


def _acs(facts: Facts, rails: tuple[Rail, ...]) -> Value:
    """At how many bridges above each rail's NIC, and above each GPU, ACS sends requests up."""
    if isinstance(facts.pci, Unreadable):
        return facts.pci
    ends = {rail.nic: rail.device.slot for rail in rails if rail.device and rail.device.slot}
    ends |= {name: slot for slot, name in gpu_names(facts).items()}
    return together({name: _acs_above(facts.pci, slot) for name, slot in ends.items()})


def _acs_above(tree: PciTree, slot: str) -> Value:
    redirecting, bridges = 0, topology.path_up(tree, slot)[1:]
    for bridge in bridges:
        settings = bridge.settings
        acs = settings.acs if isinstance(settings, PciSettings) else settings
        if isinstance(acs, Unreadable):
            return Unreadable(unreadable=f"{bridge.slot}: {acs.unreadable}")
        redirecting += acs is not None and acs.redirects
    if not bridges:
        return None
    return f"redirect on at {redirecting} bridges" if redirecting else "redirect off"


def _of_nics(get: Callable[[PciSettings], str]) -> Reader:
    """Reads a PCI setting of the NICs of rails."""

    def of_nic(facts: Facts, rail: Rail) -> Value:
        slot = rail.device.slot if rail.device else None
        if isinstance(facts.pci, Unreadable) or slot is None:
            return facts.pci if isinstance(facts.pci, Unreadable) else None
        nic = facts.pci.function(slot)
        settings = None if nic is None else nic.settings
        if isinstance(settings, Unreadable):
            return settings
        if nic is None or settings is None:
            return None
        # The bits of a virtual function are reserved (PCI Express base specification, 9.3.5).
        is_virtual = settings.port_type == "endpoint" and nic.link is None
        return None if is_virtual else get(settings)

    return lambda facts, rails: together({rail.nic: of_nic(facts, rail) for rail in rails})


def _traffic_class(_facts: Facts, rails: tuple[Rail, ...]) -> Value:
    """The override of the ports of rails, where the driver has one."""

    def of_rail(rail: Rail) -> Value:
        port = rail.device.port(rail.port) if rail.device else None
        value = port.traffic_class if port else None
        return value if value is None or isinstance(value, Unreadable) else str(value)

    return together({rail.nic: of_rail(rail) for rail in rails})


def _of_gpus(get: Callable[[Gpu], object]) -> Reader:
    """Reads a setting of all GPUs that NVML lists."""

    def of_gpu(gpu: Gpu) -> Value:
        value = get(gpu)
        return value if value is None or isinstance(value, Unreadable) else str(value)

    def read(facts: Facts, _rails: tuple[Rail, ...]) -> Value:
        if facts.nvml is None or isinstance(facts.nvml, Unreadable):
            return facts.nvml
        return together({name: of_gpu(gpu) for name, gpu in gpus(facts).items()})

    return read


def _of_health(get: Callable[[GpuHealth], object]) -> Reader:
    """Reads a setting that is told with the health of a GPU."""
    return _of_gpus(
        lambda gpu: get(gpu.health) if isinstance(gpu.health, GpuHealth) else gpu.health
    )


def _ecc_mode(health: GpuHealth) -> Value:
    return (
        health.ecc if health.ecc is None or isinstance(health.ecc, Unreadable) else health.ecc.mode
    )


def _power_limit(health: GpuHealth) -> Value:
    limit_w = health.power.limit_w
    # Drivers give some in parts of a watt.
    return f"{limit_w:.0f} W" if isinstance(limit_w, int | float) else limit_w


def _confidential_computing(facts: Facts, _rails: tuple[Rail, ...]) -> Value:
    nvml = facts.nvml
    return nvml if nvml is None or isinstance(nvml, Unreadable) else nvml.confidential_computing


# Name in the case → how to read it.
SUBJECTS: Mapping[str, Reader] = {
    "os": lambda facts, _: facts.host.os,
    "kernel": lambda facts, _: facts.host.kernel,
    "command-line": _command_line,
    "nvidia-driver": _nvidia_version,
    "nvidia-module": _nvidia_module,
    "ofed": lambda facts, _: facts.rdma_stack.ofed,
    "rdma-core": lambda facts, _: facts.rdma_stack.rdma_core,
    "iommu": _iommu,
    "acs": _acs,
    "read-request": _of_nics(lambda one: f"{one.max_read_request_bytes} bytes"),
    "payload": _of_nics(lambda one: f"{one.max_payload_bytes} bytes"),
    "relaxed-ordering": _of_nics(lambda one: "enabled" if one.relaxed_ordering else "disabled"),
    "traffic-class": _traffic_class,
    "mig": _of_gpus(lambda gpu: gpu.mig),
    "compute-mode": _of_gpus(lambda gpu: gpu.compute_mode),
    "ecc": _of_health(_ecc_mode),
    "persistence": _of_health(lambda health: health.persistence),
    "power-limit": _of_health(_power_limit),
    "confidential-computing": _confidential_computing,
}
