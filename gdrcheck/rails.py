"""Rails of a node: which NIC and which GPU serve which rail, from the profile and the facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gdrcheck import topology
from gdrcheck.expect import Distance
from gdrcheck.facts import Facts, PciFunction, PciTree, RdmaDevice, Unreadable
from gdrcheck.facts.pci import slot_order
from gdrcheck.findings.model import Where
from gdrcheck.natural import Natural, natural
from gdrcheck.profile import NicSelector, Profile, Rails


@dataclass(frozen=True, slots=True)
class Rail:
    """One rail. ``nic`` is the device's name, or the promised one when ``missing`` says why.

    ``named_port`` is the port that the profile names, None when it leaves that open. ``gpu`` is
    ``gpuN``, the N-th of NVIDIA's GPUs in PCI order, and ``gpu_slot`` its slot; both None when the
    profile promises no GPUs or none is left for this rail. ``distance`` is between GPU and NIC,
    None when it is unknown.
    """

    id: int
    node: str
    gpu: str | None
    nic: str
    device: RdmaDevice | None
    missing: str | None = None
    named_port: int | None = None
    gpu_slot: str | None = None
    distance: Distance | None = None

    @property
    def port(self) -> int:
        """The number of the port that serves this rail."""
        return self.named_port or 1

    @property
    def where(self) -> Where:
        """The place of this rail's NIC in findings and case names."""
        return Where(node=self.node, nic=self.nic)

    @property
    def where_with_gpu(self) -> Where:
        """The place of the rail as a whole: its GPU and its NIC."""
        return Where(node=self.node, gpu=self.gpu, nic=self.nic)


@dataclass(frozen=True, slots=True)
class GpuNic:
    """A GPU and the NIC of a rail, as a place at which GPU memory is registered.

    ``gpu_number`` is N of ``gpuN``, None where it is unknown which GPU the rail has, or it has
    none. ``gpu_slot`` None: that GPU is not there. ``on_rail``: it is the rail's own GPU.
    ``gpu_has_rail``: this or another rail is the GPU's own.
    """

    gpu_number: int | None
    gpu_slot: str | None
    rail: Rail
    on_rail: bool
    where: Where
    gpu_has_rail: bool = True


def gpu_nic_pairs(
    profile: Profile, facts: Facts, found: tuple[Rail, ...] | None = None
) -> tuple[GpuNic, ...]:
    """Every GPU that the profile promises with the NIC of every rail, by GPU, then by rail.

    A GPU's slot is that of the N-th on PCI, as for the checks of GPUs. ``found``: the rails of
    ``resolve``, where they are known already.
    """
    there = () if isinstance(facts.pci, Unreadable) else facts.pci.nvidia_gpus
    slots = {number: gpu.slot for number, gpu in enumerate(there)}
    found = resolve(profile, facts) if found is None else found
    served = {rail.gpu for rail in found}
    return tuple(
        GpuNic(
            gpu_number=number,
            gpu_slot=slots.get(number),
            rail=rail,
            on_rail=rail.gpu == f"gpu{number}",
            where=Where(node=facts.node, gpu=f"gpu{number}", nic=rail.nic),
            gpu_has_rail=f"gpu{number}" in served,
        )
        for number in range(_gpu_count(profile))
        for rail in found
    )


def rails_with_gpus(
    profile: Profile, facts: Facts, found: tuple[Rail, ...] | None = None
) -> tuple[GpuNic, ...]:
    """Each rail with its own GPU, by rail; empty when the profile promises no GPUs.

    ``found`` as for ``gpu_nic_pairs``.
    """
    if not _gpu_count(profile):
        return ()
    return tuple(
        GpuNic(
            gpu_number=None if rail.gpu is None else int(rail.gpu.removeprefix("gpu")),
            gpu_slot=rail.gpu_slot,
            rail=rail,
            on_rail=True,
            where=rail.where_with_gpu,
        )
        for rail in (resolve(profile, facts) if found is None else found)
    )


