"""What the picture of a node needs of its facts: PCI functions, links, names, versions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from gdrcheck.facts import (
    Facts,
    Gpu,
    GpuHealth,
    NvidiaDriver,
    PciFunction,
    PciTree,
    RdmaDevice,
    Unreadable,
)
from gdrcheck.rails import Rail
from gdrcheck.results.data import Part, Topology
from gdrcheck.results.plain import one_line
from gdrcheck.rules import subjects
from gdrcheck.rules.alike import together

Kind = Literal["root port", "switch", "gpu", "nic", "nvswitch", "other"]
Value = str | Unreadable | None
UNREADABLE = "unreadable"


def topology(facts: Facts | None) -> Topology:
    """The parts of a node, in slot order, or why nobody knows them."""
    if facts is None:
        return Topology(unknown="the node sent no facts")
    if isinstance(facts.pci, Unreadable):
        return Topology(unknown=one_line(facts.pci.unreadable))
    tree = facts.pci
    devices = facts.rdma_devices if isinstance(facts.rdma_devices, tuple) else ()
    gpus = subjects.gpu_names(facts)
    models = {gpus.get(gpu.slot, ""): gpu for gpu in subjects.gpus(facts).values()}
    nics = {device.slot: device for device in devices if device.slot is not None}
    parts = [
        _part(one, tree, gpus.get(one.slot), models.get(gpus.get(one.slot, "-")), nics)
        for one in tree.functions
    ]
    loose = [
        Part(slot="", kind="nic", name=one.name, note=_port(one))
        for one in devices
        if one.slot is None
    ]
    return Topology(parts=(*parts, *loose))


def versions(facts: Facts | None, rails: Iterable[Rail]) -> dict[str, str]:
    """What runs on a node, by name: the system's, the driver's, firmware, and the image's."""
    if facts is None:
        return {}
    gpus = subjects.gpus(facts)
    health = {name: gpu.health for name, gpu in gpus.items() if isinstance(gpu.health, GpuHealth)}
    nics = {rail.nic: rail.device for rail in rails if rail.device is not None}
    nvidia = facts.nvidia
    driver = (nvidia.version, nvidia.cuda) if isinstance(nvidia, NvidiaDriver) else (nvidia,) * 2
    told: dict[str, Value] = {
        "operating system": facts.host.os,
        "kernel": facts.host.kernel,
        "NVIDIA driver": driver[0],
        "CUDA of the driver": driver[1],
        "GPU": together({name: gpu.model for name, gpu in gpus.items()}),
        "VBIOS": together({name: one.vbios for name, one in health.items()}),
        "NIC firmware": together({name: nic.firmware for name, nic in nics.items()}),
        "NIC board": together({name: nic.board for name, nic in nics.items()}),
        **facts.versions,
    }
    return {one_line(name): _text(value) for name, value in told.items() if value is not None}


def _text(value: str | Unreadable) -> str:
    return UNREADABLE if isinstance(value, Unreadable) else one_line(value)


def _part(
    function: PciFunction,
    tree: PciTree,
    gpu: str | None,
    model: Gpu | None,
    nics: Mapping[str, RdmaDevice],
) -> Part:
    nic = nics.get(function.slot)
    note = ""
    if model is not None and isinstance(model.model, str):
        note = one_line(model.model)
    elif nic is not None:
        note = _port(nic)
    numa = function.numa_node
    return Part(
        slot=function.slot,
        kind=_kind(function, nic),
        name=gpu or (nic.name if nic else ""),
        above=function.parent if function.parent and tree.function(function.parent) else None,
        root_bus=one_line(function.root_bus),
        numa_node=numa if isinstance(numa, int) else None,
        link=_link(function, most=False),
        link_max=_link(function, most=True),
        note=note,
    )


def _kind(function: PciFunction, nic: RdmaDevice | None) -> Kind:
    if function.is_nvidia_gpu:
        return "gpu"
    if nic is not None or function.is_mellanox_nic:
        return "nic"
    if function.is_nvswitch:
        return "nvswitch"
    if function.is_bridge:
        return "root port" if function.parent is None else "switch"
    return "other"


def _link(function: PciFunction, *, most: bool) -> str:
    """``32 GT/s x16``; empty where there is no link, or nobody knows."""
    link = function.link
    if link is None:
        return ""
    speed, width = (
        (link.max_gts, link.max_width) if most else (link.current_gts, link.current_width)
    )
    if isinstance(speed, Unreadable) or isinstance(width, Unreadable):
        return ""
    return f"{speed:g} GT/s x{width}"


def _port(nic: RdmaDevice) -> str:
    """``400 Gb/s infiniband ACTIVE`` of the first port; what is unreadable is left out."""
    if not nic.ports:
        return ""
    port = nic.ports[0]
    rate = f"{port.rate_gbps:g} Gb/s" if isinstance(port.rate_gbps, float | int) else ""
    words = (rate, *(one for one in (port.link_layer, port.state) if isinstance(one, str)))
    return one_line(" ".join(filter(None, words)))
