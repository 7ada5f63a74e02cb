"""Which NIC, port and GPU this end uses: what the user named, else what the topology suggests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gdrcheck import rails, topology
from gdrcheck.facts import (
    SLOT_PATTERN,
    Facts,
    GidEntry,
    Nvml,
    PciFunction,
    RdmaDevice,
    Unreadable,
)
from gdrcheck.nearest import did_you_mean
from gdrcheck.outcome import InputError
from gdrcheck.profile import Gpus, NicSelector, Profile, Rails
from gdrcheck.proposal import Proposal, propose
from gdrcheck.rails import GpuNic, Rail
from gdrcheck.verbs import gid

NO_GPU = "none"
# More would bury what to do.
MOST_GIDS = 16
# What probes.side_by_side says of a driver that hangs.
LATE = "gave no answer within"
IN_A_CONTAINER = (
    "in a container give --network=host and the --device options (docs/pingpong.md, In the image)"
)
NO_DEVICE = (
    "See what the host has: rdma link show, and lspci for a NIC whose driver is not loaded "
    f"(modprobe mlx5_ib; rdma_rxe in software); {IN_A_CONTAINER}"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user named of this end; None: the default. ``gpu`` may be ``none``."""

    device: str | None = None
    port: int | None = None
    gpu: str | None = None
    method: str = "any"
    gid_index: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The NIC and the GPU of this end, as the one rail of a profile made for it.

    ``gpu_number`` None: it has none; then ``gpu_lacks`` says why, and ``gpu_unwanted`` whether that
    is what the user wants.
    """

    facts: Facts
    profile: Profile
    rail: Rail
    gpu_number: int | None
    gpu_lacks: str = ""
    gpu_unwanted: bool = False

    @property
    def gpu(self) -> GpuNic:
        """The GPU with the NIC, as rules of registration take it."""
        return GpuNic(
            gpu_number=self.gpu_number,
            gpu_slot=self.rail.gpu_slot,
            rail=self.rail,
            on_rail=True,
            where=self.rail.where_with_gpu,
        )


def choose(facts: Facts, wanted: Wanted) -> Choice:
    """The choice for this machine. InputError when something that was named is not there, or when
    nothing can be chosen; each with what is there.
    """
    gpus = () if isinstance(facts.pci, Unreadable) else facts.pci.nvidia_gpus
    number = None if wanted.gpu in (None, NO_GPU) else _named_gpu(facts, gpus, wanted.gpu or "")
    device = _named_nic(facts, wanted.device) if wanted.device else _best_nic(facts, gpus, number)
    if number is None and wanted.gpu != NO_GPU:
        number = _closest_gpu(facts, gpus, device)
    port = _port(device, wanted.port)
    if wanted.gid_index is not None:
        _require_gid(device, port, wanted.gid_index)
    profile = _profile(len(gpus), device, port, number, wanted.method)
    (rail,) = rails.resolve(profile, facts)
    return Choice(
        facts=facts,
        profile=profile,
        rail=rail,
        gpu_number=number,
        gpu_lacks="" if number is not None else _why_none(facts, wanted),
        gpu_unwanted=wanted.gpu == NO_GPU,
    )


def _named_gpu(facts: Facts, gpus: Sequence[PciFunction], name: str) -> int:
    slots = [gpu.slot for gpu in gpus]
    number = _number(facts, slots, name)
    if number is None:
        there = ", ".join(f"gpu{index} ({slot})" for index, slot in enumerate(slots)) or "none"
        raise InputError(
            f"--gpu {name}: no such GPU; there are: {there}. Expected a number, a PCI slot, a UUID "
            "as nvidia-smi -L shows it, or none"
        )
    return number


def _number(facts: Facts, slots: Sequence[str], name: str) -> int | None:
    if re.fullmatch(r"(gpu)?\d{1,2}", name):
        number = int(name.removeprefix("gpu"))
        return number if number < len(slots) else None
    slot = name.lower() if name.count(":") == 2 else f"0000:{name.lower()}"
    if not re.fullmatch(SLOT_PATTERN, slot):
        answers = facts.nvml.gpus if isinstance(facts.nvml, Nvml) else ()
        slot = next((one.slot for one in answers if one.uuid == name), "")
    return slots.index(slot) if slot in slots else None


def _named_nic(facts: Facts, name: str) -> RdmaDevice:
    device = facts.rdma_device(name)
    if device is None:
        names = [one.name for one in _devices(facts)]
        there = ", ".join(names) or f"none. {NO_DEVICE}"
        raise InputError(
            f"-d {name}: no such RDMA device; there are: {there}{did_you_mean(name, names)}"
        )
    return device


def _devices(facts: Facts) -> tuple[RdmaDevice, ...]:
    if isinstance(facts.rdma_devices, Unreadable):
        raise InputError(f"the list of RDMA devices is unreadable: {facts.rdma_devices.unreadable}")
    return facts.rdma_devices


def _best_nic(facts: Facts, gpus: Sequence[PciFunction], number: int | None) -> RdmaDevice:
    """Of the NICs that the topology suggests for rails the one closest to the GPU, else the first.

    The rail of the first GPU comes first, so that both ends take the same one.
    """
    _devices(facts)
    proposal = propose(facts)
    found = [rail for rail in proposal.rails if rail.device is not None]
    if not found:
        raise InputError(_why_no_nic(facts, proposal))
    if number is None:
        best = min(found, key=lambda rail: (rail.gpu is None, rail.gpu or "", rail.id))
    else:
        slot = gpus[number].slot
        best = min(found, key=lambda rail: (_rank(facts, rail.device, slot), rail.id))
    assert best.device is not None
    return best.device


def _why_no_nic(facts: Facts, proposal: Proposal) -> str:
    """Why no NIC can be taken, each one's reason once, and what to do."""
    silent = {device.name: _unreadable(device) for device in _devices(facts)}
    reasons = [
        reason if reason.startswith(what) else f"{what}: {reason}"
        for what, why in proposal.left_out
        for reason in silent.get(what) or [why]
    ]
    text = f"no RDMA device of this machine can be used: {'; '.join(reasons) or 'there is none'}"
    if not silent:
        return f"{text}. {NO_DEVICE}"
    if any(why.startswith("does not open") for _, why in proposal.left_out):
        return f"{text}. {IN_A_CONTAINER[0].upper()}{IN_A_CONTAINER[1:]}"
    return with_more_time(text)


