"""What NVML says of one GPU at this moment, asked in this process while that uses the GPU.

Imports NVIDIA's binding: ImportError where it is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pynvml

from gdrcheck import steps
from gdrcheck.gpu_load import GpuGone, GpuNow
from gdrcheck.outcome import ProbeError
from gdrcheck.probes import nvml_health
from gdrcheck.probes.nvml_ask import GONE, started, words


@contextmanager
def asking(slot: str) -> Iterator[Callable[[], GpuNow]]:
    """A function that asks NVML about the GPU at ``slot``, until the block ends.

    It raises GpuGone when the GPU does not answer any more. ProbeError when NVML does not start, or
    has no handle of the GPU.
    """
    with ExitStack() as stack:
        with steps.step(f"start NVML for {slot}"):
            try:
                stack.enter_context(started())
                handle = pynvml.nvmlDeviceGetHandleByPciBusId(slot)
            except pynvml.NVMLError as error:
                if isinstance(error, GONE):
                    raise GpuGone(f"{slot}: {words(error)}", step=f"find {slot}") from error
                raise ProbeError(f"{slot}: NVML: {words(error)}", step=f"find {slot}") from error
        yield lambda: _now(handle, slot)


def _now(handle: Any, slot: str) -> GpuNow:
    what = f"NVML about {slot}"
    with steps.step(what):
        try:
            return GpuNow(
                pcie=nvml_health.pcie(handle, slot),
                clocks=nvml_health.clocks(handle, slot),
                clock_limits=nvml_health.clock_limits(handle, slot),
                power=nvml_health.power(handle, slot),
                temperature=nvml_health.temperature(handle, slot),
            )
        except GONE as error:
            raise GpuGone(f"{slot}: {words(error)}", step=what) from error
