"""The GPUs as CUDA shows them, against what NVML says of the same machine."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest

from gdrcheck.facts import Facts, Nvml
from gdrcheck.gpu.buffers import allocate, prove
from gdrcheck.gpu.context import Gpu, open_gpu
from gdrcheck.gpu.devices import Driver, GpuDevice, find
from gdrcheck.gpu.export import export
from tests.gpu_layer.bodies import AnyGpu

pytestmark = pytest.mark.gpu

MIB = 1 << 20


class TestTheFirst(AnyGpu):
    """All that holds on any GPU."""


def test_the_driver_is_a_real_one(driver: Driver, facts: Facts) -> None:
    assert not driver.emulated
    assert not facts.emulated


def test_cuda_and_nvml_see_the_same_driver(driver: Driver, facts: Facts) -> None:
    assert isinstance(facts.nvml, Nvml), facts.nvml
    assert facts.nvml.cuda_version == "{}.{}".format(*driver.cuda)


def test_each_gpu_of_nvml_is_found_by_its_uuid(
    devices: tuple[GpuDevice, ...], facts: Facts
) -> None:
    assert isinstance(facts.nvml, Nvml), facts.nvml
    for seen in facts.nvml.gpus:
        assert isinstance(seen.uuid, str)
        device = find(devices, slot="ffff:ff:ff.0", uuids=[seen.uuid])
        assert device is not None, f"CUDA does not show {seen.uuid}"
        assert device.slot == seen.slot
        assert device.name == seen.model


def test_what_a_gpu_says_of_dmabuf_is_true(gpu: Gpu) -> None:
    assert gpu.device.attributes.dmabuf is True
    with allocate(gpu, MIB) as buffer, export(buffer, 0, MIB) as exported:
        assert exported.fd >= 0


def test_every_attribute_is_known_to_this_driver(devices: tuple[GpuDevice, ...]) -> None:
    for device in devices:
        attributes = device.attributes
        values = (attributes.gdr, attributes.gdr_vmm, attributes.dmabuf)
        assert None not in (*values, attributes.flush_options, attributes.writes_ordering)


def test_all_gpus_hold_and_export_memory_of_their_own(devices: tuple[GpuDevice, ...]) -> None:
    """All open at the same time: each buffer is on its own GPU, whichever context is current."""
    with ExitStack() as stack:
        gpus = [stack.enter_context(open_gpu(device)) for device in devices]
        buffers = [stack.enter_context(allocate(gpu, MIB)) for gpu in gpus]
        for number, buffer in enumerate(buffers):
            buffer.gpu.host_to_device(buffer.address, np.full(MIB, number + 1, dtype=np.uint8))
        for number, buffer in reversed(list(enumerate(buffers))):
            proof = prove(buffer)
            assert proof.gpu_memory, proof.text()
            assert proof.ordinal == devices[number].ordinal
            with export(buffer, 0, MIB):
                back = np.zeros(MIB, dtype=np.uint8)
                buffer.gpu.device_to_host(buffer.address, back)
            assert set(back.tolist()) == {number + 1}
