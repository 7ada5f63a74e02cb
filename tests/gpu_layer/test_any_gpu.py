"""What holds on any GPU, on the emulated one."""

from __future__ import annotations

from tests.gpu_layer.bodies import AnyGpu


class TestOnTheEmulatedGpu(AnyGpu):
    """The real cuda-python on the emulated driver."""
