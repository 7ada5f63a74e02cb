"""What NVIDIA's NVML binding reads of a GPU's health is what the file says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pynvml
import pytest
from cuda.bindings import driver

from gdrcheck.facts import (
    EccCounts,
    GpuHealth,
    NvLink,
    PcieLink,
    Power,
    RetiredPages,
    RowRemap,
    Temperature,
)
from gdrcheck.probes import nvml_health
from gdrcheck.probes.nvml_links import nvlinks
from gdrcheck.probes.nvml_peers import peers
from lab.emulated_gpu.config import Config, EmulatedGpu, Faults, h200s
from tests.emulated_gpu.emulation import Emulation, result

LINKS = 18
Values = Mapping[str, int | str]


def gpus(first: Values, second: Values | None = None) -> tuple[EmulatedGpu, ...]:
    one, other = h200s(2, memory_mib=64)
    return replace(one, values=first), replace(other, values=second or {})


@pytest.fixture
def handles(emulation: Emulation) -> Iterator[dict[str, Any]]:
    """NVML in this process, and the two GPUs by slot."""
    pynvml.nvmlInit()
    found = [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(2)]
    yield {gpu.slot: handle for gpu, handle in zip(h200s(2), found, strict=True)}
    emulation.set()
    pynvml.nvmlShutdown()


@contextmanager
def a_copy() -> Iterator[None]:
    """GPU 0 has just copied something."""
    context = result(driver.cuDevicePrimaryCtxRetain, 0)
    result(driver.cuCtxPushCurrent, context)
    pointer = result(driver.cuMemAlloc, 16)
    try:
        result(driver.cuMemcpyHtoD, pointer, bytes(16), 16)
        yield
    finally:
        result(driver.cuMemFree, pointer)
        result(driver.cuCtxPopCurrent)
        result(driver.cuDevicePrimaryCtxRelease, 0)


def health(handles: Mapping[str, Any], number: int = 0) -> GpuHealth:
    slot = list(handles)[number]
    return nvml_health.health(handles[slot], slot)


def test_a_gpu_that_the_file_says_nothing_of_is_a_healthy_h200(handles: dict[str, Any]) -> None:
    found = health(handles)
    assert (found.vbios, found.board_part) == ("96.00.A5.00.1A", "692-2G520-0282-001")
    assert (found.gsp_firmware, found.persistence) == ("580.159.04", "on")
    assert found.recovery_action == "none"
    assert found.retired_pages is None
    assert found.row_remap == RowRemap(correctable=0, uncorrectable=0, pending=False, failed=False)
    assert found.power == Power(draw_w=134, limit_w=700, default_w=700, max_w=700)
    assert found.temperature == Temperature(gpu_c=41, memory_c=41, slowdown_c=89, shutdown_c=95)
    assert found.nvlinks == tuple(
        NvLink(
            number=number,
            active=True,
            remote="switch",
            version=6,
            speed_mbytes_per_s=26562,
            replay_errors=0,
            recovery_errors=0,
            crc_errors=0,
        )
        for number in range(LINKS)
    )


# Each value, where it is found, and what is found there.
CHANGED = [
    ({"vbios": "96.00.99.00.01"}, "vbios", "96.00.99.00.01"),
    ({"vbios": "unsupported"}, "vbios", None),
    ({"board_part": "900-1"}, "board_part", "900-1"),
    ({"gsp_firmware": "570.1"}, "gsp_firmware", "570.1"),
    ({"persistence": "off"}, "persistence", "off"),
    ({"ecc mode": "off"}, "ecc.mode", "disabled"),
    ({"ecc pending": "off"}, "ecc.pending", "disabled"),
    ({"ecc mode": "unsupported"}, "ecc", None),
    ({"ecc volatile correctable": 4}, "ecc.volatile", EccCounts(correctable=4, uncorrectable=0)),
    ({"ecc volatile uncorrectable": 1}, "ecc.volatile.uncorrectable", 1),
    ({"ecc aggregate correctable": 7}, "ecc.aggregate.correctable", 7),
    ({"ecc aggregate uncorrectable": 2}, "ecc.aggregate.uncorrectable", 2),
    ({"sram threshold exceeded": 1}, "ecc.sram_threshold_exceeded", True),
    ({"row remap correctable": 1}, "row_remap.correctable", 1),
    ({"row remap uncorrectable": 3}, "row_remap.uncorrectable", 3),
    ({"row remap pending": "yes"}, "row_remap.pending", True),
    ({"row remap failed": 1}, "row_remap.failed", True),
    ({"row remap pending": "unsupported"}, "row_remap", None),
    (
        {"retired single bit": 3, "retired double bit": 0, "retired pending": 1},
        "retired_pages",
        RetiredPages(single_bit=3, double_bit=0, pending=True),
    ),
    ({"recovery action": "reset"}, "recovery_action", "reset"),
    ({"recovery action": "unsupported"}, "recovery_action", None),
    ({"clock graphics idle mhz": 210}, "clocks.graphics_mhz", 210),
    ({"clock memory mhz": 2619}, "clocks.memory_mhz", 2619),
    ({"clock max graphics mhz": 1755}, "clocks.max_graphics_mhz", 1755),
    ({"clock max memory mhz": 2619}, "clocks.max_memory_mhz", 2619),
    ({"clock limits": "0x40"}, "clock_limits", ("idle", "hw_thermal")),
    ({"power draw w": 500}, "power.draw_w", 500),
    ({"power limit w": 400}, "power.limit_w", 400),
    ({"power default w": 600}, "power.default_w", 600),
    ({"power max w": 800}, "power.max_w", 800),
    ({"temperature gpu c": 90}, "temperature.gpu_c", 90),
    ({"temperature memory c": 99}, "temperature.memory_c", 99),
    ({"temperature slowdown c": 80}, "temperature.slowdown_c", 80),
    ({"temperature shutdown c": "unsupported"}, "temperature.shutdown_c", None),
    ({"pcie generation idle": 2}, "pcie.generation", 2),
    ({"pcie generation max": 4}, "pcie.max_generation", 4),
    ({"pcie width": 8}, "pcie.width", 8),
    ({"pcie width max": 8}, "pcie.max_width", 8),
    ({"replays": 40}, "pcie.replays", 40),
    ({"nvlinks": "unsupported"}, "nvlinks", ()),
    ({"nvlinks": 0}, "nvlinks", ()),
]


@pytest.mark.parametrize(("values", "place", "wanted"), CHANGED, ids=lambda one: str(one))
def test_a_value_of_the_file_changes_what_it_names_and_nothing_of_the_other_gpu(
    emulation: Emulation, handles: dict[str, Any], values: Values, place: str, wanted: Any
) -> None:
    healthy = health(handles, 1)
    emulation.set(gpus(values))
    found: Any = health(handles)
    for part in place.split("."):
        found = getattr(found, part)
    assert found == wanted
    assert health(handles, 1) == healthy


def test_a_link_that_is_down_and_one_with_errors(
    emulation: Emulation, handles: dict[str, Any]
) -> None:
    values = {"nvlinks": 4, "nvlink all gpu": 1, "nvlink 1": "down", "nvlink 2 recovery": 2}
    emulation.set(gpus({**values, "nvlink 2 replay": 9, "nvlink 3 crc": 5}))
    slot, other = handles
    found = nvlinks(handles[slot], slot)
    assert isinstance(found, tuple)
    assert [link.active for link in found] == [True, False, True, True]
    assert [link.remote_slot for link in found] == [other, None, other, other]
    assert {link.remote for link in found} == {"gpu", None}
    assert [link.recovery_errors for link in found] == [0, None, 2, 0]
    assert [link.replay_errors for link in found] == [0, None, 9, 0]
    assert [link.crc_errors for link in found] == [0, None, 0, 5]


def test_an_error_comes_after_so_many_readings(
    emulation: Emulation, handles: dict[str, Any]
) -> None:
    emulation.set(gpus({"replays": "99 after 2", "nvlink 3 recovery": "1 after 1"}))
    handle = next(iter(handles.values()))
    read = [pynvml.nvmlDeviceGetPcieReplayCounter(handle) for _ in range(4)]
    assert read == [2, 2, 99, 99]
    counter = pynvml.NVML_NVLINK_ERROR_DL_RECOVERY
    read = [pynvml.nvmlDeviceGetNvLinkErrorCounter(handle, 3, counter) for _ in range(3)]
    assert read == [0, 1, 1]


def test_a_copy_of_the_gpu_raises_its_generation_and_its_clocks(
    emulation: Emulation, handles: dict[str, Any]
) -> None:
    emulation.set(gpus({"clock limits": "0x40"}, {"clock limits": "0x40"}))
    with a_copy():
        busy, idle = health(handles), health(handles, 1)
    assert busy.pcie == PcieLink(generation=5, width=16, max_generation=5, max_width=16, replays=2)
    assert (busy.clocks.graphics_mhz, busy.clock_limits) == (1980, ("hw_thermal",))
    assert (idle.pcie.generation, idle.clocks.graphics_mhz) == (1, 345)
    assert idle.clock_limits == ("idle", "hw_thermal")


def test_a_link_that_does_not_rise_under_load(
    emulation: Emulation, handles: dict[str, Any]
) -> None:
    emulation.set(gpus({"pcie generation load": 3, "clock graphics mhz": 700}))
    with a_copy():
        found = health(handles)
    assert (found.pcie.generation, found.clocks.graphics_mhz) == (3, 700)


def test_what_two_gpus_can_do_is_each_ones_own(
    emulation: Emulation, handles: dict[str, Any]
) -> None:
    refused = {"peer read": "chipset_not_supported", "peer nvlink": "not_supported"}
    emulation.set(gpus({}, refused))
    first, second = peers(handles)
    assert (first.read, first.write, first.nvlink) == ("ok", "ok", "ok")
    assert (second.read, second.write, second.nvlink) == (
        "chipset not supported",
        "ok",
        "not supported",
    )


@pytest.mark.parametrize(("confidential", "feature"), [(False, 0), (True, 1)])
def test_confidential_computing_is_the_drivers(
    emulation: Emulation, handles: dict[str, Any], confidential: bool, feature: int
) -> None:
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlSystemGetConfComputeState()
    Config(h200s(2), confidential=confidential).write(emulation.path)
    assert pynvml.nvmlSystemGetConfComputeState().ccFeature == feature
    assert len(handles) == 2


def test_a_gpu_is_found_by_its_uuid_unless_it_is_gone(
    emulation: Emulation, handles: dict[str, Any]
) -> None:
    one, other = h200s(2)
    found = pynvml.nvmlDeviceGetHandleByUUID(other.uuid.encode())
    assert pynvml.nvmlDeviceGetUUID(found) == other.uuid
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetHandleByUUID(b"GPU-0")
    emulation.set(gpu_faults={0: Faults(gone=True)})
    for find, name in (
        (pynvml.nvmlDeviceGetHandleByUUID, one.uuid.encode()),
        (pynvml.nvmlDeviceGetHandleByPciBusId, one.slot.encode()),
    ):
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            find(name)
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        health(handles)
    assert health(handles, 1).vbios == "96.00.A5.00.1A"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("recovery action = repair", "expected one of: none reset reboot"),
        ("row remap pending = 2", "expected a number from 0 to 1"),
        ("ecc volatile = 1", "unknown key ecc volatile in [gpu 0]"),
        ("nvlink 18 = down", "expected a number from 0 to 17"),
        ("nvlink 3 = broken", "expected one of: down up"),
        ("nvlink 3 speeds = 1", "an NVLink has no speeds; known: gpu, version"),
        ("replays = 3 after", "after needs a number: how many readings"),
        ("clock limits = 0xx", "expected a number from 0 to 511"),
    ],
)
def test_a_wrong_value_is_named(
    emulation: Emulation,
    handles: dict[str, Any],
    capfd: pytest.CaptureFixture[str],
    line: str,
    complaint: str,
) -> None:
    assert len(handles) == 2
    emulation.write(Config(h200s(1)).text().replace("[verbs]", f"{line}\n[verbs]"))
    with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
        pynvml.nvmlDeviceGetCount()
    assert re.search(re.escape(complaint), capfd.readouterr().err)
