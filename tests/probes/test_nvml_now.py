"""NVML asked in this process about one GPU."""

from __future__ import annotations

from typing import Any

import pynvml
import pytest

from gdrcheck.gpu_load import GpuGone
from gdrcheck.outcome import ProbeError
from gdrcheck.probes.nvml_now import asking
from tests.probes.fake_nvml import OK, FakeGpu, FakeLibrary

SLOT = "0000:1b:00.0"
LOST, UNKNOWN = int(pynvml.NVML_ERROR_GPU_IS_LOST), int(pynvml.NVML_ERROR_UNKNOWN)


class Found(FakeLibrary):
    """Gives the handle of its one GPU by its address."""

    def nvmlDeviceGetHandleByPciBusId_v2(self, bus_id: Any, handle: Any) -> int:
        assert bus_id.value == SLOT.encode()
        self._point(handle, 0)
        return int(OK)


def test_the_values_are_those_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu()
    Found(gpu).install(monkeypatch)
    with asking(SLOT) as ask:
        idle = ask()
        assert idle.pcie.max_width == 16
        assert idle.clock_limits == ("idle",)
        gpu.errors["nvmlDeviceGetPcieReplayCounter"] = UNKNOWN
        assert "NVML_ERROR_UNKNOWN" in str(ask().pcie.replays)


@pytest.mark.parametrize("name", ["nvmlDeviceGetPcieReplayCounter", "nvmlDeviceGetPowerUsage"])
def test_a_gpu_that_is_lost_meanwhile_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu()
    Found(gpu).install(monkeypatch)
    with asking(SLOT) as ask:
        ask()
        gpu.errors[name] = LOST
        with pytest.raises(GpuGone, match=f"{SLOT}: NVML_ERROR_GPU_IS_LOST"):
            ask()


@pytest.mark.parametrize(
    ("name", "status", "error"),
    [
        ("nvmlInitWithFlags", UNKNOWN, ProbeError),
        ("nvmlDeviceGetHandleByPciBusId_v2", UNKNOWN, ProbeError),
        ("nvmlDeviceGetHandleByPciBusId_v2", LOST, GpuGone),
    ],
)
def test_what_keeps_it_from_asking_is_told(
    name: str, status: int, error: type[ProbeError], monkeypatch: pytest.MonkeyPatch
) -> None:
    Found(FakeGpu(), errors={name: status}).install(monkeypatch)
    with pytest.raises(ProbeError, match=SLOT) as caught, asking(SLOT):
        pytest.fail("the block was entered")
    assert type(caught.value) is error
