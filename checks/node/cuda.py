"""What keeps CUDA from starting or a GPU from opening: fails one check, and blocks the others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from checks.conftest import PromisedGpu, promised_gpus
from gdrcheck import gates
from gdrcheck.facts import Facts, Gpu, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, NotPromised
from gdrcheck.profile import Profile
from gdrcheck.rules import cuda as cuda_rules
from gdrcheck.rules import gpu as gpu_rules

if TYPE_CHECKING:
    from gdrcheck.gpu.devices import GpuDevice
    from gdrcheck.gpu.session import Session

VISIBLE = "CUDA_VISIBLE_DEVICES"


def cuda_refused(cuda: Session, profile: Profile, facts: Facts) -> Finding | None:
    """What keeps CUDA from starting, or from showing any GPU; None when nothing does.

    Blocked when no promised GPU answers anyway; ProbeError when the driver is an emulated one and
    the facts do not say so.
    """
    from gdrcheck.gpu.errors import CudaError

    _require_some_gpu(profile, facts)
    try:
        gates.require_emulation_told(cuda.driver().emulated, facts)
        return cuda_rules.none_seen(cuda.survey(), facts, os.environ.get(VISIBLE))
    except CudaError as error:
        return cuda_rules.start_failed(Where(node=facts.node), error, profile, facts)


def _require_some_gpu(profile: Profile, facts: Facts) -> None:
    """Blocked, when no promised GPU answers, by what keeps the first of them away."""
    first: Blocked | None = None
    for gpu in promised_gpus(profile, facts):
        try:
            gpu_rules.answering(gpu.where, gpu.slot, profile, facts)
        except Blocked as blocked:
            first = first or blocked
        else:
            return
    if first is not None:
        raise first
    raise NotPromised("the profile promises no GPUs")


def gpu_refused(gpu: PromisedGpu, cuda: Session, profile: Profile, facts: Facts) -> Finding | None:
    """What keeps CUDA from showing or opening the GPU; None when nothing does.

    Blocked when the GPU is not there, or NVML does not answer for it.
    """
    from gdrcheck.gpu.errors import CudaError

    answer = gpu_rules.answering(gpu.where, gpu.slot, profile, facts)
    device = device_of(answer, cuda)
    if device is None:
        visible = os.environ.get(VISIBLE)
        return cuda_rules.unseen(gpu.where, answer.slot, cuda.survey(), facts, visible)
    try:
        cuda.open(device)
    except CudaError as error:
        return cuda_rules.open_failed(gpu.where, error, answer.slot, facts)
    return None


def device_of(answer: Gpu, cuda: Session) -> GpuDevice | None:
    """CUDA's device of the GPU, or of a slice of it: by UUID, else by slot."""
    from gdrcheck.gpu.devices import find

    slices = () if isinstance(answer.mig_devices, Unreadable) else answer.mig_devices
    uuids = [one.uuid for one in slices]
    uuids += [] if isinstance(answer.uuid, Unreadable) else [answer.uuid]
    return find(cuda.survey().gpus, slot=answer.slot, uuids=uuids)
