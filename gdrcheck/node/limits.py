"""What bounds the speed of a rail's end, and what can make its peer path slow, by the facts. Pure.

Rates are in Gb/s (bits). A link's is what its lanes carry after the encoding: 8b/10b up to 5 GT/s,
128b/130b up to 32 GT/s, flits at 64 GT/s. Source: PCI Express base specification, chapter 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gdrcheck import topology
from gdrcheck.facts import Acs, Facts, Link, Nvml, PciFunction, PciSettings, PciTree, Unreadable
from gdrcheck.rails import Rail
from gdrcheck.transfer import EndLimits

# A message with the rails of a node is limited in size.
MAX_CAUSES = 4
MAX_CAUSE_CHARS = 100
# Farther apart than the host bridge, how fast a GPU and a NIC are depends on the processors.
TOO_FAR = ("NODE", "SYS")


def limits_of(rail: Rail, facts: Facts, all_rails: Sequence[Rail] = ()) -> EndLimits:
    """The limits of this node's end of ``rail``; None stands for what the facts do not tell.

    ``all_rails`` are those of the node, which may share links with this one.
    """
    tree = None if isinstance(facts.pci, Unreadable) else facts.pci
    port = rail.device.port(rail.port) if rail.device else None
    rate = port.rate_gbps if port else None
    causes = list(_slow_causes(rail, facts, tree)) if tree is not None else []
    return EndLimits(
        nic_rate_gbps=rate if isinstance(rate, int | float) and rate > 0 else None,
        nic_link_gbps=_link_gbps(tree, rail.device.slot if rail.device else None),
        gpu_link_gbps=_link_gbps(tree, rail.gpu_slot, idles=True),
        distance=rail.distance,
        not_judged=_not_judged(rail, tree),
        gpu_not_judged=_gpu_not_judged(rail, facts, tree),
        slow_causes=tuple(cause[:MAX_CAUSE_CHARS] for cause in causes[:MAX_CAUSES]),
        shared=_shared(rail, all_rails, tree, _way_to_host)[:MAX_CAUSE_CHARS],
        gpu_shared=_shared(rail, all_rails, tree, _way_to_gpu)[:MAX_CAUSE_CHARS],
    )


Way = Callable[[PciTree, Rail], frozenset[str]]


def _shared(rail: Rail, all_rails: Sequence[Rail], tree: PciTree | None, way: Way) -> str:
    """What the way of ``rail`` has in common with another rail's; empty when it has nothing."""
    if tree is None:
        return ""
    own = way(tree, rail)
    for other in all_rails:
        if other.id != rail.id and (common := own & way(tree, other)):
            return f"shares the link of {min(common)} with {other.nic}"
    return ""


def _way_to_host(tree: PciTree, rail: Rail) -> frozenset[str]:
    """The bridges between the NIC and the memory of the host."""
    slot = rail.device.slot if rail.device else None
    return frozenset(one.slot for one in topology.path_up(tree, slot)[1:]) if slot else frozenset()


def _way_to_gpu(tree: PciTree, rail: Rail) -> frozenset[str]:
    """The bridges between NIC and GPU, without the switch's own in which both ways meet: what
    passes between two ports of a switch uses no link above it.
    """
    slot = rail.device.slot if rail.device else None
    if slot is None or rail.gpu_slot is None:
        return frozenset()
    above = {one.slot for one in topology.path_up(tree, rail.gpu_slot)}
    meeting = next((one for one in topology.path_up(tree, slot) if one.slot in above), None)
    way = {one.slot for one in topology.bridges_between(tree, slot, rail.gpu_slot)}
    return frozenset(way - ({meeting.slot} if meeting else set()))


def _not_judged(rail: Rail, tree: PciTree | None) -> str:
    """Why no speed of this NIC may be judged; empty when it may."""
    device = rail.device
    if device is None:
        return "the rail has no device"
    if device.software:
        return f"{device.name} is a software device"
    if tree is None or _ends(tree, device.slot) is None:
        return f"the PCIe link of {device.name} is not to be seen, as in a virtual machine"
    return ""


