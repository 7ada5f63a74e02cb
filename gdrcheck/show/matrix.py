"""The topology of a node as data: GPUs, NICs, how far each is from the others, and the rails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Literal

from pydantic import BaseModel, ConfigDict

from gdrcheck import topology
from gdrcheck.expect import Distance
from gdrcheck.facts import Facts, Link, Unreadable
from gdrcheck.natural import by_slot
from gdrcheck.rails import Rail

SELF: Literal["X"] = "X"
Word = Literal["X"] | Distance


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class End(_Model):
    """One row of the matrix: a GPU, a NIC, or another function that was asked for.

    ``name`` is unique: ``gpuN``, the RDMA device's name, or the slot, with a ``'`` if it is taken.
    ``slot`` None: an RDMA device without a PCI function. ``link`` None: no PCIe link.
    """

    name: str
    kind: Literal["gpu", "nic", "other"]
    slot: str | None
    numa_node: int | Unreadable | None
    link: Link | None


class PeerAccess(_Model):
    """What NVML says of one GPU that reaches for the memory of another: ``ok``, or why not."""

    gpu: str
    peer: str
    read: str | Unreadable
    write: str | Unreadable


class RailEnds(_Model):
    """One rail. ``nic`` None: no device serves it, as ``missing`` says. ``gpu`` None: has none."""

    id: int
    gpu: str | None
    nic: str | None
    port: int
    distance: Distance | None
    missing: str | None


class Topology(_Model):
    """What ``gdrcheck topo --json`` prints.

    ``distances`` holds, for each function, the distance to each NIC; None when it is unknown.
    ``gpu_links`` holds, for each GPU, what leads to each GPU: ``NV18`` for that many NVLinks, else
    the distance. ``peer_access`` is what NVML says of two GPUs, for each two and way.
    ``rails_from``: whether a profile promises the rails, or the topology only suggests them.
    ``not_rails``: NICs that the suggestion leaves out and GPUs without one, and why.
    ``undecided``: why no rail is shown although the profile promises some, else None.
    """

    schema_version: Literal[2] = 2
    node: str
    emulated: bool
    functions: tuple[End, ...]
    distances: dict[str, dict[str, Word | None]]
    gpu_links: dict[str, dict[str, str | None]]
    peer_access: tuple[PeerAccess, ...]
    rails: tuple[RailEnds, ...]
    rails_from: Literal["profile", "topology"]
    not_rails: tuple[str, ...]
    undecided: str | None

    @property
    def gpus(self) -> tuple[End, ...]:
        """The GPUs, in the order of the matrix."""
        return tuple(end for end in self.functions if end.kind == "gpu")

    @property
    def nics(self) -> tuple[End, ...]:
        """The NICs, in the order of the matrix."""
        return tuple(end for end in self.functions if end.kind == "nic")


def topology_of(
    facts: Facts,
    rails: Sequence[Rail],
    rails_from: Literal["profile", "topology"],
    not_rails: Sequence[str] = (),
    undecided: str | None = None,
) -> Topology:
    """The matrix of the node in ``facts``, with ``rails`` marked."""
    ends = _ends(facts)
    nics = [end for end in ends if end.kind == "nic"]
    gpus = [end for end in ends if end.kind == "gpu"]
    return Topology(
        node=facts.node,
        emulated=facts.emulated,
        functions=ends,
        distances={
            end.name: {nic.name: _distance(facts, end, nic) for nic in nics} for end in ends
        },
        gpu_links={end.name: {gpu.name: _link(facts, end, gpu) for gpu in gpus} for end in gpus},
        peer_access=tuple(_peer_access(facts, gpus)),
        rails=tuple(_rail(rail) for rail in rails),
        rails_from=rails_from,
        not_rails=tuple(not_rails),
        undecided=undecided,
    )


def _ends(facts: Facts) -> tuple[End, ...]:
    tree = facts.pci
    devices = () if isinstance(facts.rdma_devices, Unreadable) else facts.rdma_devices
    gpus = () if isinstance(tree, Unreadable) else tree.nvidia_gpus
    ends = [_end(facts, f"gpu{number}", "gpu", gpu.slot) for number, gpu in enumerate(gpus)]
    ordered = sorted(devices, key=lambda one: by_slot(one.slot, one.name))
    ends += [_end(facts, device.name, "nic", device.slot) for device in ordered]
    known = {end.slot for end in ends}
    if not isinstance(tree, Unreadable):
        ends += [
            _end(facts, one.slot, "other", one.slot)
            for one in tree.functions
            if not one.is_bridge and one.slot not in known
        ]
    return tuple(_with_unique_names(ends))


def _with_unique_names(ends: Sequence[End]) -> Iterator[End]:
    taken: set[str] = set()
    for end in ends:
        name = end.name
        while name in taken:
            name += "'"
        taken.add(name)
        yield end.model_copy(update={"name": name})


def _end(facts: Facts, name: str, kind: Literal["gpu", "nic", "other"], slot: str | None) -> End:
    function = (
        None if slot is None or isinstance(facts.pci, Unreadable) else facts.pci.function(slot)
    )
    return End(
        name=name,
        kind=kind,
        slot=slot,
        numa_node=function.numa_node if function else None,
        link=function.link if function else None,
    )


def _distance(facts: Facts, end: End, nic: End) -> Word | None:
    if end == nic:
        return SELF
    if end.slot is None or nic.slot is None:
        return None
    return topology.distance(facts, end.slot, nic.slot)


def _link(facts: Facts, end: End, gpu: End) -> str | None:
    if end.slot is None or gpu.slot is None or end == gpu:
        return _distance(facts, end, gpu)
    links = topology.nvlinks_between(facts, end.slot, gpu.slot)
    return f"NV{links}" if links else _distance(facts, end, gpu)


def _peer_access(facts: Facts, gpus: Sequence[End]) -> Iterator[PeerAccess]:
    names = {gpu.slot: gpu.name for gpu in gpus}
    for one, other in combinations([gpu.slot for gpu in gpus if gpu.slot], 2):
        for said in topology.peers(facts, one, other):
            ends = names[said.slot], names[said.peer]
            yield PeerAccess(gpu=ends[0], peer=ends[1], read=said.read, write=said.write)


def _rail(rail: Rail) -> RailEnds:
    return RailEnds(
        id=rail.id,
        gpu=rail.gpu,
        nic=None if rail.device is None else rail.device.name,
        port=rail.port,
        distance=rail.distance,
        missing=rail.missing,
    )
