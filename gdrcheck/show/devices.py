"""RDMA devices and GPUs in lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address

from gdrcheck.facts import (
    Facts,
    GidEntry,
    Gpu,
    Neighbour,
    Netdev,
    Nvml,
    PciFunction,
    Port,
    RdmaDevice,
    Unreadable,
    VerbsDevice,
)
from gdrcheck.natural import natural
from gdrcheck.show import gpu_health, pci
from gdrcheck.show.words import UNKNOWN, Gaps, size, wrapped


def rdma(facts: Facts, gaps: Gaps) -> list[str]:
    """Each device, below it its ports, below these their GIDs."""
    if isinstance(facts.rdma_devices, Unreadable):
        return [f"  {gaps.text(facts.rdma_devices, 'list of RDMA devices')}"]
    ordered = sorted(facts.rdma_devices, key=lambda one: natural(one.name))
    lines = [
        line for device in ordered for line in _device(device, _function(facts, device.slot), gaps)
    ]
    return lines or ["  none"]


def _function(facts: Facts, slot: str | None) -> PciFunction | None:
    if slot is None or isinstance(facts.pci, Unreadable):
        return None
    return facts.pci.function(slot)


def _device(device: RdmaDevice, function: PciFunction | None, gaps: Gaps) -> Iterator[str]:
    parts = [
        device.name,
        "software" if device.software else f"driver {gaps.text(device.driver, 'NIC driver')}",
        f"slot {device.slot}" if device.slot else "no PCI function",
    ]
    for what, value in (("firmware", device.firmware), ("board", device.board)):
        if value is not None:
            parts.append(f"{what} {gaps.text(value, what)}")
    parts.append(gaps.text(device.uverbs, "uverbs device"))
    yield from wrapped(", ".join(parts))
    yield from pci.settings(function, gaps)
    for netdev in device.netdevs:
        up = gaps.text(netdev.up, "state of netdevs", lambda yes: "up" if yes else "down")
        mtu = gaps.text(netdev.mtu_bytes, "MTU of netdevs")
        subnets = gaps.text(netdev.subnets, "subnets of netdevs", ", ".join) or "no IPv4 subnet"
        yield f"    netdev {netdev.name}: {up}, MTU {mtu}, {subnets}"
        yield from _neighbour(netdev, gaps)
    yield from _opened(device.verbs, gaps)
    for port in device.ports:
        yield from _port(port, device.verbs, gaps)


def _neighbour(netdev: Netdev, gaps: Gaps) -> list[str]:
    if netdev.neighbour is None:
        return []
    text = gaps.text(netdev.neighbour, "neighbours of netdevs", Neighbour.text)
    return wrapped(f"cable to {text}", "      ")


def _opened(verbs: VerbsDevice | Unreadable, gaps: Gaps) -> Iterator[str]:
    if isinstance(verbs, Unreadable):
        gaps.note(verbs, "what libibverbs opens")
    elif verbs.error is not None:
        number = "" if verbs.error_number is None else f" (errno {verbs.error_number})"
        yield f"    does not open: {verbs.error}{number}"


def _port(port: Port, verbs: VerbsDevice | Unreadable, gaps: Gaps) -> Iterator[str]:
    lanes, speed = gaps.text(port.lanes, "lanes"), gaps.text(port.speed, "port speed")
    parts = [
        gaps.text(port.state, "port state"),
        gaps.text(port.physical_state, "physical port state"),
        f"{gaps.text(port.rate_gbps, 'port rate', lambda gbps: f'{gbps:g}')} Gb/s "
        f"({lanes}X {speed})",
        gaps.text(port.link_layer, "link layer"),
        *_mtu(port.number, verbs),
        *([] if port.link_layer == "ethernet" else _infiniband(port, gaps)),
    ]
    if port.traffic_class is not None:
        parts.append(f"traffic class {gaps.text(port.traffic_class, 'traffic class')}")
    yield from wrapped(f"port {port.number}: {', '.join(parts)}", "    ")
    yield from _counters(port, gaps)
    if isinstance(port.gids, Unreadable):
        gaps.note(port.gids, "GIDs")
        return
    if not port.gids:
        yield "      no GID"
    for gid in port.gids:
        yield f"      GID {gid.index}: {_address(gid)} {gid.type or UNKNOWN} {gid.netdev}".rstrip()


def _counters(port: Port, gaps: Gaps) -> list[str]:
    """The counters that are not zero, since the driver was loaded."""
    for name, why in port.unreadable_counters.items():
        gaps.note(Unreadable(unreadable=why), f"counter {name}")
    if isinstance(port.counters, Unreadable):
        gaps.note(port.counters, "counters")
        return []
    counted = [f"{name} {value}" for name, value in sorted(port.counters.items()) if value]
    if not counted:
        counted = [f"all {len(port.counters)} are zero" if port.counters else "none"]
    return wrapped(f"counters: {', '.join(counted)}", "      ")


def _address(entry: GidEntry) -> str:
    """The GID as the kernel writes it, and the IPv4 address that it stands for."""
    try:
        mapped = IPv6Address(entry.gid).ipv4_mapped
    except ValueError:
        mapped = None
    return entry.gid if mapped is None else f"{entry.gid} ({mapped})"


def _infiniband(port: Port, gaps: Gaps) -> list[str]:
    return [
        f"LID {gaps.text(port.lid, 'LID')}",
        f"SM LID {gaps.text(port.sm_lid, 'SM LID')}",
        f"pkeys {gaps.text(port.pkeys, 'pkeys', _hexes)}",
    ]


def _mtu(number: int, verbs: VerbsDevice | Unreadable) -> list[str]:
    ports = () if isinstance(verbs, Unreadable) else verbs.ports
    return [
        f"MTU {one.active_mtu_bytes} of {one.max_mtu_bytes}"
        for one in ports
        if one.number == number
    ]


def _hexes(values: Sequence[int]) -> str:
    return " ".join(f"{value:#06x}" for value in values) or "none"


def gpus(facts: Facts, gaps: Gaps) -> list[str]:
    """Each GPU that PCI shows with what NVML says of it, then those that only NVML knows."""
    if isinstance(facts.nvml, Unreadable):
        gaps.note(facts.nvml, "what NVML says of GPUs")
    nvml = facts.nvml if isinstance(facts.nvml, Nvml) else None
    slots = [] if isinstance(facts.pci, Unreadable) else [one.slot for one in facts.pci.nvidia_gpus]
    lines: list[str] = []
    for number, slot in enumerate(slots):
        lines += _gpu(f"gpu{number}", slot, nvml, gaps, _function(facts, slot))
    for gpu in nvml.gpus if nvml else ():
        if gpu.slot not in slots:
            lines += _gpu("a GPU that PCI does not show", gpu.slot, nvml, gaps)
    lost = nvml.lost if nvml else {}
    lines += [f"  lost: {slot}: {why}" for slot, why in lost.items() if slot not in slots]
    if nvml and nvml.gpus:
        names = {slot: f"gpu{number}" for number, slot in enumerate(slots)}
        lines += gpu_health.machine(nvml, names, gaps)
    return lines or ["  none"]


def _gpu(
    name: str, slot: str, nvml: Nvml | None, gaps: Gaps, function: PciFunction | None = None
) -> Iterator[str]:
    answer = nvml.gpu(slot) if nvml else None
    said = ""
    if answer is not None:
        said = f": {_answer(answer, gaps)}"
    elif nvml is not None:
        said = f": NVML has no answer: {nvml.lost.get(slot, 'not listed')}"
    yield from wrapped(f"{name}, slot {slot}{said}")
    yield from pci.settings(function, gaps)
    if answer is not None:
        yield from gpu_health.health(answer.health, gaps)
        yield from _inside(answer, gaps)


def _answer(gpu: Gpu, gaps: Gaps) -> str:
    memory = gaps.text(gpu.memory_total_bytes, "GPU memory", size)
    bar1 = gaps.text(gpu.bar1_total_bytes, "BAR1 size", size)
    used = gaps.text(gpu.bar1_used_bytes, "BAR1 use", size)
    parts = [
        gaps.text(gpu.model, "GPU model"),
        gaps.text(gpu.uuid, "GPU UUID"),
        f"{memory} of memory",
        f"BAR1 {bar1}, {used} used",
        f"MIG {'not available' if gpu.mig is None else gaps.text(gpu.mig, 'MIG mode')}",
        f"compute mode {gaps.text(gpu.compute_mode, 'compute mode')}",
    ]
    if gpu.fabric_state is not None:
        parts.append(f"fabric {gaps.text(gpu.fabric_state, 'fabric state')}")
    return ", ".join(parts)


def _inside(gpu: Gpu, gaps: Gaps) -> Iterator[str]:
    if isinstance(gpu.mig_devices, Unreadable):
        gaps.note(gpu.mig_devices, "MIG devices")
    else:
        for device in gpu.mig_devices:
            yield f"    MIG device {gaps.text(device.name, 'MIG name')}, {device.uuid}"
    if isinstance(gpu.processes, Unreadable):
        gaps.note(gpu.processes, "GPU processes")
    else:
        for process in gpu.processes:
            used = "" if process.used_bytes is None else f", {size(process.used_bytes)} used"
            yield f"    process {process.pid}{used}"
