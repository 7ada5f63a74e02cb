"""The pattern engine on a real GPU: as on the emulated one, large buffers, and its speed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks import gpu_verify
from gdrcheck.gpu.buffers import allocate
from gdrcheck.gpu.context import Gpu
from gdrcheck.gpu.engine import engine_of
from tests.gpu.room import need
from tests.gpu_layer.engine_bodies import KEY, AnyEngine, agreed, write

pytestmark = pytest.mark.gpu

MIB, GIB = 1 << 20, 1 << 30


class TestTheFirst(AnyEngine):
    """All that holds on any GPU."""


def test_a_flipped_byte_beyond_4_gib_is_found_there(gpu: Gpu) -> None:
    engine = engine_of(gpu)
    length = 4 * GIB + 100 * MIB + 3
    bad = 4 * GIB + 12_345
    need(gpu, length + 1)
    with allocate(gpu, length + 1) as buffer:
        engine.fill(buffer, KEY, 1, length)
        assert engine.gpu_verify_only(buffer, KEY, 1, length) is None
        byte = KEY.stream.piece(bad, 1) ^ np.uint8(1)
        write(buffer, 1 + bad, byte)
        found = engine.gpu_verify_only(buffer, KEY, 1, length)
        assert found is not None
        assert (found.first_bad_offset, found.bad_bytes) == (bad, 1)
        both = agreed(engine.verify(buffer, KEY, 1 + 4 * GIB, 100 * MIB, 4 * GIB))
    assert both.first_bad_offset == bad - 4 * GIB


def test_all_bytes_of_a_large_buffer_are_counted(gpu: Gpu) -> None:
    """Each thread adds to the same counters."""
    engine = engine_of(gpu)
    need(gpu, GIB)
    with allocate(gpu, GIB) as buffer:
        engine.poison(buffer, KEY, 0, GIB)
        found = engine.gpu_verify_only(buffer, KEY, 0, GIB)
    assert found is not None
    assert (found.first_bad_offset, found.bad_bytes) == (0, GIB)
    assert found.looks_like == "poison"


def test_verification_against_a_copy_is_measured(
    gpu: Gpu, record_property: Callable[[str, object], None]
) -> None:
    """The ratio is kept; ``python -m benchmarks.gpu_verify`` judges it, where nothing else runs."""
    need(gpu, 2 * gpu_verify.LENGTH_BYTES)
    rates = gpu_verify.measure(gpu)
    record_property("verification over copy", f"{rates.ratio:.2f}")
    # Every one of them was verified, and no byte was wrong.
    assert tuple(rates.round_trips_us) == gpu_verify.ROUND_TRIPS_BYTES
