"""Which device of OLD is which of NEW, and what that makes of the names of cases. Pure.

A device is known by its PCI slot: names are given in the order in which drivers find devices, and
that changes with a kernel, a driver or one card that is gone. mlx5_0 of OLD may be mlx5_2 of NEW.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gdrcheck.results.compare_model import Device
from gdrcheck.results.data import Data, NodeData

# Name of a device: its slot, None when nobody told.
Slots = Mapping[str, str | None]
_BETWEEN_PLACES = re.compile(r"( -> |, )")


@dataclass(frozen=True, slots=True)
class Renames:
    """For each node whose devices changed, what each of its devices of OLD is called in NEW; None
    for one that is gone. Devices that are not named are called what they were.
    """

    nodes: Mapping[str, Mapping[str, str | None]]
    devices: tuple[Device, ...] = field(default=())

    def place(self, text: str) -> str | None:
        """``node1/gpu0/mlx5_0`` as NEW calls it; None when a device of it is gone."""
        node, slash, rest = text.partition("/")
        names = self.nodes.get(node)
        if not slash or names is None:
            return text
        parts = [names.get(part, part) for part in rest.split("/")]
        told = [part for part in parts if part is not None]
        return "/".join((node, *told)) if len(told) == len(parts) else None

    def case(self, id_: str) -> str | None:
        """The name of a case of OLD as NEW calls it; None when a device of it is gone."""
        if not self.nodes:
            return id_
        check, bracket, rest = id_.partition("[")
        if not bracket or not rest.endswith("]"):
            return id_
        parts = [self.place(part) for part in _BETWEEN_PLACES.split(rest.removesuffix("]"))]
        told = [part for part in parts if part is not None]
        return f"{check}[{''.join(told)}]" if len(told) == len(parts) else None

    def finding(self, text: str) -> str:
        """``CODE at PLACE (with PEER)`` of OLD in the words of NEW."""
        code, at, where = text.partition(" at ")
        place, peer, rest = where.partition(" (with ")
        return f"{code}{at}{self.place(place)}{peer}{rest}"


def renames(old: Data, new: Data) -> Renames:
    """The devices that the nodes of both runs call otherwise, or no longer have."""
    later = {node.name: node for node in new.nodes}
    nodes: dict[str, dict[str, str | None]] = {}
    devices: list[Device] = []
    for node in old.nodes:
        if node.name not in later:
            continue
        for before, after in zip(_tables(old, node), _tables(new, later[node.name]), strict=True):
            for name, now in _matched(before, after):
                if now != name:
                    nodes.setdefault(node.name, {})[name] = now
                    device = Device(node=node.name, old=name, new=now, slot=before[name])
                    devices.append(device)
    return Renames(nodes, tuple(devices))


def _tables(data: Data, node: NodeData) -> tuple[Slots, Slots]:
    """The GPUs and the NICs of a node; those of its rails count, the picture has the others."""
    gpus: dict[str, str | None] = {}
    nics: dict[str, str | None] = {}
    for part in data.topologies[node.topology].parts:
        if part.name and part.kind in ("gpu", "nic"):
            (gpus if part.kind == "gpu" else nics)[part.name] = part.slot
    for rail in node.rails:
        nics[rail.nic] = rail.nic_slot
        if rail.gpu is not None:
            gpus[rail.gpu] = rail.gpu_slot
    return gpus, nics


def _matched(before: Slots, after: Slots) -> Iterator[tuple[str, str | None]]:
    """Each device of ``before`` with its name in ``after``."""
    if not after:
        # The node told nothing of them: its cases say so under the names that they had.
        return
    slots_before, slots_after = _alone(before), _alone(after)
    for name, slot in before.items():
        if slot is not None and slot in slots_after and slot in slots_before:
            yield name, slots_after[slot]
        elif name not in after or after[name] in slots_before:
            yield name, None
        else:
            # Not told by a slot, or the buses were numbered anew.
            yield name, name


def _alone(table: Slots) -> dict[str, str]:
    """The devices by slot, without those that share one: a slot says nothing of them."""
    counts = Counter(table.values())
    return {slot: name for name, slot in table.items() if slot is not None and counts[slot] == 1}
