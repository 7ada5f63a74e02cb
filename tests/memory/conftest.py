"""The real cuda-python on the emulated driver, and a device behind a fake of pyverbs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from gdrcheck import steps
from gdrcheck.gpu.buffers import allocate
from gdrcheck.gpu.context import Gpu
from lab.emulated_gpu import loaded
from lab.emulated_gpu.config import VARIABLE
from tests.gpu_layer.emulation import Emulation
from tests.memory.children import Children, connected
from tests.verbs import fake_pyverbs


@dataclass
class World:
    """One GPU and one NIC, both open, and the modules that know both."""

    gpu: Gpu
    device: Any
    emulation: Emulation
    nic: fake_pyverbs.Nic
    steps: list[str]
    # So many things of the NIC are open when nothing is done.
    at_rest: list[str]

    def load(self, name: str) -> Any:
        """A module of ``gdrcheck.memory`` or ``gdrcheck.verbs``."""
        return fake_pyverbs.load(f"gdrcheck.{name}")


@pytest.fixture(scope="session")
def _emulation(tmp_path_factory: pytest.TempPathFactory) -> Emulation:
    return Emulation(tmp_path_factory.mktemp("memory-emulated-gpu") / "gpus.conf")


@pytest.fixture
def own_emulation(_emulation: Emulation, monkeypatch: pytest.MonkeyPatch) -> Emulation:
    """The emulated driver, healthy; tests of other folders use it with a file of their own."""
    monkeypatch.setenv(VARIABLE, str(_emulation.path))
    _emulation.set()
    loaded.in_process(_emulation.path)
    return _emulation


@pytest.fixture
def world(own_emulation: Emulation) -> Iterator[World]:
    """A healthy world."""
    announced: list[str] = []
    steps.set_sink(announced.append)
    with fake_pyverbs.installed():
        open_device = fake_pyverbs.load("gdrcheck.verbs.device").open_device
        with own_emulation.opened() as gpu, open_device("sim0") as device:
            # The first allocation opens the file that all of the emulated memory is in.
            with allocate(gpu, 4096):
                pass
            announced.clear()
            nic = fake_pyverbs.nic
            yield World(gpu, device, own_emulation, nic, announced, list(nic.alive))
            # So that closing works.
            own_emulation.set()
    steps.set_sink(None)


@pytest.fixture
def pair(own_emulation: Emulation) -> Iterator[Children]:
    """Two connected ends with GPU memory, which may do atomic operations."""
    with connected(own_emulation, atomics=True) as both:
        yield both
