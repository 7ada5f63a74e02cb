"""Free memory of a GPU, and what is left out without enough of it: said, never silent."""

from __future__ import annotations

import pytest

from benchmarks.gpu_export import SPARE_BYTES
from gdrcheck.gpu.context import Gpu
from gdrcheck.sizes import size_text


def need(gpu: Gpu, length_bytes: int) -> None:
    """Skip the test, with the reason, unless so much can be allocated beside what is in use."""
    free_bytes, _ = gpu.memory_info()
    if length_bytes + SPARE_BYTES > free_bytes:
        free = free_bytes >> 20
        pytest.skip(f"needs {size_text(length_bytes)} of GPU memory, and {free} MiB are free")
