"""The pattern engine on the emulated GPU, and what it does when the driver or the GPU is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from gdrcheck import steps
from gdrcheck.gpu.buffers import allocate
from gdrcheck.gpu.context import Gpu, open_gpu
from gdrcheck.gpu.devices import enumerate_gpus, start
from gdrcheck.gpu.engine import engine_of
from gdrcheck.gpu.errors import CudaError
from tests.gpu_layer.emulation import Emulation
from tests.gpu_layer.engine_bodies import KEY, AnyEngine, write


class TestOnTheEmulatedGpu(AnyEngine):
    """The real cuda-python and the PTX in git on the emulated driver."""


def test_a_gpu_that_sees_nothing_wrong_is_contradicted(gpu: Gpu, emulation: Emulation) -> None:
    engine = engine_of(gpu)
    with allocate(gpu, 4096) as buffer:
        engine.fill(buffer, KEY, 0, 4096)
        emulation.set(faults=["verify_lies = 1"])
        assert engine.verify(buffer, KEY, 0, 4096).right
        write(buffer, 1000, np.zeros(100, dtype=np.uint8))
        verdict = engine.verify(buffer, KEY, 0, 4096)
    assert verdict.disagree
    assert not verdict.right
    assert verdict.by_gpu is None
    assert verdict.by_cpu is not None
    assert verdict.by_cpu.looks_like == "zeros"


def test_kernels_that_the_driver_refuses_are_an_error_that_says_so(
    gpu: Gpu, emulation: Emulation
) -> None:
    emulation.set(faults=["fail cuModuleLoadData = 222"])
    with pytest.raises(CudaError) as caught:
        engine_of(gpu)
    assert caught.value.name == "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
    emulation.set()
    with allocate(gpu, 64) as buffer:
        engine_of(gpu).fill(buffer, KEY, 0, 64)


def test_a_launch_that_fails_names_kernel_and_gpu(gpu: Gpu, emulation: Emulation) -> None:
    engine = engine_of(gpu)
    with allocate(gpu, 4096) as buffer:
        emulation.set(faults=["fail cuLaunchKernel = 719"])
        with pytest.raises(CudaError, match=r"gdrcheck_fill over 4 KiB on 0000:24:00\.0") as caught:
            engine.fill(buffer, KEY, 0, 4096)
        emulation.set()
    assert caught.value.name == "CUDA_ERROR_LAUNCH_FAILED"


def test_every_launch_and_copy_is_announced_and_the_kernels_go_before_the_context(
    emulation: Emulation,
) -> None:
    emulation.set()
    start()
    seen: list[str] = []
    steps.set_sink(seen.append)
    try:
        with open_gpu(enumerate_gpus()[0]) as gpu, allocate(gpu, 4096) as buffer:
            engine = engine_of(gpu)
            engine.fill(buffer, KEY, 0, 4096)
            seen.append("verify")
            assert engine.verify(buffer, KEY, 0, 4096).right
            seen.append("verified")
    finally:
        steps.set_sink(None)
    verifying = seen[seen.index("verify") + 1 : seen.index("verified")]
    assert [text.split()[0] for text in verifying if "Synchronize" not in text] == [
        "cuMemcpyHtoDAsync",
        "cuLaunchKernel",
        "cuMemcpyDtoH",
        "cuMemcpyDtoH",
    ]
    assert "cuLaunchKernel gdrcheck_verify over 4 KiB on 0000:24:00.0" in verifying
    calls = [text.split()[0] for text in seen]
    assert calls.index("cuModuleUnload") < calls.index("cuDevicePrimaryCtxRelease")


def test_a_context_that_is_opened_again_gets_an_engine_of_its_own(emulation: Emulation) -> None:
    engines = []
    for _ in range(2):
        with emulation.opened() as gpu, allocate(gpu, 64) as buffer:
            engines.append(engine_of(gpu))
            engines[-1].fill(buffer, KEY, 0, 64)
            assert engines[-1].verify(buffer, KEY, 0, 64).right
    assert engines[0] is not engines[1]
