"""Pages of host memory locked for copies."""

from __future__ import annotations

import mmap

import pytest

from gdrcheck.gpu.buffers import allocate
from gdrcheck.gpu.context import Gpu
from gdrcheck.gpu.engine import engine_of
from gdrcheck.gpu.errors import CudaError
from gdrcheck.gpu.locking import page_locked
from gdrcheck.pattern import Key
from gdrcheck.verbs.buffer import allocate as allocate_host

KEY = Key(1, 2, 3, 4)


def test_memory_that_begins_inside_a_page_is_locked_and_copied_to(gpu: Gpu) -> None:
    host = allocate_host(3 * mmap.PAGESIZE)
    piece = host[77 : 77 + mmap.PAGESIZE]
    with allocate(gpu, len(piece)) as buffer:
        engine_of(gpu).fill(buffer, KEY, 0, len(piece))
        # Twice: it is let go at the end of the block.
        for _ in range(2):
            with page_locked(gpu, piece):
                gpu.device_to_host(buffer.address, piece)
    assert piece.tobytes() == KEY.stream.piece(0, len(piece)).tobytes()


def test_what_is_locked_already_is_refused_by_name(gpu: Gpu) -> None:
    host = allocate_host(mmap.PAGESIZE)
    with (
        page_locked(gpu, host),
        pytest.raises(CudaError, match=r"cuMemHostRegister of 4 KiB of host memory for .*ALREADY"),
        page_locked(gpu, host[:1]),
    ):
        pass
