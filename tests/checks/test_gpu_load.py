"""GPUs under load: the real copies, and NVML in the same process, on the lab's emulated driver."""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import replace

import pytest

from gdrcheck.outcome import Outcome
from lab.emulated_gpu.config import Config, Faults
from tests.captured.running import Ran
from tests.checks.world import CONFIG, World, wrong

FILES = ("check_gpu_load.py",)
REST_S = 10.0


@pytest.fixture(autouse=True)
def resting() -> None:
    """No GPU still shows the load that a test before this one, in the same process, put on it."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return
    end = time.monotonic() + REST_S
    while any(driver.gdrcheck_emulated_busy(number) & 1 for number in range(len(CONFIG.gpus))):
        assert time.monotonic() < end, "the emulated GPUs do not come to rest"
        time.sleep(0.05)


def with_values(number: int, values: dict[str, int | str]) -> Config:
    """One GPU is not as a healthy one."""
    gpus = list(CONFIG.gpus)
    gpus[number] = replace(gpus[number], values=values)
    return replace(CONFIG, gpus=tuple(gpus))


def run(world: World, config: Config = CONFIG) -> Ran:
    return world.run(config, files=FILES)


def test_healthy_gpus_pass_and_tell_what_was_seen(world: World) -> None:
    ran = run(world)
    assert {id_: case.outcome for id_, case in ran.cases.items()} == {
        f"gpu_under_load[node1/gpu{number}]": Outcome.PASSED for number in range(2)
    }
    told = ran.cases["gpu_under_load[node1/gpu0]"].properties
    assert told["PCIe link"] == "generation 5 of 5, width 16 of 16; idle: generation 1"
    assert told["PCIe replays"] == "2 before the copy, 2 during it"
    assert told["clocks"] == "1980 of 1980 MHz, memory 3201 of 3201 MHz"
    assert told["copied"].endswith(" GB/s")


@pytest.mark.parametrize(
    ("number", "values", "code"),
    [
        (0, {"pcie generation load": 3}, "PCI-LINK-SPEED"),
        (1, {"pcie width": 8}, "PCI-LINK-WIDTH"),
        (0, {"clock limits": 0x40}, "GPU-THROTTLED"),
        (1, {"clock limits": 0x84}, "GPU-THROTTLED"),
        (1, {"replays": "900 after 1"}, "GPU-PCIE-REPLAYS"),
    ],
)
def test_what_a_gpu_shows_under_load_alone_is_found_there_alone(
    world: World, number: int, values: dict[str, int | str], code: str
) -> None:
    ran = run(world, with_values(number, values))
    assert set(ran.findings) == {(code, f"node1/gpu{number}")}
    other = ran.cases[f"gpu_under_load[node1/gpu{1 - number}]"]
    assert other.outcome is Outcome.PASSED


@pytest.mark.parametrize("values", [{"clock limits": 0x4}, {"clock limits": 0x2}])
def test_limits_that_are_no_fault_are_shown(world: World, values: dict[str, int | str]) -> None:
    ran = run(world, with_values(0, values))
    assert ran.findings == {}
    limits = ran.cases["gpu_under_load[node1/gpu0]"].properties["clock limits"]
    assert limits.startswith(("sw_power_cap (", "applications_clocks ("))


@pytest.mark.parametrize("name", ["pcie generation load", "pcie width max", "clock limits"])
def test_what_a_gpu_does_not_tell_is_not_judged(world: World, name: str) -> None:
    ran = run(world, with_values(0, {name: "unsupported"}))
    assert set(ran.of(Outcome.NOT_JUDGED)) == {"gpu_under_load[node1/gpu0]"}
    assert ran.findings == {}


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Faults(fail={"cuMemcpyHtoDAsync": 719}), "GPU-CUDA-FAILED"),
        (Faults(fail={"cuMemHostAlloc": 2}), "GPU-MEMORY-FULL"),
        (Faults(fail={"nvmlDeviceGetPcieReplayCounter": 15}), "GPU-GONE"),
        (
            Faults(
                fail={"nvmlDeviceGetPcieReplayCounter": 15},
                after={"nvmlDeviceGetPcieReplayCounter": 2},
            ),
            "GPU-GONE",
        ),
    ],
)
def test_a_gpu_that_fails_meanwhile_is_found(world: World, fault: Faults, code: str) -> None:
    ran = run(world, wrong(1, fail=fault.fail, after=fault.after))
    assert set(ran.findings) == {(code, "node1/gpu1")}
    assert ran.cases["gpu_under_load[node1/gpu0]"].outcome is Outcome.PASSED


def test_what_nvml_does_not_give_under_load_is_an_error(world: World) -> None:
    ran = run(world, wrong(0, fail={"nvmlDeviceGetCurrPcieLinkGeneration": 999}))
    assert ran.findings == {}
    error = ran.of(Outcome.ERROR)["gpu_under_load[node1/gpu0]"]
    assert "PCIe generation under load is unreadable" in error
    assert ran.cases["gpu_under_load[node1/gpu1]"].outcome is Outcome.PASSED
