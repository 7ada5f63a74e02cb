"""The GPUs of a node's rails, as its endpoint children are to open them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gdrcheck import rails
from gdrcheck.facts import Facts, Gpu, Nvml, Unreadable
from gdrcheck.pairing.messages import RailInfo
from gdrcheck.pairing.pairs import LocalGpu
from gdrcheck.profile import Profile
from gdrcheck.registration import Method

# As NVML's nvmlComputeMode_t names it in the facts.
EXCLUSIVE = "exclusive_process"


def local_gpus(profile: Profile, facts: Facts, told: Sequence[RailInfo]) -> dict[int, LocalGpu]:
    """The GPU of each rail by the rail's id; none for a rail whose GPU cannot be used.

    ``told``: what this node told the others of its rails.
    """
    methods = {rail.id: rail.methods for rail in told if rail.gpu_blocked_by is None}
    return {
        rail.id: _gpu(rail.gpu_slot, profile, facts, methods[rail.id])
        for rail in rails.resolve(profile, facts)
        if rail.gpu_slot is not None and methods.get(rail.id)
    }


def _gpu(slot: str, profile: Profile, facts: Facts, methods: Sequence[Method]) -> LocalGpu:
    answer = facts.nvml.gpu(slot) if isinstance(facts.nvml, Nvml) else None
    bar1 = answer.bar1_total_bytes if answer is not None else None
    return LocalGpu(
        slot=slot,
        uuids=_uuids(answer) if answer is not None else (),
        methods=tuple(methods),
        emulated=facts.emulated,
        # No GPU has a BAR1 of nothing: the driver does not know it.
        bar1_bytes=bar1 if isinstance(bar1, int) and bar1 > 0 else None,
        far=profile.transfers.beyond_2gib,
        exclusive=answer is not None and answer.compute_mode == EXCLUSIVE,
    )


def _uuids(answer: Gpu) -> tuple[str, ...]:
    """Those of its slices, under which CUDA shows a GPU that has any, and its own."""
    slices = () if isinstance(answer.mig_devices, Unreadable) else answer.mig_devices
    own = () if isinstance(answer.uuid, Unreadable) else (answer.uuid,)
    return (*(one.uuid for one in slices), *own)
