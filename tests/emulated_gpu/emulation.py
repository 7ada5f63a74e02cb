"""What the tests of the emulated driver share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cuda.bindings import driver

from lab.emulated_gpu import loaded
from lab.emulated_gpu.config import Config, EmulatedGpu, Faults, h200s
from lab.paths import REPOSITORY

# What a real driver says of device memory, as CUpointer_attribute numbers.
MEMORY_TYPE, IS_MANAGED, ORDINAL, RANGE_START, RANGE_SIZE, GDR_CAPABLE = 2, 8, 9, 11, 12, 15
DMABUF = 1
PLAIN, PCIE = 0, 1
_DEADLINE_S = 60


class Emulation:
    """The file that describes the GPUs of a test."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def set(
        self,
        gpus: Sequence[EmulatedGpu] | None = None,
        *,
        faults: Faults | None = None,
        gpu_faults: dict[int, Faults] | None = None,
        cuda_version: int = 13000,
    ) -> None:
        """Two small H200s, unless told otherwise."""
        Config(
            h200s(2, memory_mib=64) if gpus is None else gpus,
            cuda_version=cuda_version,
            faults=faults or Faults(),
            gpu_faults=gpu_faults or {},
        ).write(self.path)

    def write(self, text: str) -> None:
        """Any text in place of the file."""
        draft = self.path.with_name("draft")
        draft.write_text(text)
        draft.replace(self.path)

    def run(self, program: str) -> subprocess.CompletedProcess[str]:
        """A Python program in a process of its own, with the emulated driver and ``driver``."""
        return subprocess.run(
            [sys.executable, "-c", f"from cuda.bindings import driver\n{program}"],
            env={**os.environ, **loaded.environment(self.path)},
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
        )


def status(function: Callable[..., Any], *arguments: Any) -> int:
    """What a call returned."""
    return int(function(*arguments)[0])


def result(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a call that must succeed gave."""
    returned, *values = function(*arguments)
    assert int(returned) == 0, f"{function.__name__}: {returned}"
    return values[0] if len(values) == 1 else tuple(values)


def attribute(number: int, pointer: Any) -> Any:
    """A CUpointer_attribute of an address."""
    return result(driver.cuPointerGetAttribute, driver.CUpointer_attribute(number), pointer)


def export(pointer: int, length_bytes: int, flags: int = PLAIN) -> tuple[int, Any]:
    """The status and the descriptor of an export as a dma-buf."""
    kind = driver.CUmemRangeHandleType(DMABUF)
    returned, fd = driver.cuMemGetHandleForAddressRange(pointer, length_bytes, kind, flags)
    return int(returned), fd


def write(pointer: int, data: bytes) -> None:
    """Bytes into memory of the GPU."""
    result(driver.cuMemcpyHtoD, pointer, data, len(data))


def read(pointer: int, length_bytes: int) -> bytes:
    """Bytes from memory of the GPU."""
    data = bytearray(length_bytes)
    result(driver.cuMemcpyDtoH, data, pointer, length_bytes)
    return bytes(data)
