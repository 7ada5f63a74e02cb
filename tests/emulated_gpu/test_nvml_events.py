"""Events of NVML: who has registered is told of an XID, once for each version of the file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pynvml
import pytest

from lab.emulated_gpu.config import Faults, h200s
from tests.emulated_gpu.emulation import Emulation

XID = pynvml.nvmlEventTypeXidCriticalError
SHORT_MS, LONG_MS = 30, 30_000


@pytest.fixture
def events(emulation: Emulation) -> Iterator[Any]:
    """An event set that watches both GPUs."""
    pynvml.nvmlInit()
    made = pynvml.nvmlEventSetCreate()
    for number in range(2):
        handle = pynvml.nvmlDeviceGetHandleByIndex(number)
        assert pynvml.nvmlDeviceGetSupportedEventTypes(handle) & XID
        pynvml.nvmlDeviceRegisterEvents(handle, XID, made)
    yield made
    emulation.set()
    pynvml.nvmlEventSetFree(made)
    pynvml.nvmlShutdown()


def with_xid(emulation: Emulation, number: int, xid: int | str) -> None:
    gpus = list(h200s(2, memory_mib=64))
    gpus[number] = replace(gpus[number], values={"xid": xid})
    emulation.set(gpus)


def told(events: Any, within_ms: int) -> tuple[str, int]:
    """The GPU's UUID and the XID."""
    event = pynvml.nvmlEventSetWait_v2(events, within_ms)
    assert event.eventType == XID
    return pynvml.nvmlDeviceGetUUID(event.device), event.eventData


def test_without_an_event_a_wait_ends_at_its_time(events: Any) -> None:
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait_v2(events, SHORT_MS)


def test_each_version_of_the_file_has_its_event_once(emulation: Emulation, events: Any) -> None:
    for number, xid in ((1, 79), (0, 48), (0, 48)):
        with_xid(emulation, number, xid)
        assert told(events, LONG_MS) == (h200s(2)[number].uuid, xid)
        with pytest.raises(pynvml.NVMLError_Timeout):
            pynvml.nvmlEventSetWait_v2(events, SHORT_MS)


def test_who_waits_already_is_told_at_once(emulation: Emulation, events: Any) -> None:
    found: list[tuple[str, int]] = []
    waits = threading.Thread(target=lambda: found.append(told(events, LONG_MS)))
    waits.start()
    with_xid(emulation, 1, 94)
    waits.join(LONG_MS / 1000)
    assert found == [(h200s(2)[1].uuid, 94)]


def test_an_event_comes_after_so_many_waits(emulation: Emulation, events: Any) -> None:
    with_xid(emulation, 0, "31 after 2")
    for _ in range(2):
        with pytest.raises(pynvml.NVMLError_Timeout):
            pynvml.nvmlEventSetWait_v2(events, SHORT_MS)
    assert told(events, SHORT_MS) == (h200s(2)[0].uuid, 31)


def test_a_gpu_that_is_not_watched_has_no_events(emulation: Emulation, events: Any) -> None:
    other = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(pynvml.nvmlDeviceGetHandleByIndex(0), XID, other)
    with_xid(emulation, 1, 79)
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait_v2(other, SHORT_MS)
    pynvml.nvmlEventSetFree(other)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlEventSetWait_v2(other, SHORT_MS)
    assert told(events, SHORT_MS)[1] == 79


def test_a_watcher_that_cannot_begin_or_wait(emulation: Emulation, events: Any) -> None:
    refused = Faults(
        fail={
            "nvmlEventSetWait_v2": pynvml.NVML_ERROR_GPU_IS_LOST,
            "nvmlEventSetCreate": pynvml.NVML_ERROR_UNKNOWN,
        }
    )
    emulation.set(
        faults=refused,
        gpu_faults={1: Faults(fail={"nvmlDeviceRegisterEvents": pynvml.NVML_ERROR_NOT_SUPPORTED})},
    )
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlEventSetWait_v2(events, SHORT_MS)
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlEventSetCreate()
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceRegisterEvents(pynvml.nvmlDeviceGetHandleByIndex(1), XID, events)
