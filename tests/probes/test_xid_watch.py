"""The watcher of XIDs: NVIDIA's real binding, and below it a library in Python."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pynvml
import pytest

from gdrcheck import xids
from gdrcheck.probes import xid_watch
from gdrcheck.probes.xids import SILENT_S, read_watch
from gdrcheck.xids import MAX_XIDS, XidWatch
from tests.probes.fake_nvml import OK, FakeGpu, FakeLibrary

FIRST, SECOND = "0000:1b:00.0", "0000:1c:00.0"
GPUS = (FakeGpu(), FakeGpu(bus_id=b"00000000:1C:00.0"))
XID_EVENTS = 8
TIMEOUT, END = int(pynvml.NVML_ERROR_TIMEOUT), int(pynvml.NVML_ERROR_UNKNOWN)
Event = int | tuple[int, int]


class EventLibrary(FakeLibrary):
    """With events: each wait ends with a status, or with the number of a GPU and an XID."""

    def __init__(self, *gpus: FakeGpu, events: Sequence[Event] = (), **errors: int) -> None:
        super().__init__(*(gpus or GPUS), errors=errors)
        self.events = list(events)
        self.registered: list[int] = []
        self.sets = 0

    def nvmlEventSetCreate(self, events: Any) -> None:
        self._point(events, 7)
        self.sets += 1

    def nvmlEventSetFree(self, _events: Any) -> None:
        self.sets -= 1

    def nvmlDeviceRegisterEvents(self, handle: Any, kinds: Any, _events: Any) -> None:
        assert kinds.value == XID_EVENTS
        self.registered.append(self._number(handle))

    def nvmlEventSetWait_v2(self, _events: Any, data: Any, _timeout_ms: Any) -> int:
        event = self.events.pop(0) if self.events else END
        if isinstance(event, int):
            return event
        number, xid = event
        handle = ctypes.cast(ctypes.c_void_p(0x1000 + number), pynvml.c_nvmlDevice_t)
        self._fill(data, device=handle, eventType=XID_EVENTS, eventData=xid)
        return int(OK)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "xids.jsonl"


def watched(path: Path, library: EventLibrary, monkeypatch: pytest.MonkeyPatch) -> XidWatch:
    """What the watcher leaves in the file until NVML lets it go on no more."""
    library.install(monkeypatch)
    monkeypatch.setattr(sys, "argv", ["xid_watch", str(path)])
    assert xid_watch.main() == 1
    assert library.sets == 0
    return read_watch(path)


def test_each_xid_is_written_with_its_gpu(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = EventLibrary(events=[TIMEOUT, (1, 79), TIMEOUT, TIMEOUT, (0, 31), (1, 45)])
    watch = watched(path, library, monkeypatch)
    assert library.registered == [0, 1]
    assert watch.begun is not None
    assert watch.begun.watched == (FIRST, SECOND)
    assert [one.xid for one in watch.of(SECOND)] == [79, 45]
    assert [one.xid for one in watch.of(FIRST)] == [31]
    # How it ended here is told as well: silence from then on proves nothing.
    assert watch.problems == ("NVML: NVML_ERROR_UNKNOWN (999): Unknown Error",)
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_gpu_that_cannot_be_watched_is_told_and_the_other_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = FakeGpu(errors={"nvmlDeviceRegisterEvents": int(pynvml.NVML_ERROR_NOT_SUPPORTED)})
    watch = watched(path, EventLibrary(refusing, GPUS[1], events=[(1, 31)]), monkeypatch)
    assert watch.begun is not None
    assert watch.begun.watched == (SECOND,)
    refused = watch.refused(FIRST)
    assert refused is not None
    assert "NVML_ERROR_NOT_SUPPORTED" in refused
    assert [one.xid for one in watch.of(SECOND)] == [31]


@pytest.mark.parametrize(
    "name", ["nvmlInitWithFlags", "nvmlEventSetCreate", "nvmlDeviceGetCount_v2"]
)
def test_what_keeps_it_from_starting_is_told(
    name: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = EventLibrary(**{name: int(pynvml.NVML_ERROR_NO_PERMISSION)})
    watch = watched(path, library, monkeypatch)
    assert watch.begun is None
    assert "NVML_ERROR_NO_PERMISSION" in str(watch.doubt(FIRST))


def test_without_the_binding_it_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xid_watch, "MISSING", "the Python package nvidia-ml-py: it is not there")
    watch = watched(path, EventLibrary(), monkeypatch)
    assert "it is not there" in str(watch.doubt(FIRST))


def test_an_xid_of_a_gpu_that_was_not_registered_is_a_doubt_about_all(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = watched(path, EventLibrary(GPUS[0], events=[(9, 79)]), monkeypatch)
    assert [one.xid for one in watch.of(xids.UNKNOWN)] == [79]
    assert "no slot" in str(watch.doubt(FIRST))


def test_a_gpu_in_a_loop_of_faults_does_not_fill_the_disk(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = watched(path, EventLibrary(events=[(0, 31)] * (2 * MAX_XIDS)), monkeypatch)
    assert len(watch.seen) == MAX_XIDS
    assert watch.problems == (f"more than {MAX_XIDS} XIDs: those after them are not listed",)


def test_each_wait_renews_the_time_of_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(EventLibrary):
        def nvmlEventSetWait_v2(self, _events: Any, data: Any, timeout_ms: Any) -> int:
            ages.append(time.time() - path.stat().st_mtime)
            os.utime(path, (0, 0))
            return super().nvmlEventSetWait_v2(_events, data, timeout_ms)

    ages: list[float] = []
    watched(path, Slow(events=[TIMEOUT, TIMEOUT]), monkeypatch)
    assert len(ages) == 3
    assert max(ages) < SILENT_S


def test_an_older_file_is_not_taken_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("")
    with pytest.raises(FileExistsError):
        watched(path, EventLibrary(), monkeypatch)
