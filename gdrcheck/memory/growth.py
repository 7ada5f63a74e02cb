"""Whether registering again and again leaves something behind, or takes longer and longer."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from statistics import median

from gdrcheck import steps
from gdrcheck.gpu.buffers import Buffer
from gdrcheck.memory.recorder import Recorder
from gdrcheck.memory.registering import Range, Registrar
from gdrcheck.registration import Growth

TIMES = 64
LENGTH_BYTES = 64 << 10
# So many rounds fill the caches of the libraries, which is no growth; as many at either end of the
# measured rounds make the times that are compared.
_WARM_UP = 8
# So often something must be left behind again before it counts.
_AGAIN = 2
_PAGE_BYTES = os.sysconf("SC_PAGESIZE")


def measure_growth(registrar: Registrar, buffer: Buffer, times: int = TIMES) -> Growth:
    """Register the first 64 KiB of the buffer ``times`` times over, each undone before the next.

    ``first_us`` and ``last_us`` are medians of several rounds. When something is left behind, all
    of it is done again, and the last is returned: what other processes take of the GPU meanwhile,
    or a library keeps, does not come again each time; a leak does. Stopped when a round is refused.
    """
    place = Range("whole", 0, min(LENGTH_BYTES, buffer.length_bytes))
    with steps.only(
        f"register and deregister {buffer.name} with {registrar.device.name} by "
        f"{registrar.method}, {times} times"
    ):
        for _ in range(_WARM_UP):
            _once(registrar, buffer, place)
        growth = _measured(registrar, buffer, place, times)
        for _ in range(_AGAIN):
            if not growth.left:
                break
            growth = _measured(registrar, buffer, place, times)
    return growth


def _measured(registrar: Registrar, buffer: Buffer, place: Range, times: int) -> Growth:
    before = _state(registrar.recorder, buffer)
    rounds = [_once(registrar, buffer, place) for _ in range(times)]
    after = _state(registrar.recorder, buffer)
    return Growth(
        times=times,
        fds_before=before[0],
        fds_after=after[0],
        rss_before_bytes=before[1],
        rss_after_bytes=after[1],
        free_before_bytes=before[2],
        free_after_bytes=after[2],
        first_us=median(rounds[:_WARM_UP]),
        last_us=median(rounds[-_WARM_UP:]),
    )


def _once(registrar: Registrar, buffer: Buffer, place: Range) -> float:
    with registrar.registered(buffer, place) as made:
        pass
    return made.held.opened_us


def _state(recorder: Recorder, buffer: Buffer) -> tuple[int, int, int]:
    """Open descriptors, resident memory of this process, free memory of the GPU."""
    with recorder.stage("repeat", "whole", buffer.length_bytes):
        free_bytes, _ = buffer.gpu.memory_info()
    gc.collect()
    resident_pages = int(Path("/proc/self/statm").read_text().split()[1])
    # Listing opens one of its own.
    return len(os.listdir("/proc/self/fd")) - 1, resident_pages * _PAGE_BYTES, free_bytes
