"""The GPU that the tests run on: the first of this machine, opened once.

There is no GPU, or it does not open: every test fails. Nothing here skips.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gdrcheck import probes
from gdrcheck.facts import Facts
from gdrcheck.gpu.context import Gpu, open_gpu
from gdrcheck.gpu.devices import Driver, GpuDevice, enumerate_gpus, start


@pytest.fixture(scope="session")
def facts() -> Facts:
    return probes.collect("node1")


@pytest.fixture(scope="session")
def driver(facts: Facts) -> Driver:
    # After the probes: they start child processes, and none shall be started once CUDA is open.
    del facts
    return start()


@pytest.fixture(scope="session")
def devices(driver: Driver) -> tuple[GpuDevice, ...]:
    found = enumerate_gpus()
    assert found, f"CUDA {driver.cuda} shows no GPU"
    return found


@pytest.fixture(scope="session")
def gpu(devices: tuple[GpuDevice, ...]) -> Iterator[Gpu]:
    with open_gpu(devices[0]) as opened:
        yield opened