def _unreadable(device: RdmaDevice) -> list[str]:
    """Why states of its ports could not be read, each reason once."""
    states = (port.state for port in device.ports)
    return list(
        dict.fromkeys(state.unreadable for state in states if isinstance(state, Unreadable))
    )


def with_more_time(text: str) -> str:
    """``text``, with what to do where a driver was late."""
    if LATE not in text:
        return text
    return f"{text}. It may hang (dmesg tells), or the machine is slow: --time-scale 3 waits longer"


def _closest_gpu(facts: Facts, gpus: Sequence[PciFunction], device: RdmaDevice) -> int | None:
    numbers = range(len(gpus))
    return min(numbers, key=lambda one: _rank(facts, device, gpus[one].slot), default=None)


def _rank(facts: Facts, device: RdmaDevice | None, slot: str) -> int:
    if device is None or device.slot is None:
        return topology.rank(None)
    return topology.rank(topology.distance(facts, device.slot, slot))


def _port(device: RdmaDevice, wanted: int | None) -> int:
    numbers = [port.number for port in device.ports]
    if wanted is not None:
        if wanted not in numbers:
            there = ", ".join(map(str, numbers)) or "none"
            raise InputError(f"-i {wanted}: {device.name} has no such port; it has: {there}")
        return wanted
    active = [port.number for port in device.ports if port.state == "ACTIVE"]
    return min(active or numbers or [1])


def _require_gid(device: RdmaDevice, number: int, index: int) -> None:
    """InputError when the port has no entry ``index``; where that is unknown, its opening tells."""
    port = next((one for one in device.ports if one.number == number), None)
    if port is None or isinstance(port.gids, Unreadable):
        return
    if index not in (entry.index for entry in port.gids):
        shown = [_gid_words(entry) for entry in port.gids[:MOST_GIDS]]
        more = ["..."] if len(port.gids) > MOST_GIDS else []
        raise InputError(
            f"-x {index}: {device.name} port {number} has no such entry; there are: "
            f"{', '.join(shown + more) or 'none'}"
        )


def _gid_words(entry: GidEntry) -> str:
    """``1 (10.77.2.1, RoCE v2)``."""
    try:
        address = gid.normal(entry.gid).removeprefix("::ffff:")
    except ValueError:
        address = entry.gid
    return f"{entry.index} ({address}, {entry.type or 'unknown type'})"


def _profile(gpus: int, device: RdmaDevice, port: int, number: int | None, method: str) -> Profile:
    nic = NicSelector(name=device.name, port=port, gpu=number)
    count = gpus if number is not None else 0
    return Profile.model_validate(
        {
            "gpus": Gpus(count=count, model="*" if count else None),
            "rails": Rails(count=1, nics=(nic,)),
            "registration": method,
            # Not measured by hand, and it would take gigabytes of the GPU.
            "transfers": {"beyond_2gib": False},
        }
    )


def _why_none(facts: Facts, wanted: Wanted) -> str:
    if wanted.gpu == NO_GPU:
        return "--gpu none"
    if isinstance(facts.pci, Unreadable):
        return f"the PCI functions are unreadable: {facts.pci.unreadable}"
    return "no NVIDIA GPU on PCI"
