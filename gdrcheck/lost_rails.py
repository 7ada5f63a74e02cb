"""Rails that a first profile would leave out only because a fault keeps their NIC away. Pure.

To promise what is left would make the fault the standard: every later run would find it right.
"""

from __future__ import annotations

from collections.abc import Iterator

from gdrcheck import topology
from gdrcheck.facts import Facts, LinkLayer, RdmaDevice, Unreadable
from gdrcheck.proposal import Proposal
from gdrcheck.rails import Rail

FARTHER_THAN_ANY = len(topology.DISTANCES) + 1


def lost(facts: Facts, proposed: Proposal) -> Iterator[str]:
    """A sentence for each NIC that belongs to a GPU, and that a fault keeps from serving it.

    It belongs there when it is of the kind of the rails' NICs (board or driver, link layer),
    closer to that GPU than what serves it otherwise, and as close as other rails' NICs are to
    their GPUs. Nothing when no rail is proposed at all.
    """
    for name, why in proposed.unfit:
        device = facts.rdma_device(name)
        if device is None or not _alike(device, proposed):
            continue
        gpu = _gpu_that_misses(device, facts, proposed.rails)
        if gpu is not None:
            yield (
                f"{name}: {why}, and {gpu} would get {_instead(gpu, proposed.rails)} in its place; "
                f"repair it first, or say --without {name} if it serves no rail"
            )


def _alike(device: RdmaDevice, proposed: Proposal) -> bool:
    served = [rail.device for rail in proposed.rails if rail.device is not None]
    same_make = any(
        (device.board is not None and device.board == one.board) or device.driver == one.driver
        for one in served
    )
    layer = proposed.profile.rails.link_layer if proposed.profile.rails else None
    return same_make and any(_may_be(port.link_layer, layer) for port in device.ports)


def _may_be(found: LinkLayer | Unreadable, promised: LinkLayer | None) -> bool:
    return isinstance(found, Unreadable) or found == promised


def _gpu_that_misses(device: RdmaDevice, facts: Facts, rails: tuple[Rail, ...]) -> str | None:
    """The closest GPU of those that ``device`` belongs to; None when there is none."""
    if isinstance(facts.pci, Unreadable):
        return None
    served = {rail.gpu: topology.rank(rail.distance) for rail in rails if rail.gpu is not None}
    found: list[tuple[int, int]] = []
    for number, gpu in enumerate(facts.pci.nvidia_gpus):
        name = f"gpu{number}"
        near = topology.rank(
            topology.distance(facts, device.slot, gpu.slot) if device.slot is not None else None
        )
        usual = max((rank for other, rank in served.items() if other != name), default=near)
        if near < served.get(name, FARTHER_THAN_ANY) and near <= usual:
            found.append((near, number))
    return f"gpu{min(found)[1]}" if found else None


def _instead(gpu: str, rails: tuple[Rail, ...]) -> str:
    for rail in rails:
        if rail.gpu == gpu:
            return f"{rail.nic} ({rail.distance or 'distance unknown'})"
    return "no NIC"