def pairs_to_move_through(
    profile: Profile, facts: Facts, found: tuple[Rail, ...] | None = None
) -> tuple[GpuNic, ...]:
    """The pairs through which data is moved: each rail, or with ``matrix: full`` every pair.

    ``found`` as for ``gpu_nic_pairs``.
    """
    full = profile.matrix == "full"
    return (gpu_nic_pairs if full else rails_with_gpus)(profile, facts, found)


def _gpu_count(profile: Profile) -> int:
    return profile.gpus.count if profile.gpus else 0


def selected_devices(profile: Profile, facts: Facts) -> tuple[RdmaDevice, ...]:
    """The devices that the profile's selectors match, in PCI order, then by name."""
    if profile.rails is None or not isinstance(facts.rdma_devices, tuple):
        return ()
    return tuple(
        sorted(
            (
                device
                for device in facts.rdma_devices
                if any(_matches(selector, device) for selector in profile.rails.nics)
            ),
            key=_order,
        )
    )


def resolve(profile: Profile, facts: Facts) -> tuple[Rail, ...]:
    """One Rail for each that the profile promises, those without a device marked ``missing``.

    Rail i is the device that the i-th selector names, if there is one selector for each rail and
    none has a wildcard: then a device that is missing does not move the others to other rails. Else
    the devices are taken in PCI order, if there are exactly as many as promised; with more or fewer
    nothing tells which is which, and no rail has a device. Each rail gets the GPU that the profile
    names, or the closest one that is left, so that all rails together are as close as can be; none
    gets a slot when there are not as many GPUs as promised, since their numbers have shifted then.
    """
    return _with_gpus(with_nics(profile, facts), profile, facts)


def with_nics(profile: Profile, facts: Facts) -> tuple[Rail, ...]:
    """The rails of ``resolve``, without their GPUs."""
    promised = profile.rails
    if promised is None:
        return ()
    if isinstance(facts.rdma_devices, Unreadable):
        why = f"the list of RDMA devices is unreadable: {facts.rdma_devices.unreadable}"
        return tuple(_missing(index, facts.node, why) for index in range(promised.count))
    selected = selected_devices(profile, facts)
    if named_in_order(promised):
        return _in_order_of_selectors(promised, facts.node, selected)
    if len(selected) != promised.count:
        why = f"{len(selected)} devices match, and {promised.count} rails are promised"
        return tuple(_missing(index, facts.node, why) for index in range(promised.count))
    return tuple(
        _rail(index, facts.node, device, _selector_of(device, promised))
        for index, device in enumerate(selected)
    )


def told_apart(profile: Profile, facts: Facts) -> bool:
    """Whether it is known which device serves which rail, or which rail lacks its device."""
    promised = profile.rails
    if promised is None or isinstance(facts.rdma_devices, Unreadable):
        return False
    return named_in_order(promised) or len(selected_devices(profile, facts)) == promised.count


def named_in_order(promised: Rails) -> bool:
    """Whether the i-th selector names the NIC of rail i."""
    return len(promised.nics) == promised.count and all(
        selector.literal for selector in promised.nics
    )


def _in_order_of_selectors(
    promised: Rails, node: str, devices: tuple[RdmaDevice, ...]
) -> tuple[Rail, ...]:
    rails: list[Rail] = []
    left = list(devices)
    # Also names of devices that other rails have: a place means one rail only.
    taken = {device.name for device in devices}
    for index, selector in enumerate(promised.nics):
        # A device serves one rail: a second selector that means the same one finds nothing.
        device = next((device for device in left if _matches(selector, device)), None)
        if device is not None:
            left.remove(device)
            rails.append(_rail(index, node, device, selector))
            continue
        name = _free_name(selector.name or f"rail{index}", index, taken)
        taken.add(name)
        other = next((one for one in devices if _matches(selector, one)), None)
        why = f"none has {selector.text()}"
        if other is not None:
            why = f"{selector.text()} is {other.name}, which serves another rail"
        rails.append(_missing(index, node, why, name))
    return tuple(rails)


def _free_name(wanted: str, index: int, taken: set[str]) -> str:
    """``wanted``, or a name made of the rail's number that is not in ``taken``."""
    name = wanted if wanted not in taken else f"rail{index}"
    while name in taken:
        name += "_"
    return name


