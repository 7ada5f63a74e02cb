"""What a real driver says of memory that looks like GPU memory and must not pass for it."""

from __future__ import annotations

import pytest

from gdrcheck.gpu import buffers
from gdrcheck.gpu.buffers import allocate, prove
from gdrcheck.gpu.context import Gpu
from gdrcheck.gpu.export import export

pytestmark = pytest.mark.gpu

MIB = 1 << 20


def test_managed_memory_calls_itself_device_memory(gpu: Gpu) -> None:
    """The trap: the memory type alone would let it through."""
    with allocate(gpu, MIB, "managed") as buffer:
        proof = prove(buffer)
    assert proof.memory_type == "device"
    assert not proof.gpu_memory
    assert "managed, on device" in proof.text()


def test_vmm_memory_without_the_flag_exports_and_is_not_capable(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: that a range exports does not say that a NIC may reach it."""
    with allocate(gpu, MIB, "gpu-vmm") as buffer:
        assert prove(buffer).gpu_memory
    make = buffers._vmm_properties

    def without_flag(gpu: Gpu) -> object:
        properties = make(gpu)
        properties.allocFlags.gpuDirectRDMACapable = 0
        return properties

    monkeypatch.setattr(buffers, "_vmm_properties", without_flag)
    with allocate(gpu, MIB, "gpu-vmm") as buffer:
        proof = prove(buffer)
        with export(buffer, 0, MIB) as exported:
            assert exported.length_bytes == MIB
    assert proof.memory_type == "device"
    assert not proof.managed
    assert not proof.gdr_capable
    assert not proof.gpu_memory
