"""The chunked verifier: any length and place, and a name for what wrong bytes are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck import likeness, pattern
from gdrcheck.likeness import Expected
from gdrcheck.mismatch import LooksLike, Mismatch, Verdict
from gdrcheck.pattern import Key, Pattern
from gdrcheck.stream import Bytes, Stream

KEY = Key(run_tag=0x1234_5678_9ABC_DEF0, iteration=7, direction=1, source=99)
EARLIER = Key(KEY.run_tag, 6, 1, 99)
NEIGHBOUR = Key(KEY.run_tag, 7, 1, 100)
STREAM = KEY.stream

lengths = st.integers(1, 5000)
starts = st.one_of(st.integers(0, 5000), st.integers(0, 1 << 40))
chunks = st.sampled_from([16, 100, 4096, 1 << 20])


def verify(data: Bytes, start: int = 0, chunk_bytes: int = 1 << 20) -> Mismatch | None:
    """Reads through one buffer that is used again, as a GPU's memory is read."""
    memory = np.empty(chunk_bytes + 64, dtype=np.uint8)

    def read(at: int, size: int) -> Bytes:
        memory[:size] = data[at : at + size]
        return memory[:size]

    expected = pattern.expected(KEY, len(data), start, [(NEIGHBOUR, start)])
    return likeness.verify(read, expected, chunk_bytes)


@given(lengths, starts, chunks)
def test_right_bytes_are_right_in_chunks_of_any_size(length: int, start: int, chunk: int) -> None:
    assert verify(STREAM.piece(start, length), start, chunk) is None


@given(lengths, starts, chunks, st.data())
def test_every_flipped_byte_is_found_in_chunks_of_any_size(
    length: int, start: int, chunk: int, data: st.DataObject
) -> None:
    offset = data.draw(st.integers(0, length - 1))
    message = STREAM.piece(start, length)
    right = message.copy()
    message[offset] ^= data.draw(st.integers(1, 255))
    found = verify(message, start, chunk)
    assert found is not None
    assert (found.first_bad_offset, found.bad_bytes) == (offset, 1)
    shown = slice(found.excerpt_offset, found.excerpt_offset + len(found.got_hex) // 2)
    assert bytes.fromhex(found.got_hex) == message[shown].tobytes()
    assert bytes.fromhex(found.expected_hex) == right[shown].tobytes()
    assert shown.start <= offset < shown.stop


@given(lengths, st.integers(0, 5000), st.integers(0, 4999), st.integers(0, 6))
def test_the_table_and_the_chunks_say_the_same(
    length: int, start: int, first: int, what: int
) -> None:
    """``Pattern`` verifies messages, the chunked verifier everything else."""
    message = STREAM.piece(start, length)
    wrong = [
        STREAM.complement().piece(start, length),
        EARLIER.stream.piece(start, length),
        np.zeros(length, dtype=np.uint8),
        STREAM.piece(start + 24, length),
        STREAM.piece(start + 1001, length),
        message ^ np.uint8(3),
        message,
    ][what]
    message = message.copy()
    message[first:] = wrong[first:]
    table = Pattern(length + start).verify(message, KEY, start)
    assert table == pattern.verify_stream(
        lambda at, size: message[at : at + size], length, KEY, start
    )


@pytest.mark.parametrize("chunk", [64, 1000, 1 << 20])
@pytest.mark.parametrize("start", [0, 5, 1 << 33])
@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (STREAM.complement(), "poison"),
        (EARLIER.stream, "previous iteration"),
        (Stream("constant"), "zeros"),
        (NEIGHBOUR.stream, "neighbour"),
        (Stream("mixed", 12345), "other"),
    ],
)
def test_a_wrong_page_is_named(wrong: Stream, name: LooksLike, start: int, chunk: int) -> None:
    message = STREAM.piece(start, 20_000)
    message[4096:8192] = wrong.piece(start + 4096, 4096)
    found = verify(message, start, chunk)
    assert found is not None
    assert found.looks_like == name
    assert 4096 <= found.first_bad_offset < 4106


@pytest.mark.parametrize("distance", [1, 8, 13, 4096, 65536, (1 << 31) + 5])
def test_right_data_from_any_distance_is_called_shifted(distance: int) -> None:
    found = verify(STREAM.piece(distance, 10_000), 0)
    assert found is not None
    assert found.looks_like == "shifted"
    found = verify(STREAM.piece(0, 10_000), distance)
    assert found is not None
    assert found.looks_like == "shifted"


def test_a_neighbours_data_is_named_wherever_it_comes_from() -> None:
    found = verify(NEIGHBOUR.stream.piece(777_777, 500), 40)
    assert found is not None
    assert found.looks_like == "neighbour"


def test_a_neighbour_of_the_same_stream_is_named_at_its_place() -> None:
    expected = pattern.expected(KEY, 500, 0, [(KEY, 10_000)])
    data = STREAM.piece(10_000, 500)
    found = likeness.verify(lambda at, size: data[at : at + size], expected)
    assert found is not None
    assert found.looks_like == "neighbour"


def test_two_kinds_of_wrong_bytes_are_called_other() -> None:
    message = np.zeros(200, dtype=np.uint8)
    message[100:] = EARLIER.stream.piece(100, 100)
    found = verify(message)
    assert found is not None
    assert found.looks_like == "other"


def test_a_few_wrong_bytes_prove_nothing_but_poison() -> None:
    message = STREAM.piece(0, 100)
    message[50:55] = 0
    found = verify(message)
    assert found is not None
    assert found.looks_like == "other"
    message = STREAM.piece(0, 100)
    message[99:] ^= 255
    found = verify(message)
    assert found is not None
    assert (found.first_bad_offset, found.looks_like) == (99, "poison")


def test_fill_stream_writes_the_stream_in_chunks() -> None:
    out = np.zeros(1000, dtype=np.uint8)

    def write(at: int, data: Bytes) -> None:
        out[at : at + len(data)] = data

    pattern.fill_stream(write, 1000, KEY, start=3, chunk_bytes=64)
    assert np.array_equal(out, STREAM.piece(3, 1000))


def test_bytes_that_are_right_at_a_second_look_are_wrong() -> None:
    """What arrives after the completion must not pass."""

    class Late(Pattern):
        def _matches(self, data: Bytes, tag: int, start: int) -> bool:
            before = data.copy()
            before[20] ^= 1
            return super()._matches(before, tag, start)

    found = Late(100).verify(STREAM.piece(0, 100), KEY)
    assert found is not None
    assert (found.first_bad_offset, found.looks_like) == (16, "other")


@pytest.mark.parametrize(("start", "length"), [(0, 0), (-1, 8)])
def test_nothing_to_verify_is_refused(start: int, length: int) -> None:
    with pytest.raises(ValueError, match="cannot be verified"):
        Expected(STREAM, start, length)


def test_verdicts_that_differ_in_anything_disagree() -> None:
    message = STREAM.piece(0, 100)
    message[10] ^= 1
    one = verify(message)
    message[11] ^= 1
    two = verify(message)
    assert Verdict(None, None).right
    assert not Verdict(None, None).disagree
    assert Verdict(None, one).disagree
    assert not Verdict(None, one).right
    assert Verdict(one, two).disagree
    assert not Verdict(one, one).disagree
    assert not Verdict(one, one).right