def _with_gpus(rails: tuple[Rail, ...], profile: Profile, facts: Facts) -> tuple[Rail, ...]:
    promised = _gpu_count(profile)
    if not promised or isinstance(facts.pci, Unreadable):
        return rails
    there = facts.pci.nvidia_gpus
    gpus = dict(enumerate(there)) if len(there) == promised else {}
    distances = _Distances(facts, facts.pci)
    chosen = _named_gpus(rails, profile)
    left = [number for number in gpus if number not in chosen.values()]
    # Closest pairs first, whichever rail they belong to. Of several that are as close, the one with
    # the rail's own number: then a NIC that is missing does not move the others to other GPUs.
    pairs = sorted(
        (topology.rank(distances.between(rail, gpus[number])), number != rail.id, rail.id, number)
        for rail in rails
        if rail.id not in chosen
        for number in left
    )
    for _, _, rail_id, number in pairs:
        if rail_id not in chosen and number not in chosen.values():
            chosen[rail_id] = number
    return tuple(_with_gpu(rail, chosen.get(rail.id), gpus, distances) for rail in rails)


def _named_gpus(rails: Sequence[Rail], profile: Profile) -> dict[int, int]:
    """Rail id → number of the GPU that the profile names for it."""
    if profile.rails is None:
        return {}
    named = {}
    for rail in rails:
        selector = _selector(rail, profile.rails)
        if selector is not None and selector.gpu is not None:
            named[rail.id] = selector.gpu
    return named


def _selector(rail: Rail, promised: Rails) -> NicSelector | None:
    if named_in_order(promised):
        return promised.nics[rail.id]
    return None if rail.device is None else _selector_of(rail.device, promised)


class _Distances:
    """Distances between NICs and GPUs of a node, each way up found once."""

    def __init__(self, facts: Facts, tree: PciTree) -> None:
        self._facts = facts
        self._tree = tree
        self._ways_up: dict[str, tuple[PciFunction, ...]] = {}

    def between(self, rail: Rail, gpu: PciFunction) -> Distance | None:
        """None where the rail has no NIC on PCI, or the facts do not tell."""
        if rail.device is None or rail.device.slot is None:
            return None
        return topology.apart(self._facts, self._up(rail.device.slot), self._up(gpu.slot))

    def _up(self, slot: str) -> tuple[PciFunction, ...]:
        if slot not in self._ways_up:
            self._ways_up[slot] = topology.path_up(self._tree, slot)
        return self._ways_up[slot]


def _with_gpu(
    rail: Rail, number: int | None, gpus: dict[int, PciFunction], distances: _Distances
) -> Rail:
    if number is None:
        return rail
    gpu = gpus.get(number)
    if gpu is None:
        return replace(rail, gpu=f"gpu{number}")
    return replace(
        rail, gpu=f"gpu{number}", gpu_slot=gpu.slot, distance=distances.between(rail, gpu)
    )


def _selector_of(device: RdmaDevice, promised: Rails) -> NicSelector:
    return next(selector for selector in promised.nics if _matches(selector, device))


def _rail(index: int, node: str, device: RdmaDevice, selector: NicSelector) -> Rail:
    return Rail(
        id=index,
        node=node,
        gpu=None,
        nic=device.name,
        device=device,
        named_port=selector.port,
    )


def _missing(index: int, node: str, why: str, name: str | None = None) -> Rail:
    return Rail(
        id=index,
        node=node,
        gpu=None,
        nic=name or f"rail{index}",
        device=None,
        missing=f"no RDMA device for rail {index}: {why}",
    )


def _matches(selector: NicSelector, device: RdmaDevice) -> bool:
    if device.software and selector.name is None:
        # It sits on the interface of a NIC, whose place it would take when that one is gone.
        return False
    return any(
        selector.matches(name=device.name, slot=device.slot, netdev=netdev)
        for netdev in device.netdev_names or (None,)
    )


def _order(device: RdmaDevice) -> tuple[tuple[int, ...], Natural]:
    """PCI address first; then names with their numbers as numbers, so mlx5_10 follows mlx5_9."""
    return slot_order(device.slot) if device.slot else (), natural(device.name)
