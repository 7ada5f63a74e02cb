"""A process that hangs in the driver is named by its last step: function and GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

from gdrcheck import steps
from gdrcheck.gpu.buffers import allocate, prove
from gdrcheck.gpu.export import export
from gdrcheck.registration import BufferKind
from tests.gpu_layer.bodies import MIB
from tests.gpu_layer.emulation import SLOTS, Emulation


@pytest.fixture
def told() -> Iterator[list[str]]:
    texts: list[str] = []
    steps.set_sink(texts.append)
    yield texts
    steps.set_sink(None)


@pytest.mark.parametrize("kind", ["gpu", "gpu-vmm", "pinned", "managed"])
def test_every_step_on_a_gpu_names_the_function_and_the_gpu(
    emulation: Emulation, told: list[str], kind: BufferKind
) -> None:
    with emulation.opened() as gpu:
        del told[:]
        with allocate(gpu, MIB, kind) as buffer:
            prove(buffer)
            data = np.zeros(4096, dtype=np.uint8)
            gpu.host_to_device(buffer.address, data)
            gpu.device_to_host(buffer.address, data)
            if kind in {"gpu", "gpu-vmm"}:
                with export(buffer, 0, MIB):
                    pass
        gpu.memory_info()
    assert len(told) > 10
    for text in told:
        assert re.match(r"cu[A-Z]\w+", text), text
        assert SLOTS[0] in text
    assert told[-1].startswith("cuDevicePrimaryCtxRelease")


def test_the_start_of_cuda_is_announced(emulation: Emulation, told: list[str]) -> None:
    with emulation.opened():
        pass
    assert told[:3] == ["cuDriverGetVersion", "cuInit", "cuDeviceGetCount"]
