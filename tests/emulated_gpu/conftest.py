"""The real cuda-python on the emulated driver, in the tests' own process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cuda.bindings import driver

from lab.emulated_gpu import loaded
from lab.emulated_gpu.config import VARIABLE
from tests.emulated_gpu.emulation import Emulation, result


@pytest.fixture
def emulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Emulation:
    """Two healthy GPUs, and CUDA initialised."""
    emulation = Emulation(tmp_path / "gpus.conf")
    emulation.set()
    # Other tests of this process have a file of their own.
    monkeypatch.setenv(VARIABLE, str(emulation.path))
    loaded.in_process(emulation.path)
    result(driver.cuInit, 0)
    # Whatever tests of this process came before: their contexts are not this one's.
    while int(result(driver.cuCtxGetCurrent)):
        result(driver.cuCtxSetCurrent, driver.CUcontext(0))
    return emulation


@pytest.fixture
def context(emulation: Emulation) -> Iterator[Any]:
    """The context of GPU 0, current."""
    made = result(driver.cuDevicePrimaryCtxRetain, 0)
    result(driver.cuCtxPushCurrent, made)
    yield made
    emulation.set()
    result(driver.cuCtxPopCurrent)
    result(driver.cuDevicePrimaryCtxRelease, 0)
