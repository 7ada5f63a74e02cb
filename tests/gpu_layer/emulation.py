"""The emulated driver in this process, and the file that tells it what to be."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gdrcheck.gpu.compat import driver
from gdrcheck.gpu.context import Gpu, open_gpu
from gdrcheck.gpu.devices import enumerate_gpus, start
from lab.emulated_gpu.config import Config, h200s

SLOTS = tuple(gpu.slot for gpu in h200s(2))


class Emulation:
    """The file of the emulated driver: ``set`` writes it anew."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def set(
        self,
        *,
        gpus: int = 2,
        cuda: int = 13000,
        attributes: Mapping[int, int | None] | None = None,
        faults: Sequence[str] = (),
        faults_of: Mapping[int, Sequence[str]] | None = None,
    ) -> None:
        """``attributes`` are those of every GPU, None one that the driver does not know.

        ``faults`` are lines as the file has them, ``faults_of`` those of single GPUs.
        """
        there = [replace(gpu, attributes=attributes or {}) for gpu in h200s(gpus)]
        text = Config(gpus=there, cuda_version=cuda).text()
        # Its last section is that of the faults.
        lines = list(faults)
        for number, of_gpu in (faults_of or {}).items():
            lines += [f"[faults gpu {number}]", *of_gpu]
        new = self.path.with_suffix(".new")
        new.write_text(text + "".join(f"{line}\n" for line in lines))
        # The clock of the file system is too coarse for two versions in a row.
        os.utime(new, ns=(time.time_ns(), time.time_ns()))
        new.replace(self.path)

    @contextmanager
    def opened(
        self, *, cuda: int = 13000, attributes: Mapping[int, int | None] | None = None
    ) -> Iterator[Gpu]:
        """The first GPU of such a driver, open."""
        self.set(cuda=cuda, attributes=attributes)
        start()
        with open_gpu(enumerate_gpus()[0]) as gpu:
            yield gpu


def release_contexts() -> None:
    """Gives back every context of this process that a test could not give back; none is current."""
    while int(driver.cuCtxGetCurrent()[1] or 0):
        driver.cuCtxSetCurrent(driver.CUcontext(0))
    for ordinal in range(len(SLOTS)):
        status, handle = driver.cuDeviceGet(ordinal)
        while not int(status):
            (status,) = driver.cuDevicePrimaryCtxRelease(handle)
