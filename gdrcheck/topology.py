"""Distances between PCI functions and NVLinks between GPUs, as ``nvidia-smi topo`` says. Pure.

PIX: through one switch at most. PXB: through several switches, not the host bridge. PHB: through
the host bridge. NODE: between host bridges of one NUMA node. SYS: between NUMA nodes.
Source: nvidia-smi's legend, and NVML's nvmlGpuTopologyLevel_t.
"""

from __future__ import annotations

from gdrcheck.expect import Distance
from gdrcheck.facts import (
    Facts,
    GpuHealth,
    GpuPeer,
    NvLink,
    Nvml,
    PciFunction,
    PciTree,
    Unreadable,
)

DISTANCES: tuple[Distance, ...] = ("PIX", "PXB", "PHB", "NODE", "SYS")
# Far more than any machine has on one way; facts that tell of more are wrong, or made up.
MAX_BRIDGES = 32


def rank(distance: Distance | None) -> int:
    """The order of distances, closest first; one that is unknown comes last."""
    return len(DISTANCES) if distance is None else DISTANCES.index(distance)


def path_up(tree: PciTree, slot: str) -> tuple[PciFunction, ...]:
    """The function at ``slot`` and every bridge above it, up to the root port.

    Empty when the tree does not hold all of them, when they are more than ``MAX_BRIDGES``, or when
    they go in a circle.
    """
    found: dict[str, PciFunction] = {}
    above: str | None = slot
    while above is not None:
        function = tree.function(above)
        if function is None or above in found or len(found) > MAX_BRIDGES:
            return ()
        found[above] = function
        above = function.parent
    return tuple(found.values())


def distance(facts: Facts, one: str, other: str) -> Distance | None:
    """How far the functions at two slots are apart; None when the facts do not tell.

    A function is PIX to itself, as two functions of one card are.
    """
    tree = facts.pci
    if isinstance(tree, Unreadable):
        return None
    return apart(facts, path_up(tree, one), path_up(tree, other))


def apart(
    facts: Facts, ours: tuple[PciFunction, ...], theirs: tuple[PciFunction, ...]
) -> Distance | None:
    """As ``distance``, of the ways of two functions up to their root ports (``path_up``)."""
    if not ours or not theirs:
        return None
    if meeting := _meeting(ours, theirs):
        # A switch is two bridges deep: its upstream port, and a port towards each function.
        return "PIX" if max(meeting) <= 2 else "PXB"
    if ours[-1].root_bus == theirs[-1].root_bus:
        return "PHB"
    return _between_host_bridges(facts, ours, theirs)


def bridges_between(tree: PciTree, one: str, other: str) -> tuple[PciFunction, ...]:
    """The bridges that a transfer passes from ``one`` to ``other``, in that order.

    Empty for two functions that are the same, and where the tree does not tell.
    """
    ours, theirs = path_up(tree, one), path_up(tree, other)
    if not ours or not theirs or one == other:
        return ()
    up, down = _meeting(ours, theirs) or (len(ours), len(theirs))
    way = (*ours[1 : up + 1], *reversed(theirs[1:down]))
    return tuple(function for function in way if function.slot not in (one, other))


def nvlinks_between(facts: Facts, one: str, other: str) -> int | None:
    """The NVLinks by which the GPUs at two slots reach each other; None when it is not known.

    Links that end at the other GPU, or else, where both have links to switches, as many as the one
    with fewer of them has up.
    """
    ours, theirs = _links(facts, one), _links(facts, other)
    if ours is None or theirs is None:
        return None
    if direct := sum(link.remote_slot == other for link in ours):
        return direct
    return min(sum(link.remote == "switch" for link in links) for links in (ours, theirs))


def _links(facts: Facts, slot: str) -> list[NvLink] | None:
    """The GPU's links that are up; None when that is not known of all of them."""
    gpu = facts.nvml.gpu(slot) if isinstance(facts.nvml, Nvml) else None
    if gpu is None or not isinstance(gpu.health, GpuHealth):
        return None
    links = gpu.health.nvlinks
    if isinstance(links, Unreadable) or any(not isinstance(one.active, bool) for one in links):
        return None
    up = [link for link in links if link.active is True]
    return None if any(isinstance(link.remote, Unreadable) for link in up) else up


def peers(facts: Facts, one: str, other: str) -> tuple[GpuPeer, ...]:
    """What NVML says of the GPUs at two slots, each way that it answered."""
    said = facts.nvml.peers if isinstance(facts.nvml, Nvml) else ()
    if isinstance(said, Unreadable):
        return ()
    return tuple(peer for peer in said if {peer.slot, peer.peer} == {one, other})


def _meeting(
    ours: tuple[PciFunction, ...], theirs: tuple[PciFunction, ...]
) -> tuple[int, int] | None:
    """How many steps up either path meets the other; None when they do not."""
    steps = {function.slot: down for down, function in enumerate(theirs)}
    for up, function in enumerate(ours):
        if function.slot in steps:
            return up, steps[function.slot]
    return None


def _between_host_bridges(
    facts: Facts, ours: tuple[PciFunction, ...], theirs: tuple[PciFunction, ...]
) -> Distance | None:
    nodes = facts.host.numa_nodes
    if isinstance(nodes, tuple) and len(nodes) == 1:
        return "NODE"
    one, other = _numa_node(ours), _numa_node(theirs)
    if one is None or other is None:
        return None
    return "NODE" if one == other else "SYS"


def _numa_node(path: tuple[PciFunction, ...]) -> int | None:
    """That of the root port, or of the next bridge below it for which the firmware names one."""
    nodes = (function.numa_node for function in reversed(path))
    return next((node for node in nodes if isinstance(node, int)), None)
