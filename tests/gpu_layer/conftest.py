"""The real cuda-python on the emulated driver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gdrcheck.gpu.context import Gpu
from lab.emulated_gpu import loaded
from tests.gpu_layer.emulation import Emulation


@pytest.fixture(scope="session")
def _emulated_driver(tmp_path_factory: pytest.TempPathFactory) -> Emulation:
    emulation = Emulation(tmp_path_factory.mktemp("emulated-gpu") / "gpus.conf")
    emulation.set()
    loaded.in_process(emulation.path)
    return emulation


@pytest.fixture
def emulation(_emulated_driver: Emulation) -> Iterator[Emulation]:
    """The emulated driver, healthy again after the test."""
    yield _emulated_driver
    _emulated_driver.set()


@pytest.fixture
def gpu(emulation: Emulation) -> Iterator[Gpu]:
    """An emulated GPU, open."""
    with emulation.opened() as opened:
        yield opened
