"""Registering GPU memory with a NIC by one method: every size, every kind of range, many times."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from gdrcheck.gpu.buffers import Buffer, allocate
from gdrcheck.gpu.context import Gpu
from gdrcheck.memory.growth import measure_growth
from gdrcheck.memory.recorder import Recorder, Stopped
from gdrcheck.memory.registering import (
    Range,
    Registered,
    Registrar,
    insist,
    looked_at,
)
from gdrcheck.memory.sizes import allowed
from gdrcheck.memory.support import support
from gdrcheck.registration import Attempt, Growth, Method, Proof, Region, Support
from gdrcheck.verbs.device import Device

# A page is what first programs register; small allocations lie inside of what the driver maps.
WANTED_BYTES = (4 << 10, 64 << 10, 2 << 20, 1 << 30)
# Buffers of these sizes are also registered in part: smaller ones have no room for it, larger ones
# would only take longer.
_LEAST_PARTS_BYTES, _MOST_PARTS_BYTES = 64 << 10, 2 << 20
# An offset inside of a page, and odd lengths: most bugs of offsets show there.
_UNALIGNED = 12_345


def attempt(
    gpu: Gpu,
    device: Device,
    method: Method,
    *,
    bar1_bytes: int | None,
    bar1_free_bytes: int | None = None,
    wanted_bytes: Sequence[int] = WANTED_BYTES,
) -> Attempt:
    """What became of registering memory of ``gpu`` with ``device`` by ``method``.

    From the smallest size on: the whole allocation of each, in the one of 2 MiB an unaligned range
    and two neighbours at once, in the one of 64 KiB a range many times over. The first refusal
    ends it and is in the result, as is all that worked before. Everything is undone on return:
    region, descriptor, memory. Raises for none of it.
    """
    return _Attempt(gpu, device, method).run(wanted_bytes, bar1_bytes, bar1_free_bytes)


class _Attempt:
    def __init__(self, gpu: Gpu, device: Device, method: Method) -> None:
        self._gpu = gpu
        self._device = device
        self._method: Method = method
        self._recorder = Recorder()
        self._registrar = Registrar(self._recorder, device, method)
        self._sizes: list[int] = []
        self._regions: list[Region] = []
        self._limited_by = ""
        self._proof: Proof | None = None
        self._growth: Growth | None = None
        attributes = gpu.device.attributes
        self._support = Support(None, attributes.dmabuf, attributes.gdr)

    def run(
        self, wanted_bytes: Sequence[int], bar1_bytes: int | None, bar1_free_bytes: int | None
    ) -> Attempt:
        """All steps, and what became of them."""
        with contextlib.suppress(Stopped):
            with self._recorder.stage("probe"):
                self._support = support(self._gpu, self._device)
            with self._recorder.stage("allocate"):
                free_bytes, _ = self._gpu.memory_info()
            sizes, self._limited_by = allowed(wanted_bytes, free_bytes, bar1_bytes, bar1_free_bytes)
            parted = [size for size in sizes if _LEAST_PARTS_BYTES <= size <= _MOST_PARTS_BYTES]
            for size in sizes:
                self._try(
                    size, many_times=size == min(parted or sizes), in_parts=size in parted[-1:]
                )
        return Attempt(
            method=self._method,
            support=self._support,
            sizes_bytes=tuple(self._sizes),
            limited_by=self._limited_by,
            proof=self._proof,
            regions=tuple(self._regions),
            growth=self._growth,
            refusal=self._recorder.refusal,
        )

    def _try(self, size_bytes: int, *, many_times: bool, in_parts: bool) -> None:
        """One allocation of this size and all that is to be done with it."""
        recorder = self._recorder
        self._sizes.append(size_bytes)
        memory = allocate(self._gpu, size_bytes)
        with recorder.held(memory, "allocate", "allocate", "whole", size_bytes) as held:
            buffer = held.resource
            self._proof = looked_at(recorder, buffer)
            insist(recorder, self._proof)
            self._register(buffer, Range("whole", 0, size_bytes))
            if many_times:
                self._growth = measure_growth(self._registrar, buffer)
            if in_parts:
                self._register(buffer, interior(size_bytes))
                self._register(buffer, *neighbours(size_bytes))

    def _register(self, buffer: Buffer, *places: Range) -> None:
        """Register the ranges, all at once, and undo it."""
        made: list[Registered] = []
        try:
            with contextlib.ExitStack() as stack:
                for place in places:
                    one = self._registrar.registered(buffer, place)
                    made.append(stack.enter_context(one))
        finally:
            self._regions.extend(one.region() for one in made)


def interior(buffer_bytes: int) -> Range:
    """A range that neither begins nor ends at a page's border. For buffers from 64 KiB on."""
    return Range("interior", _UNALIGNED, buffer_bytes // 2 + 13)


def neighbours(buffer_bytes: int) -> tuple[Range, Range]:
    """Two ranges that touch inside of a page. For buffers from 64 KiB on."""
    length = buffer_bytes // 4 + 777
    first = Range("first neighbour", _UNALIGNED, length)
    return first, Range("second neighbour", _UNALIGNED + length, length + 2)