def _gpu_not_judged(rail: Rail, facts: Facts, tree: PciTree | None) -> str:
    """Why no speed of the rail's GPU may be judged; empty when it may, or when there is none."""
    if rail.gpu is None:
        return ""
    answer = facts.nvml.gpu(rail.gpu_slot or "") if isinstance(facts.nvml, Nvml) else None
    if facts.emulated:
        return f"{rail.gpu} is emulated"
    if answer is not None and answer.virtualization in ("passthrough", "vgpu"):
        return f"{rail.gpu} is in a virtual machine"
    if tree is None or _ends(tree, rail.gpu_slot) is None:
        return f"the PCIe link of {rail.gpu} is not to be seen, as in a virtual machine"
    if rail.distance is None:
        return f"it is unknown how far {rail.gpu} and {rail.nic} are apart"
    if rail.distance in TOO_FAR:
        return f"{rail.gpu} and {rail.nic} are {rail.distance} apart"
    return ""


def _ends(tree: PciTree | None, slot: str | None) -> tuple[Link, Link] | None:
    """Both ends of the link of the function at ``slot``, its own first; None if not to be seen."""
    function = tree.function(slot) if tree is not None and slot is not None else None
    if tree is None or function is None or function.link is None or function.parent is None:
        return None
    above = tree.function(function.parent)
    return None if above is None or above.link is None else (function.link, above.link)


def _link_gbps(tree: PciTree | None, slot: str | None, *, idles: bool = False) -> float | None:
    """The rate of the link of the function at ``slot``.

    ``idles``: the function lowers its link's speed while it is idle, so what both ends can do is
    taken, at the width that the link has.
    """
    ends = _ends(tree, slot)
    if ends is None:
        return None
    own, above = ends
    speeds = (own.max_gts, above.max_gts) if idles else (own.current_gts,)
    lanes = own.current_width
    known = [gts for gts in speeds if not isinstance(gts, Unreadable)]
    if len(known) < len(speeds) or isinstance(lanes, Unreadable) or min(known) <= 0 or lanes <= 0:
        return None
    return round(min(known) * lanes * _encoding(min(known)), 1)


def _encoding(gts: float) -> float:
    """The share of a lane's bits that is data."""
    if gts < 8:
        return 8 / 10
    return 128 / 130 if gts < 64 else 242 / 256


def _slow_causes(rail: Rail, facts: Facts, tree: PciTree) -> Iterator[str]:
    """What the facts know that can make the way between the rail's GPU and NIC slow."""
    slot = rail.device.slot if rail.device else None
    if slot is None or rail.gpu_slot is None:
        return
    redirecting = [
        bridge.slot
        for bridge in topology.bridges_between(tree, slot, rail.gpu_slot)
        if _redirects(bridge)
    ]
    if redirecting:
        yield f"ACS redirects peer-to-peer traffic at {', '.join(redirecting)}"
    if rail.distance == "SYS":
        yield "GPU and NIC are at different sockets (SYS)"
    elif rail.distance in ("NODE", "PHB"):
        yield f"traffic between GPU and NIC passes the host bridge ({rail.distance})"
    for name, place in ((rail.nic, slot), (str(rail.gpu), rail.gpu_slot)):
        yield from _narrow(name, _ends(tree, place))
    nic = tree.function(slot)
    settings = nic.settings if nic is not None else None
    if isinstance(settings, PciSettings) and not settings.relaxed_ordering:
        yield f"relaxed ordering is off at {rail.nic}"
    if facts.host.iommu.default_domain == "DMA":
        yield "the IOMMU translates addresses of devices"


def _redirects(bridge: PciFunction) -> bool:
    settings = bridge.settings
    acs = settings.acs if isinstance(settings, PciSettings) else None
    return isinstance(acs, Acs) and acs.redirects


def _narrow(name: str, ends: tuple[Link, Link] | None) -> Iterator[str]:
    if ends is None:
        return
    own, above = ends
    now, able = own.current_width, (own.max_width, above.max_width)
    known = [lanes for lanes in able if not isinstance(lanes, Unreadable)]
    if not isinstance(now, Unreadable) and known and now < min(known):
        yield f"the link of {name} is x{now} of x{min(known)}"
