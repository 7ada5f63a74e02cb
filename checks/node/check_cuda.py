"""CUDA starts, each GPU opens, its memory is what it is taken for, and keeps what it is given."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np
import pytest

from checks.conftest import PromisedGpu
from checks.node.cuda import cuda_refused, gpu_refused
from gdrcheck import gates
from gdrcheck.facts import Facts
from gdrcheck.pattern import Key
from gdrcheck.profile import Profile
from gdrcheck.registration import BufferKind
from gdrcheck.rules import cuda as rules
from gdrcheck.rules import gpu_pattern

if TYPE_CHECKING:
    from gdrcheck.gpu.context import Gpu
    from gdrcheck.gpu.session import Session

KINDS: tuple[BufferKind, ...] = ("gpu", "gpu-vmm", "pinned", "managed")
KIND_BYTES = 64 << 10
# Neither the start nor the end of the pattern is aligned to a word or a page.
START, PATTERN_BYTES = 4093, (4 << 20) + 13
Calls = Callable[[], AbstractContextManager[None]]


@pytest.mark.usefixtures("node")
def check_cuda_starts(
    cuda: Session, profile: Profile, facts: Facts, request: pytest.FixtureRequest
) -> None:
    """The driver lets this software use CUDA, and shows GPUs."""
    gates.fail(cuda_refused(cuda, profile, facts))
    version = ".".join(map(str, cuda.driver().cuda))
    request.node.user_properties.append(("CUDA of the driver", version))


@pytest.mark.usefixtures("started_cuda")
def check_gpu_opens(gpu: PromisedGpu, cuda: Session, profile: Profile, facts: Facts) -> None:
    """CUDA shows the GPU that NVML shows, by UUID and slot, and gives a context on it."""
    gates.fail(gpu_refused(gpu, cuda, profile, facts))


def check_gpu_memory_kinds(
    gpu: PromisedGpu, open_gpu: Gpu, calls: Calls, request: pytest.FixtureRequest
) -> None:
    """Memory of each kind is told for what it is: the GPU's own, the host's, or managed."""
    from gdrcheck.gpu.buffers import allocate, prove

    lacking = open_gpu.device.attributes.lacking
    request.node.user_properties += [(f"{kind} memory", why) for kind, why in lacking.items()]
    for kind in (kind for kind in KINDS if kind not in lacking):
        with calls(), allocate(open_gpu, KIND_BYTES, kind) as buffer:
            proof = prove(buffer)
        request.node.user_properties.append((f"{kind} memory", proof.text()))
        gates.fail(rules.buffer_refused(gpu.where, proof))


def check_gpu_pattern(gpu: PromisedGpu, open_gpu: Gpu, calls: Calls) -> None:
    """GPU and CPU find right what a kernel wrote, and both find a byte made wrong on purpose."""
    from gdrcheck.gpu.buffers import allocate
    from gdrcheck.gpu.engine import engine_of

    key = Key(secrets.randbits(64), iteration=0, direction=0, source=gpu.number)
    with calls(), allocate(open_gpu, START + PATTERN_BYTES) as buffer:
        engine, place = engine_of(open_gpu), (START, PATTERN_BYTES)
        engine.fill_even(buffer, *place)
        even = engine.verify_even(buffer, *place)
        engine.fill(buffer, key, *place)
        verdict = engine.verify(buffer, key, *place)
        gates.fail(gpu_pattern.pattern_wrong(gpu.where, even, "even numbers"))
        gates.fail(gpu_pattern.pattern_wrong(gpu.where, verdict, "the pattern of a key"))
        _flip(open_gpu, buffer.address + START + PATTERN_BYTES - 1)
        flipped = engine.verify(buffer, key, *place)
    gates.fail(gpu_pattern.flip_missed(gpu.where, flipped, PATTERN_BYTES - 1))


def _flip(gpu: Gpu, address: int) -> None:
    byte = np.empty(1, dtype=np.uint8)
    gpu.device_to_host(address, byte)
    gpu.host_to_device(address, byte ^ np.uint8(1))
