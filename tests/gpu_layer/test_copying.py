"""Copies to a GPU that run until they are looked at no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from gdrcheck.gpu import copying as module
from gdrcheck.gpu.context import Gpu
from gdrcheck.gpu.copying import BLOCK_BYTES, BLOCKS_AT_ONCE, Copying, copying, under_load
from gdrcheck.gpu.errors import CudaError
from gdrcheck.gpu_load import GpuGone, GpuNow
from gdrcheck.outcome import ProbeError
from tests import facts as builders
from tests.captured import loads
from tests.gpu_layer.emulation import Emulation

FACTS = builders.facts(nvml=builders.nvml(gpus=(builders.gpu(builders.GPU_SLOT),)))
IDLE = loads.now(FACTS, builders.GPU_SLOT)
BUSY = loads.whole_load(IDLE).last
PATIENCE_S = 30


@pytest.fixture(autouse=True)
def _no_copy_is_left() -> None:
    assert _copies() == []


def _copies() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "copies"]


def one_after_the_other(*readings: GpuNow) -> Callable[[], GpuNow]:
    """Gives each of ``readings`` once, and the last one from then on."""
    left = list(readings)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_copies_run_until_the_block_ends(gpu: Gpu) -> None:
    free, _ = gpu.memory_info()
    with copying(gpu) as copies:
        deadline = time.monotonic() + PATIENCE_S
        while not copies.copied_bytes and time.monotonic() < deadline:
            time.sleep(0.01)
        assert copies.running
    assert not copies.running
    assert copies.copied_bytes > 0
    assert copies.copied_bytes % (BLOCK_BYTES * BLOCKS_AT_ONCE) == 0
    assert copies.took_s > 0
    assert _copies() == []
    # Everything was given back.
    assert gpu.memory_info()[0] == free


def test_readings_are_made_before_the_copy_and_while_it_runs(gpu: Gpu) -> None:
    running: list[int] = []

    def ask() -> GpuNow:
        running.append(len(_copies()))
        return IDLE if len(running) == 1 else BUSY

    load = under_load(gpu, ask)
    assert load.idle == IDLE
    assert set(load.under_load) == {BUSY}
    assert len(load.under_load) >= 2
    assert running == [0] + [1] * len(load.under_load)
    assert load.copied_bytes > 0


def test_a_link_that_does_not_come_up_is_given_more_time(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SETTLE_S", 0.0)
    slow = under_load(gpu, lambda: IDLE)
    whole = under_load(gpu, one_after_the_other(IDLE, BUSY))
    assert len(whole.under_load) == 2
    assert slow.took_s >= module.LINK_S


def test_a_copy_that_does_not_go_on_is_no_load(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def ask() -> GpuNow:
        asked.append(1)
        return IDLE

    monkeypatch.setattr(module, "LONGEST_S", 0.5)
    monkeypatch.setattr(Copying, "_copy", lambda copies: copies._stop.wait(PATIENCE_S))
    with pytest.raises(ProbeError, match=r"0 bytes in .* s: too slow to see"):
        under_load(gpu, ask)
    # A reading of the idle GPU would be taken for a slow link.
    assert len(asked) == 1


def test_a_copy_that_the_driver_refuses_is_its_error(gpu: Gpu, emulation: Emulation) -> None:
    emulation.set(faults=["fail cuMemcpyHtoDAsync = 719"])
    with pytest.raises(CudaError) as caught:
        under_load(gpu, lambda: BUSY)
    assert caught.value.function == "cuMemcpyHtoDAsync"
    assert caught.value.number == 719
    assert gpu.device.slot in str(caught.value)


def test_a_gpu_that_nvml_loses_ends_the_copies(gpu: Gpu) -> None:
    asked: list[int] = []

    def ask() -> GpuNow:
        asked.append(1)
        if len(asked) > 1:
            raise GpuGone("GPU is lost", step="NVML")
        return IDLE

    with pytest.raises(GpuGone):
        under_load(gpu, ask)
    assert _copies() == []


def test_memory_that_is_refused_starts_no_copy(gpu: Gpu, emulation: Emulation) -> None:
    emulation.set(faults=["fail cuMemHostAlloc = 2"])
    with pytest.raises(CudaError, match="cuMemHostAlloc"), copying(gpu):
        pytest.fail("the block was entered")
    assert _copies() == []
