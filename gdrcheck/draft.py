"""A first profile from the facts of a node: what it is, for the owner to correct. Pure."""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from gdrcheck import expectations, marking, proposal
from gdrcheck.expectations import PLAIN
from gdrcheck.facts import Facts, Gpu, Nvml, RdmaDevice, Unreadable
from gdrcheck.lost_rails import lost
from gdrcheck.outcome import InputError
from gdrcheck.profile import Gpus, Profile
from gdrcheck.proposal import Left


@dataclass(frozen=True, slots=True)
class Draft:
    """The profile, the devices of its rails, and what of the facts is not in it, with the reasons.

    ``no_rails`` are NICs that serve no rail and GPUs that have none; ``left_out`` is all
    else that the profile could hold.
    """

    profile: Profile
    devices: tuple[RdmaDevice, ...]
    no_rails: tuple[Left, ...]
    left_out: tuple[Left, ...]


def draft(facts: Facts, without: Collection[str] = ()) -> Draft:
    """A profile that promises what ``facts`` say: the core, and every value to expect.

    ``without`` are names of RDMA devices that serve no rail. InputError naming each part of the
    mandatory core that the facts do not tell, and each NIC that only a fault keeps from its rail.
    """
    proposed = proposal.propose(facts, without)
    problems = [
        *(f"--without {name}: no such RDMA device" for name in _strangers(facts, without)),
        *_core_problems(facts),
        *_rail_problems(proposed),
        *lost(facts, proposed),
    ]
    if problems:
        raise InputError(*problems)
    gpus = _gpus(facts)
    values, left_out = expectations.read(facts, proposed.rails, _answers(facts))
    marks, unmarked = marking.read(proposed.rails)
    profile = Profile.model_validate(
        proposed.profile.model_dump() | marks | {"gpus": gpus.model_dump(), "expect": values}
    )
    devices = tuple(rail.device for rail in proposed.rails if rail.device is not None)
    return Draft(profile, devices, proposed.left_out, (*unmarked, *left_out))


def _strangers(facts: Facts, names: Collection[str]) -> Iterator[str]:
    return (name for name in names if facts.rdma_device(name) is None)


def _core_problems(facts: Facts) -> Iterator[str]:
    lost_gpus = facts.nvml.lost if isinstance(facts.nvml, Nvml) else {}
    yield from (f"gpus.count: NVML has lost {gpu}: {why}" for gpu, why in lost_gpus.items())
    if isinstance(facts.pci, Unreadable):
        yield f"gpus.count: the PCI functions are unreadable: {facts.pci.unreadable}"
        return
    slots = [gpu.slot for gpu in facts.pci.nvidia_gpus]
    if len(slots) > proposal.MAX_GPUS:
        yield f"gpus.count: {len(slots)} GPUs; a profile holds {proposal.MAX_GPUS}"
    if not slots:
        return
    if not isinstance(facts.nvml, Nvml):
        why = facts.nvml.unreadable if facts.nvml else "NVIDIA's driver is not loaded"
        yield f"gpus.model: {len(slots)} GPUs, and NVML does not say which: {why}"
        return
    answers = [facts.nvml.gpu(slot) for slot in slots]
    silent = [
        slot
        for slot, answer in zip(slots, answers, strict=True)
        if answer is None and slot not in lost_gpus
    ]
    if silent:
        yield f"gpus.model: NVML has no answer for {', '.join(silent)}"
    models = {gpu.model if isinstance(gpu.model, str) else None for gpu in answers if gpu}
    if None in models:
        yield "gpus.model: NVML does not say the model of each GPU"
    elif len(models) > 1:
        yield f"gpus.model: {' and '.join(sorted(map(str, models)))}; a profile holds one model"
    elif not all(PLAIN.fullmatch(str(model)) for model in models):
        yield "gpus.model: the name is no plain text"


def _rail_problems(proposed: proposal.Proposal) -> Iterator[str]:
    if proposed.profile.rails is None:
        yield "rails: no NIC can serve one"
        yield from (f"{what}: {why}" for what, why in proposed.left_out)


def _gpus(facts: Facts) -> Gpus:
    answers = _answers(facts)
    if not answers:
        return Gpus(count=0)
    return Gpus(count=len(answers), model=glob.escape(str(answers[0].model)))


def _answers(facts: Facts) -> list[Gpu]:
    """What NVML says of each GPU on PCI; the core was found complete before."""
    if isinstance(facts.pci, Unreadable) or not isinstance(facts.nvml, Nvml):
        return []
    answers = [facts.nvml.gpu(gpu.slot) for gpu in facts.pci.nvidia_gpus]
    return [answer for answer in answers if answer is not None]
