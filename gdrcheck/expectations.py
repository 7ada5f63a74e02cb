"""Values to expect of nodes like the one in the facts: ``expect`` of a first profile. Pure.

What differs within the node, could not be read, or cannot be written is left out, and said so.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Sequence
from typing import Any

from gdrcheck import topology
from gdrcheck.expect import LINK_SPEEDS_GTS
from gdrcheck.facts import (
    Ecc,
    Facts,
    Gpu,
    GpuHealth,
    Link,
    NvidiaDriver,
    Nvml,
    PciFunction,
    PciTree,
    Unreadable,
)
from gdrcheck.proposal import Left
from gdrcheck.rails import Rail

# What a profile can hold as a text, and no more: nothing that a terminal or YAML would obey.
PLAIN = re.compile(r"[ -~]+")
# Words of the kernel's command line that concern DMA. The others are this node's own: UUIDs, ...
DMA_WORD = re.compile(
    r"(iommu|iommu\.\w+|intel_iommu|amd_iommu|pci|pcie_aspm)=[\w,=:.-]{1,80}", re.ASCII
)
CUDA = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}")
MTUS = (256, 512, 1024, 2048, 4096)
WIDTHS = (1, 2, 4, 8, 16)
PAYLOADS_BYTES = (128, 256, 512, 1024, 2048, 4096)
# Those that somebody chose to load. Others follow from what is promised, or come on demand.
CHOSEN_MODULES = ("nvidia_peermem", "nv_peer_mem", "efa_nv_peermem", "gdrdrv")
FABRIC_MANAGER = "nvidia-fabricmanager.service"
FABRIC_MANAGER_STATES = {"active": "active", "not-found": "absent"}
IOMMU = {"identity": "passthrough", "DMA": "translated"}

MAX_TEXT = 200

Values = dict[str, object]


def read(facts: Facts, rails: Sequence[Rail], gpus: Sequence[Gpu]) -> tuple[Values, list[Left]]:
    """The values for ``Expect``, and what was left out of it, each with the reason.

    ``rails`` are those of the profile, ``gpus`` NVML's answers about the GPUs that it promises.
    """
    found = _Found()
    _system(facts, found)
    _nics(facts, rails, found)
    if gpus:
        _nvidia(facts, found)
        _gpus(facts, gpus, rails, found)
        _health(facts, gpus, found)
    return found.values, found.left_out


class _Found:
    """The values that were taken, and why others were not."""

    def __init__(self) -> None:
        self.values: Values = {}
        self.left_out: list[Left] = []

    def leave(self, key: str, why: str) -> None:
        self.left_out.append((f"expect.{key}", why))

    def readable(self, key: str, values: Iterable[Any]) -> list[Any]:
        """``values``, or none with a note when one of them was not read. None is no value."""
        found = list(values)
        for value in found:
            if isinstance(value, Unreadable):
                self.leave(key, value.unreadable)
                return []
        return [] if None in found else found

    def same(self, key: str, values: Iterable[Any]) -> None:
        """Expects the value that all ``values`` have."""
        found = self.readable(key, values)
        if len(set(found)) > 1:
            self.leave(key, f"differs: {', '.join(sorted(map(str, set(found))))}")
        elif found:
            self.values[key] = found[0]

    def text(self, key: str, values: Iterable[Any], form: re.Pattern[str] = PLAIN) -> None:
        """Expects the text that all ``values`` have, if the profile can hold it."""
        self.same(key, values)
        value = self.values.pop(key, None)
        text = glob.escape(value) if isinstance(value, str) and form.fullmatch(value) else ""
        if 0 < len(text) <= MAX_TEXT:
            self.values[key] = text
        elif value is not None:
            self.leave(key, "is no text that a profile can hold")

    def least(self, key: str, values: Iterable[Any], known: Sequence[float]) -> None:
        """Expects the smallest of ``values``, if it is one of those that there are."""
        found = self.readable(key, values)
        if found and min(found) in known:
            self.values[key] = min(found)
        elif found:
            self.leave(key, f"{min(found)} is no value that a profile can hold")


def _system(facts: Facts, found: _Found) -> None:
    host = facts.host
    found.text("os", [host.os])
    found.text("kernel", [host.kernel])
    words = found.readable("command_line", [host.command_line])
    dma = [word for line in words for word in line.split() if DMA_WORD.fullmatch(word)]
    if dma:
        found.values["command_line"] = [glob.escape(word) for word in dma]
    if isinstance(host.modules, Unreadable):
        found.leave("modules", host.modules.unreadable)
    else:
        names = [one.name for one in host.modules if one.loaded is True]
        found.values["modules"] = [name for name in names if name in CHOSEN_MODULES]
    if host.iommu.units == ():
        found.values["iommu"] = "off"
    elif found.readable("iommu", [host.iommu.units, host.iommu.default_domain]):
        domain = str(host.iommu.default_domain)
        found.same("iommu", [IOMMU.get(domain, Unreadable(unreadable=f"domain {domain}"))])
    found.text("ofed", [facts.rdma_stack.ofed])


def _nics(facts: Facts, rails: Sequence[Rail], found: _Found) -> None:
    devices = [rail.device for rail in rails if rail.device is not None]
    found.text("firmware", [device.firmware for device in devices])
    found.least("mtu_bytes", [_mtu(rail) for rail in rails], MTUS)
    if isinstance(facts.pci, Unreadable):
        found.leave("nic_link", facts.pci.unreadable)
        return
    nics = [facts.pci.function(device.slot) for device in devices if device.slot is not None]
    linked = [nic for nic in nics if nic is not None and _has_link(nic, facts.pci)]
    if len(linked) < len(devices):
        found.leave("nic_link", "not every NIC has a PCIe link of its own")
        return
    links = [nic.link for nic in linked if nic.link is not None]
    _link(found, "nic_link", [link.current_gts for link in links], links)
    _settings(linked, found)
    _acs(facts.pci, rails, found)


def _mtu(rail: Rail) -> int | Unreadable | None:
    verbs = rail.device.verbs if rail.device else None
    if verbs is None or isinstance(verbs, Unreadable):
        return verbs
    mtus = (port.active_mtu_bytes for port in verbs.ports if port.number == rail.port)
    return next(mtus, Unreadable(unreadable=f"libibverbs does not tell it of {rail.nic}"))


def _has_link(function: PciFunction, tree: PciTree) -> bool:
    above = tree.function(function.parent) if function.parent else None
    return function.link is not None and above is not None and above.link is not None


def _link(
    found: _Found, key: str, speeds_gts: Iterable[float | Unreadable], links: Sequence[Link]
) -> None:
    """Expects the slowest of ``speeds_gts`` and the narrowest of ``links`` of their kind."""
    least = _Found()
    least.least("speed_gts", speeds_gts, LINK_SPEEDS_GTS)
    least.least("width", [link.current_width for link in links], WIDTHS)
    for what, why in least.left_out:
        found.leave(f"{key}.{what.removeprefix('expect.')}", why)
    if least.values:
        found.values[key] = least.values


def _settings(nics: Sequence[PciFunction], found: _Found) -> None:
    for key, least in (
        ("relaxed_ordering", False),
        ("max_payload_bytes", True),
        ("max_read_request_bytes", True),
    ):
        values = [
            nic.settings
            if isinstance(nic.settings, Unreadable)
            else getattr(nic.settings, key, None)
            for nic in nics
        ]
        if least:
            found.least(key, values, PAYLOADS_BYTES)
        else:
            found.same(key, values)


def _acs(tree: PciTree, rails: Sequence[Rail], found: _Found) -> None:
    """Expects ACS redirection off, or on, if that is so at every bridge between GPU and NIC."""
    slots = {
        bridge.slot: bridge
        for rail in rails
        if rail.device is not None and rail.device.slot is not None
        for bridge in _bridges(tree, rail.device.slot, rail.gpu_slot)
    }
    settings = found.readable("acs_redirect", [one.settings for one in slots.values()])
    controls = found.readable("acs_redirect", [one.acs for one in settings if one.acs is not None])
    found.same("acs_redirect", ["on" if acs.redirects else "off" for acs in controls])


def _bridges(tree: PciTree, nic: str, gpu: str | None) -> tuple[PciFunction, ...]:
    if gpu is None:
        return topology.path_up(tree, nic)[1:]
    return topology.bridges_between(tree, nic, gpu)


def _nvidia(facts: Facts, found: _Found) -> None:
    if not isinstance(facts.nvidia, NvidiaDriver):
        found.leave("driver", facts.nvidia.unreadable if facts.nvidia else "is not loaded")
        return
    found.text("driver", [facts.nvidia.version])
    found.text("cuda", [facts.nvidia.cuda], CUDA)
    found.same("open_module", [facts.nvidia.open_module])
    units = facts.host.units
    if isinstance(units, Unreadable):
        found.leave("fabric_manager", units.unreadable)
    else:
        state = units.get(FABRIC_MANAGER, "not listed")
        unclear = Unreadable(unreadable=f"its unit is {state}")
        found.same("fabric_manager", [FABRIC_MANAGER_STATES.get(state, unclear)])


def _gpus(facts: Facts, gpus: Sequence[Gpu], rails: Sequence[Rail], found: _Found) -> None:
    found.same("mig", ["disabled" if gpu.mig is None else gpu.mig for gpu in gpus])
    sizes = found.readable("bar1_bytes", [gpu.bar1_total_bytes for gpu in gpus])
    if sizes and min(sizes) > 0:
        found.values["bar1_bytes"] = min(sizes)
    distances = [rail.distance for rail in rails if rail.gpu is not None]
    if distances and None not in distances:
        found.values["rail_distance"] = max(distances, key=topology.rank)
    else:
        found.leave("rail_distance", "the topology does not tell it of every rail")
    if isinstance(facts.pci, Unreadable):
        return
    functions = [facts.pci.function(gpu.slot) for gpu in gpus]
    linked = [one for one in functions if one is not None and _has_link(one, facts.pci)]
    if len(linked) < len(gpus):
        found.leave("gpu_link", "not every GPU has a PCIe link of its own")
        return
    links = [one.link for one in linked if one.link is not None]
    _link(found, "gpu_link", [_able_gts(one, facts.pci) for one in linked], links)


def _health(facts: Facts, gpus: Sequence[Gpu], found: _Found) -> None:
    found.same("compute_mode", [gpu.compute_mode for gpu in gpus])
    if isinstance(facts.nvml, Nvml):
        found.same("confidential_computing", [facts.nvml.confidential_computing])
        _peer_access(facts.nvml, gpus, found)
    answers = found.readable("vbios, ecc, persistence, power_limit_w, nvlinks", _healths(gpus))
    healths = [one for one in answers if isinstance(one, GpuHealth)]
    found.text("vbios", [one.vbios for one in healths])
    found.same("ecc", [one.ecc.mode if isinstance(one.ecc, Ecc) else one.ecc for one in healths])
    found.same("persistence", [one.persistence for one in healths])
    limits_w = found.readable("power_limit_w", [one.power.limit_w for one in healths])
    if limits_w and min(limits_w) > 0:
        found.values["power_limit_w"] = min(limits_w)
    links = found.readable("nvlinks", [one.nvlinks for one in healths])
    found.same("nvlinks", [sum(link.active is True for link in of_gpu) for of_gpu in links])
    if not found.values.get("nvlinks"):
        found.values.pop("nvlinks", None)


def _healths(gpus: Sequence[Gpu]) -> list[GpuHealth | Unreadable]:
    return [gpu.health for gpu in gpus]


def _peer_access(nvml: Nvml, gpus: Sequence[Gpu], found: _Found) -> None:
    """Expects that each GPU reaches each other one, if the driver says so of all of them."""
    slots = {gpu.slot for gpu in gpus}
    ways = [
        (peer.read, peer.write)
        for peers in found.readable("peer_access", [nvml.peers])
        for peer in peers
        if {peer.slot, peer.peer} <= slots
    ]
    if len(ways) == len(slots) * (len(slots) - 1) > 0 and set(ways) == {("ok", "ok")}:
        found.values["peer_access"] = "all"


def _able_gts(function: PciFunction, tree: PciTree) -> float | Unreadable:
    """The speed that both ends can do: a GPU lowers the current one while it is idle."""
    above = tree.function(function.parent) if function.parent else None
    ends = [one.link.max_gts for one in (function, above) if one is not None and one.link]
    readable = [gts for gts in ends if not isinstance(gts, Unreadable)]
    return min(readable) if len(readable) == len(ends) else ends[0]
