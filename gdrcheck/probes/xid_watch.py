"""``python -m gdrcheck.probes.xid_watch FILE``: writes each XID that the driver reports to FILE.

A process of its own for the length of a run: waiting for the driver may hang, and whoever started
it ends it. After each wait it renews the file's time, so that a reader knows it from one that hangs
or is dead. Source: NVML API reference, event handling methods; nvmlEventTypeXidCriticalError.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from gdrcheck.xids import MAX_XIDS, UNKNOWN, Line, WatchBegun, WatchTrouble, XidSeen, written

try:
    import pynvml

    from gdrcheck.probes.nvml_ask import slot_of, started, words
except ImportError as error:
    MISSING = f"the Python package nvidia-ml-py: {error}"
else:
    MISSING = ""

# How long one wait for the driver lasts: the file's time is as old as that at most.
WAIT_MS = 1000


def main() -> int:
    """Watches until it is ended; returns 1 when it cannot, which the file then says."""
    path = Path(sys.argv[1])
    with path.open("x") as stream:
        path.chmod(0o644)
        return watch(_Writer(stream))


class _Writer:
    """Writes lines at once, so that none is lost when this process is killed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, line: Line) -> None:
        self._stream.write(written(line))
        self._stream.flush()

    def trouble(self, problem: str) -> None:
        self.write(WatchTrouble(time=_now(), problem=problem))

    def alive(self) -> None:
        """Renews the file's time."""
        os.utime(self._stream.fileno())


def watch(writer: _Writer) -> int:
    """Watches all GPUs; returns 1, after a line that says why, when NVML does not let it go on."""
    if MISSING:
        writer.trouble(f"NVML cannot be asked: {MISSING}")
        return 1
    try:
        with started(), _events() as events:
            slots = _register(events, writer)
            if slots:
                _follow(events, slots, writer)
    except pynvml.NVMLError as error:
        writer.trouble(f"NVML: {words(error)}")
    return 1


@contextmanager
def _events() -> Iterator[Any]:
    events = pynvml.nvmlEventSetCreate()
    try:
        yield events
    finally:
        pynvml.nvmlEventSetFree(events)


def _register(events: Any, writer: _Writer) -> dict[int, str]:
    """The slots of the GPUs that are watched, by their handles' addresses."""
    slots: dict[int, str] = {}
    refused: dict[str, str] = {}
    for index in range(pynvml.nvmlDeviceGetCount()):
        place = f"index {index}"
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            place = slot_of(pynvml.nvmlDeviceGetPciInfo(handle).busId)
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
        except (pynvml.NVMLError, ValueError) as error:
            refused[place] = f"NVML: {words(error)}"
        else:
            slots[_address(handle)] = place
    writer.write(WatchBegun(time=_now(), watched=tuple(slots.values()), refused=refused))
    return slots


def _follow(events: Any, slots: dict[int, str], writer: _Writer) -> None:
    """Writes what comes, until NVML refuses or there is too much of it."""
    for _ in range(MAX_XIDS):
        event = _next(events, writer)
        slot = slots.get(_address(event.device), UNKNOWN)
        writer.write(XidSeen(time=_now(), slot=slot, xid=event.eventData))
    writer.trouble(f"more than {MAX_XIDS} XIDs: those after them are not listed")


def _next(events: Any, writer: _Writer) -> Any:
    """The next event, however long it takes; NVMLError when NVML lets nobody wait any more."""
    while True:
        writer.alive()
        try:
            return pynvml.nvmlEventSetWait_v2(events, WAIT_MS)
        except pynvml.NVMLError_Timeout:
            continue


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    sys.exit(main())
