"""What the pattern engine does on any GPU: run on the emulated one here, on a real one elsewhere.

A subclass named ``Test…`` is what pytest collects; it needs a fixture ``gpu``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdrcheck import likeness
from gdrcheck.gpu.buffers import Buffer, allocate
from gdrcheck.gpu.context import Gpu
from gdrcheck.gpu.engine import EVEN, engine_of
from gdrcheck.likeness import Expected
from gdrcheck.mismatch import LooksLike, Mismatch, Verdict
from gdrcheck.outcome import ProbeError
from gdrcheck.pattern import Key
from gdrcheck.registration import BufferKind
from gdrcheck.stream import Bytes

KEY = Key(run_tag=0x1234_5678_9ABC_DEF0, iteration=7, direction=1, source=99)
EARLIER = Key(KEY.run_tag, 6, 1, 99)
NEIGHBOUR = Key(KEY.run_tag, 7, 1, 100)
CAPACITY_BYTES = 20_000
GUARD = 0xA5
PAGE_BYTES = 4096

# The bodies are inherited, and a GPU that was used is as good as a new one.
any_place = settings(
    max_examples=60,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,
    ],
)
lengths = st.one_of(st.integers(1, 70), st.integers(1, 9000))
offsets = st.one_of(st.integers(0, 70), st.integers(0, 9000))
starts = st.one_of(st.integers(0, 70), st.integers(0, 1 << 40))


def content(buffer: Buffer) -> Bytes:
    out = np.zeros(buffer.length_bytes, dtype=np.uint8)
    buffer.gpu.device_to_host(buffer.address, out)
    return out


def write(buffer: Buffer, offset: int, data: Bytes) -> None:
    buffer.gpu.host_to_device(buffer.address + offset, np.ascontiguousarray(data))


def agreed(verdict: Verdict) -> Mismatch:
    """What both verifiers found wrong."""
    assert not verdict.disagree
    assert not verdict.right
    assert verdict.by_gpu is not None
    return verdict.by_gpu


class AnyEngine:
    """Tests that the engine of every GPU passes."""

    @any_place
    @given(lengths, offsets, starts, st.sampled_from(["fill", "poison", "fill_even"]))
    def test_filling_writes_the_stream_and_nothing_beside_it(
        self, gpu: Gpu, length: int, offset: int, start: int, what: str
    ) -> None:
        engine = engine_of(gpu)
        with allocate(gpu, CAPACITY_BYTES) as buffer:
            write(buffer, 0, np.full(CAPACITY_BYTES, GUARD, dtype=np.uint8))
            if what == "fill":
                engine.fill(buffer, KEY, offset, length, start)
            elif what == "poison":
                engine.poison(buffer, KEY, offset, length, start)
            else:
                engine.fill_even(buffer, offset, length, start)
            found = content(buffer)
        right = {"fill": KEY.stream, "poison": KEY.stream.complement(), "fill_even": EVEN}[what]
        assert np.array_equal(found[offset : offset + length], right.piece(start, length))
        assert (found[:offset] == GUARD).all()
        assert (found[offset + length :] == GUARD).all()

    @any_place
    @given(lengths, offsets, starts, st.booleans(), st.data())
    def test_a_flipped_byte_is_found_by_both_and_nothing_else_is(
        self, gpu: Gpu, length: int, offset: int, start: int, plain: bool, data: st.DataObject
    ) -> None:
        engine = engine_of(gpu)
        # The words of the stream lie as those of the memory do: the kernels' fast way.
        start += (offset - start) % 8 if plain else 0
        bad = data.draw(st.integers(0, length - 1))
        with allocate(gpu, CAPACITY_BYTES) as buffer:
            engine.fill(buffer, KEY, offset, length, start)
            assert engine.verify(buffer, KEY, offset, length, start) == Verdict(None, None)
            byte = KEY.stream.piece(start + bad, 1) ^ np.uint8(data.draw(st.integers(1, 255)))
            write(buffer, offset + bad, byte)
            found = agreed(engine.verify(buffer, KEY, offset, length, start))
            assert engine.gpu_verify_only(buffer, KEY, offset, length, start) == found
        assert (found.first_bad_offset, found.bad_bytes) == (bad, 1)

    def test_pieces_that_are_verified_in_one_turn_are_judged_each_for_itself(
        self, gpu: Gpu
    ) -> None:
        engine = engine_of(gpu)
        pieces = [(100, KEY.stream, 7), (1000, KEY.stream.complement(), 0), (3, EVEN, 40)]
        wanted = [(at, Expected(stream, start, 50)) for at, stream, start in pieces]
        with allocate(gpu, CAPACITY_BYTES) as buffer:
            for at, stream, start in pieces:
                write(buffer, at, stream.piece(start, 50))
            assert engine.gpu_verify_pieces(buffer, wanted) == (None, None, None)
            write(buffer, 1000 + 49, np.zeros(1, dtype=np.uint8))
            first, second, third = engine.gpu_verify_pieces(buffer, wanted)
            with pytest.raises(ValueError, match="is not inside"):
                engine.gpu_verify_pieces(buffer, [(CAPACITY_BYTES - 49, wanted[0][1])])
            with pytest.raises(ValueError, match="too many for one turn"):
                engine.gpu_verify_pieces(buffer, wanted * 60)
        assert first is third is None
        assert second is not None
        assert (second.first_bad_offset, second.bad_bytes) == (49, 1)

    @pytest.mark.parametrize("start", [0, 11, (1 << 33) + 5])
    @pytest.mark.parametrize("offset", [0, 1, 15, 4096])
    @pytest.mark.parametrize(
        ("piece", "name"),
        [
            (KEY.stream.complement().piece, "poison"),
            (EARLIER.stream.piece, "previous iteration"),
            (lambda _, length: np.zeros(length, dtype=np.uint8), "zeros"),
            (lambda start, length: KEY.stream.piece(start + 8, length), "shifted"),
            (lambda start, length: KEY.stream.piece(start + 70_001, length), "shifted"),
            (NEIGHBOUR.stream.piece, "neighbour"),
            (lambda start, length: NEIGHBOUR.stream.piece(start + 4097, length), "neighbour"),
            (Key(1, 2, 3, 4).stream.piece, "other"),
        ],
    )
    def test_a_wrong_page_is_named_alike_by_both(
        self,
        gpu: Gpu,
        piece: Callable[[int, int], Bytes],
        name: LooksLike,
        offset: int,
        start: int,
    ) -> None:
        engine = engine_of(gpu)
        length = 3 * PAGE_BYTES + 77
        with allocate(gpu, CAPACITY_BYTES) as buffer:
            engine.fill(buffer, KEY, offset, length, start)
            page = piece(start + PAGE_BYTES, PAGE_BYTES)
            write(buffer, offset + PAGE_BYTES, page)
            verdict = engine.verify(buffer, KEY, offset, length, start, [(NEIGHBOUR, start)])
        found = agreed(verdict)
        different = page != KEY.stream.piece(start + PAGE_BYTES, PAGE_BYTES)
        assert found.looks_like == name
        assert found.bad_bytes == np.count_nonzero(different)
        assert found.first_bad_offset == PAGE_BYTES + int(np.argmax(different))

    def test_a_wrong_last_byte_is_found(self, gpu: Gpu) -> None:
        engine = engine_of(gpu)
        for length in (1, 2, 15, 16, 17, 4096, 4099):
            with allocate(gpu, CAPACITY_BYTES) as buffer:
                engine.fill(buffer, KEY, 5, length)
                write(buffer, 5 + length - 1, KEY.stream.piece(length - 1, 1) ^ np.uint8(1))
                found = agreed(engine.verify(buffer, KEY, 5, length))
            assert (found.first_bad_offset, found.bad_bytes) == (length - 1, 1)

    def test_a_shifted_buffer_is_called_shifted(self, gpu: Gpu) -> None:
        engine = engine_of(gpu)
        with allocate(gpu, CAPACITY_BYTES) as buffer:
            engine.fill(buffer, KEY, 0, CAPACITY_BYTES, start=3)
            found = agreed(engine.verify(buffer, KEY, 0, CAPACITY_BYTES))
        assert found.looks_like == "shifted"

    def test_a_range_of_several_chunks_is_seen_whole_by_both(self, gpu: Gpu) -> None:
        engine = engine_of(gpu)
        length = 2 * likeness.CHUNK_BYTES + 33
        with allocate(gpu, length + 7) as buffer:
            engine.fill(buffer, KEY, 7, length)
            assert engine.verify(buffer, KEY, 7, length).right
            # From the end of one chunk into the next.
            bad = likeness.CHUNK_BYTES - 20
            write(buffer, 7 + bad, np.zeros(100, dtype=np.uint8))
            write(buffer, 7 + length - 1, np.zeros(1, dtype=np.uint8))
            found = agreed(engine.verify(buffer, KEY, 7, length))
        assert found.looks_like == "zeros"
        assert bad <= found.first_bad_offset < bad + 3
        assert 95 <= found.bad_bytes <= 101

    @pytest.mark.parametrize("kind", ["gpu", "gpu-vmm", "pinned"])
    def test_memory_of_every_kind_is_filled_and_verified(self, gpu: Gpu, kind: BufferKind) -> None:
        engine = engine_of(gpu)
        with allocate(gpu, CAPACITY_BYTES, kind) as buffer:
            engine.fill(buffer, KEY, 1, CAPACITY_BYTES - 1)
            assert engine.verify(buffer, KEY, 1, CAPACITY_BYTES - 1).right
            write(buffer, 100, np.zeros(50, dtype=np.uint8))
            assert agreed(engine.verify(buffer, KEY, 1, CAPACITY_BYTES - 1)).looks_like == "zeros"

    def test_element_i_of_the_even_numbers_is_2_i(self, gpu: Gpu) -> None:
        engine = engine_of(gpu)
        with allocate(gpu, 8000) as buffer:
            engine.fill_even(buffer, 0, 8000)
            assert content(buffer).view("<u8").tolist() == list(range(0, 2000, 2))
            assert engine.verify_even(buffer, 0, 8000).right
            assert engine.verify_even(buffer, 16, 8000 - 16, start=16).right
            write(buffer, 800, np.array([201], dtype="<u8").view(np.uint8))
            found = agreed(engine.verify_even(buffer, 0, 8000))
        assert (found.first_bad_offset, found.bad_bytes) == (800, 1)

    def test_ranges_outside_the_buffer_and_empty_ones_are_refused(self, gpu: Gpu) -> None:
        engine = engine_of(gpu)
        with allocate(gpu, 4096) as buffer:
            for offset, length, start in ((0, 4097, 0), (-1, 8, 0), (4096, 1, 0), (0, 0, 0)):
                with pytest.raises(ValueError, match=r"range|cannot be verified"):
                    engine.fill(buffer, KEY, offset, length, start)
                with pytest.raises(ValueError, match=r"range|cannot be verified"):
                    engine.verify(buffer, KEY, offset, length, start)
            with pytest.raises(ValueError, match="no byte -1"):
                engine.fill(buffer, KEY, 0, 8, -1)
            with pytest.raises(ValueError, match="cannot be verified"):
                engine.gpu_verify_only(buffer, KEY, 0, 8, -1)

    def test_a_kernel_that_did_not_run_is_no_verification(
        self, gpu: Gpu, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = engine_of(gpu)
        with allocate(gpu, 4096) as buffer:
            engine.fill(buffer, KEY, 0, 4096)
            monkeypatch.setattr(engine._kernels, "verify", lambda *_: None)
            with pytest.raises(ProbeError, match="did not verify 4096 bytes: it compared 0"):
                engine.verify(buffer, KEY, 0, 4096)

    def test_a_context_has_one_engine(self, gpu: Gpu) -> None:
        assert engine_of(gpu) is engine_of(gpu)
