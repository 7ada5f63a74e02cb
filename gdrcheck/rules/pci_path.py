"""The ways over PCI that are judged: above the NIC of each rail, and above each GPU.

Ways share ports. What is wrong at a shared one is found once: at the first NIC, in the order of
rails, else at the first GPU. Elsewhere it blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gdrcheck import gates, rails, topology
from gdrcheck.facts import Facts, PciFunction, Unreadable
from gdrcheck.findings.model import Where
from gdrcheck.outcome import Blocked, NotJudged, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail
from gdrcheck.rules import absence


@dataclass(frozen=True, slots=True)
class Way:
    """The function that is judged, and every bridge above it up to the root port.

    ``found_at`` says for the slot of each function that an earlier way holds too, whose that is.
    """

    where: Where
    functions: tuple[PciFunction, ...]
    found_at: dict[str, Where]

    @property
    def end(self) -> PciFunction:
        """The NIC or GPU."""
        return self.functions[0]


def of_nic(rail: Rail, profile: Profile, facts: Facts, promised: str | None = None) -> Way:
    """The way above the rail's NIC. ``promised``: what the profile promises of it, in words.

    Blocked without its device, or when the tree is unreadable; NotJudged when the device has no PCI
    function, but ProbeError when something of it is promised, or the tree does not hold all of it.
    """
    device = absence.device_of(rail, profile, facts)
    if device.slot is None:
        text = f"no PCI function lies below {rail.nic}"
        if promised is None:
            raise NotJudged(text)
        raise ProbeError(
            f"{rail.where.text()}: {text}, and the profile promises {promised}",
            step="find the PCI function",
        )
    return _way(rail.where, device.slot, profile, facts)


def of_gpu(where: Where, slot: str | None, profile: Profile, facts: Facts) -> Way:
    """The way above a promised GPU; ``slot`` None: it is not there. Raises as ``of_nic``."""
    gates.pci_tree(facts)
    if slot is None:
        raise Blocked(f"GPU-MISSING at {where.text()}")
    return _way(where, slot, profile, facts)


def _way(where: Where, slot: str, profile: Profile, facts: Facts) -> Way:
    tree = gates.pci_tree(facts)
    functions = topology.path_up(tree, slot)
    if not functions:
        reasons = "; ".join(f"{one}: {why}" for one, why in tree.misplaced.items())
        raise ProbeError(
            f"{where.text()}: the PCI tree does not hold {slot} and all bridges above it"
            + (f" ({reasons})" if reasons else ""),
            step="read the PCI tree",
        )
    found_at: dict[str, Where] = {}
    for earlier, functions_of_earlier in _ways(profile, facts):
        if earlier == where:
            break
        for function in functions_of_earlier:
            found_at.setdefault(function.slot, earlier)
    return Way(where, functions, found_at)


def _ways(profile: Profile, facts: Facts) -> Iterator[tuple[Where, tuple[PciFunction, ...]]]:
    """All ways in the order in which a shared port belongs to them."""
    if isinstance(facts.pci, Unreadable):
        return
    for rail in rails.with_nics(profile, facts):
        if rail.device is not None and rail.device.slot is not None:
            yield rail.where, topology.path_up(facts.pci, rail.device.slot)
    promised = profile.gpus.count if profile.gpus else 0
    for number, gpu in enumerate(facts.pci.nvidia_gpus[:promised]):
        where = Where(node=facts.node, gpu=f"gpu{number}")
        yield where, topology.path_up(facts.pci, gpu.slot)
