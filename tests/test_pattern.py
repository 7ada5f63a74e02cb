"""The pattern: every wrong byte is seen, at its place, and named as far as it can be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.pattern import Bytes, Key, Pattern, mix

CAPACITY = 20_000
PATTERN = Pattern(CAPACITY)
KEY = Key(run_tag=0x1234_5678_9ABC_DEF0, iteration=7, direction=1, source=99)

words = st.integers(min_value=0, max_value=(1 << 64) - 1)
keys = st.builds(Key, run_tag=words, iteration=words, direction=words, source=words)
sizes = st.integers(min_value=1, max_value=9_000)
starts = st.integers(min_value=0, max_value=9_000)


def filled(key: Key, size: int, start: int = 0) -> Bytes:
    out = np.zeros(size, dtype=np.uint8)
    PATTERN.fill(out, key, start)
    return out


@given(keys, sizes, starts)
def test_what_was_filled_verifies(key: Key, size: int, start: int) -> None:
    assert PATTERN.verify(filled(key, size, start), key, start) is None


@given(keys, sizes, starts, st.data())
def test_every_flipped_byte_is_caught_at_its_offset(
    key: Key, size: int, start: int, data: st.DataObject
) -> None:
    offset = data.draw(st.integers(0, size - 1))
    flip = data.draw(st.integers(1, 255))
    message = filled(key, size, start)
    message[offset] ^= flip
    mismatch = PATTERN.verify(message, key, start)
    assert mismatch is not None
    assert (mismatch.first_bad_offset, mismatch.bad_bytes) == (offset, 1)
    at = 2 * (offset - mismatch.excerpt_offset)
    expected = int(mismatch.expected_hex[at : at + 2], 16)
    assert int(mismatch.got_hex[at : at + 2], 16) == expected ^ flip


@given(keys, sizes, starts, st.integers(0, 500))
def test_a_message_is_a_piece_of_one_stream(key: Key, size: int, start: int, more: int) -> None:
    longer = filled(key, size + more, start)
    assert np.array_equal(longer[:size], filled(key, size, start))
    assert np.array_equal(longer[more:], filled(key, size, start + more))


@given(keys, st.sampled_from(["run_tag", "iteration", "direction", "source"]), words)
def test_keys_that_differ_in_one_part_make_other_bytes(key: Key, part: str, value: int) -> None:
    other = replace(key, **{part: value})
    if other != key:
        assert not np.array_equal(filled(key, 64), filled(other, 64))


@given(keys, sizes, starts)
def test_no_byte_of_poison_is_right(key: Key, size: int, start: int) -> None:
    out = np.zeros(size, dtype=np.uint8)
    PATTERN.poison(out, key, start)
    assert PATTERN.is_poison(out, key, start)
    mismatch = PATTERN.verify(out, key, start)
    assert mismatch is not None
    assert mismatch.bad_bytes == size
    assert mismatch.looks_like == "poison"


@given(sizes, starts, st.data())
def test_poison_that_was_touched_is_no_poison(size: int, start: int, data: st.DataObject) -> None:
    out = np.zeros(size, dtype=np.uint8)
    PATTERN.poison(out, KEY, start)
    out[data.draw(st.integers(0, size - 1))] ^= data.draw(st.integers(1, 255))
    assert not PATTERN.is_poison(out, KEY, start)


def looks_like(message: Bytes, start: int = 0) -> str | None:
    mismatch = PATTERN.verify(message, KEY, start)
    return mismatch.looks_like if mismatch else None


@pytest.mark.parametrize("size", [64, 65, 4097])
@pytest.mark.parametrize("start", [0, 1, 63])
def test_wrong_data_is_named(size: int, start: int) -> None:
    right = filled(KEY, size, start)

    unwritten_end = right.copy()
    PATTERN.poison(unwritten_end[-20:], KEY, start + size - 20)
    assert looks_like(unwritten_end, start) == "poison"

    earlier = KEY.previous()
    assert earlier is not None
    assert looks_like(filled(earlier, size, start), start) == "previous iteration"

    zeros = right.copy()
    zeros[9:41] = 0
    assert looks_like(zeros, start) == "zeros"

    assert looks_like(filled(KEY, size, start + 8), start) == "shifted"
    one_missing = np.concatenate([right[:10], filled(KEY, size - 10, start + 11)])
    assert looks_like(one_missing, start) == "shifted"

    assert looks_like(right ^ np.uint8(0x55), start) == "other"


def test_the_first_message_has_no_previous_one() -> None:
    assert replace(KEY, iteration=0).previous() is None


def test_the_stream_is_what_the_documentation_says() -> None:
    """A GPU kernel must compute the same: mix(position) XOR tag, little-endian."""
    stream = filled(KEY, 24).tobytes()
    for position in range(3):
        word = (mix(position) ^ KEY.tag).to_bytes(8, "little")
        assert stream[8 * position : 8 * position + 8] == word
    # SplitMix64's first output for seed 0, a published test vector.
    assert mix(0) == 0xE220A8397B1DCDAF


def test_a_message_beyond_the_capacity_is_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        filled(KEY, 10, CAPACITY - 9)
    assert PATTERN.verify(filled(KEY, 10, CAPACITY - 10), KEY, CAPACITY - 10) is None
