"""Streams: every position, and finding a piece again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gdrcheck.stream import MASK, SAMPLE_BYTES, ZEROS, Stream, mix, unmix

words = st.integers(0, MASK)
kinds = st.sampled_from(["mixed", "even", "constant"])
streams = st.builds(Stream, kinds, words)
positions = st.one_of(st.integers(0, 3000), st.integers(0, 1 << 60))


@given(words)
def test_unmix_undoes_mix(word: int) -> None:
    assert unmix(mix(word)) == word
    assert mix(unmix(word)) == word


@given(streams, positions, st.integers(0, 100), st.integers(1, 100))
def test_a_piece_is_a_piece_of_one_stream(
    stream: Stream, start: int, more: int, length: int
) -> None:
    longer = stream.piece(start, more + length)
    assert np.array_equal(longer[more:], stream.piece(start + more, length))


@given(streams, positions, st.integers(1, 100))
def test_the_complement_has_no_byte_in_common(stream: Stream, start: int, length: int) -> None:
    other = stream.complement()
    assert not (stream.piece(start, length) == other.piece(start, length)).any()
    assert other.complement() == stream


def test_even_numbers_are_the_seeds() -> None:
    assert Stream("even").piece(8, 24).view("<u8").tolist() == [2, 4, 6]


def test_positions_beyond_32_bits_are_kept_apart() -> None:
    stream = Stream("mixed", 1)
    beyond = (1 << 32) * 8 + 40
    assert not np.array_equal(stream.piece(40, 8), stream.piece(beyond, 8))
    assert stream.piece(beyond, 8).view("<u8")[0] == mix(beyond // 8) ^ 1


def test_zeros_are_zeros() -> None:
    assert not ZEROS.piece(13, 100).any()


@given(words, positions, st.integers(-(1 << 39), 1 << 39))
def test_a_sample_is_located_at_any_distance(tag: int, position: int, distance: int) -> None:
    stream = Stream("mixed", tag)
    sample = stream.piece(position, SAMPLE_BYTES).tobytes()
    assert stream.locate(sample, position + distance) == position


@given(words, positions, st.integers(0, SAMPLE_BYTES - 1), st.integers(1, 255))
def test_a_sample_with_a_wrong_byte_is_not_located(
    tag: int, position: int, at: int, flip: int
) -> None:
    stream = Stream("mixed", tag)
    sample = stream.piece(position, SAMPLE_BYTES)
    sample[at] ^= flip
    assert stream.locate(sample.tobytes(), position) is None


@given(words, words, positions)
def test_a_sample_of_another_stream_is_not_located(tag: int, other: int, position: int) -> None:
    assume(tag != other)
    sample = Stream("mixed", other).piece(position, SAMPLE_BYTES).tobytes()
    assert Stream("mixed", tag).locate(sample, position) is None


@pytest.mark.parametrize("length", [0, 1, 7])
def test_less_than_a_word_is_not_looked_for(length: int) -> None:
    stream = Stream("mixed", 5)
    assert stream.locate(stream.piece(0, length).tobytes(), 0) is None
