"""All codes, by name. A new code is one entry in the module of its area."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gdrcheck.findings import (
    differences,
    drv,
    fabric,
    gpu,
    gpu_cuda,
    gpu_health,
    gpu_links,
    gpu_memory,
    gpu_settings,
    host,
    mr,
    mr_dmabuf,
    mr_gpu,
    mr_move,
    mr_peermem,
    pair,
    pair_ends,
    pair_gpu,
    pair_numbers,
    pci,
    port,
    port_counters,
    port_settings,
    run,
)
from gdrcheck.findings.model import Entry
from gdrcheck.nearest import did_you_mean
from gdrcheck.outcome import InputError

AREAS = (
    *(host, drv, gpu, gpu_cuda, gpu_memory, gpu_health, gpu_settings, gpu_links, pci),
    *(port, port_settings, port_counters),
    fabric,
    *(mr, mr_dmabuf, mr_peermem, mr_gpu, mr_move),
    *(pair, pair_ends, pair_gpu, pair_numbers, differences, run),
)

ENTRIES: tuple[Entry, ...] = tuple(found for area in AREAS for found in area.ENTRIES)
ENTRIES_BY_CODE: Mapping[str, Entry] = MappingProxyType({one.code: one for one in ENTRIES})


def entry(code: str) -> Entry:
    """The entry of ``code``, in any case. InputError naming the nearest code if there is none."""
    found = ENTRIES_BY_CODE.get(code.upper())
    if found is None:
        raise InputError(
            f"{code} is no code; expected one of gdrcheck explain --list"
            f"{did_you_mean(code, ENTRIES_BY_CODE)}"
        )
    return found
