"""The host buffer: where its parts lie, and what its guards notice."""

from __future__ import annotations

import ctypes

import pytest

from gdrcheck.pattern import Key, Pattern
from gdrcheck.sizes import size_text
from gdrcheck.verbs.buffer import PAGE_BYTES, HostBuffer, HostPayload, allocate
from gdrcheck.verbs.errors import VerbsError


@pytest.mark.parametrize("wanted", [1, PAGE_BYTES, PAGE_BYTES + 1, 2 << 20])
def test_the_payload_lies_between_two_guard_pages(wanted: int) -> None:
    buffer = HostBuffer(wanted)
    assert buffer.payload_bytes >= wanted
    assert buffer.address % PAGE_BYTES == 0
    assert buffer.payload_address == buffer.address + PAGE_BYTES
    assert buffer.total_bytes == buffer.payload_bytes + 2 * PAGE_BYTES
    ctypes.memset(buffer.payload_address, 7, buffer.payload_bytes)
    assert buffer.payload.min() == buffer.payload.max() == 7
    assert buffer.guard_damage() is None


@pytest.mark.parametrize(
    ("offset", "told"),
    [
        (-1, f"guard before the payload: 1 bytes changed, the first at byte {PAGE_BYTES - 1}"),
        (-PAGE_BYTES, "guard before the payload: 1 bytes changed, the first at byte 0"),
        (2 * PAGE_BYTES, "guard after the payload: 1 bytes changed, the first at byte 0"),
        (3 * PAGE_BYTES - 1, f"the first at byte {PAGE_BYTES - 1}"),
    ],
)
def test_a_byte_outside_the_payload_is_noticed(offset: int, told: str) -> None:
    buffer = HostBuffer(2 * PAGE_BYTES)
    byte = ctypes.c_uint8.from_address(buffer.payload_address + offset)
    byte.value ^= 0x80
    assert told in (buffer.guard_damage() or "")
    # It was mended.
    assert buffer.guard_damage() is None


KEY = Key(1, 2, 0, 3)


def payload() -> HostPayload:
    return HostPayload(HostBuffer(2 * PAGE_BYTES), Pattern(2 * PAGE_BYTES))


def arrived(offset: int = 500, length: int = 100) -> HostPayload:
    """A payload to which the message of ``KEY`` has come, whose first byte is that of place 256."""
    made = payload()
    made.poison(KEY, offset - 128, length + 256, 128)
    made.view[offset : offset + length] = KEY.stream.piece(256, length)
    return made


def test_a_message_that_arrived_is_right_and_so_is_what_lies_beside_it() -> None:
    made = arrived()
    assert not made.is_gpu
    assert made.flush(500) == "not needed (host memory)"
    assert made.judge(KEY, 500, 100, 256, 128).right
    assert made.verify(KEY, 500, 100, 256).right
    assert made.read(500, 100) == KEY.stream.piece(256, 100).tobytes()


@pytest.mark.parametrize("place", [500, 599])
def test_a_wrong_byte_of_a_message_is_its_own(place: int) -> None:
    made = arrived()
    made.flip(place)
    judged = made.judge(KEY, 500, 100, 256, 128)
    assert judged.beside is None
    assert judged.verdict.by_cpu is not None
    assert judged.verdict.by_cpu.first_bad_offset == place - 500
    assert judged.verdict.by_gpu is None


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (372, "128 bytes before the message 1 changed, the first of them is number 0"),
        (499, "128 bytes before the message 1 changed, the first of them is number 127"),
        (600, "128 bytes behind the message 1 changed, the first of them is number 0"),
        (727, "128 bytes behind the message 1 changed, the first of them is number 127"),
    ],
)
def test_a_byte_beside_a_message_is_told(place: int, told: str) -> None:
    made = arrived()
    made.flip(place)
    judged = made.judge(KEY, 500, 100, 256, 128)
    assert judged.verdict.right
    assert told in (judged.beside or "")
    assert not judged.right


@pytest.mark.parametrize(("offset", "length"), [(-1, 5), (0, 0), (2 * PAGE_BYTES - 4, 5)])
def test_what_is_not_inside_is_refused(offset: int, length: int) -> None:
    with pytest.raises(ValueError, match="are not inside a payload of 8192 bytes"):
        payload().fill(KEY, offset, length, 0)


def test_too_much_memory_is_an_error_with_its_number() -> None:
    with pytest.raises(VerbsError, match=r"allocate .* of host memory") as told:
        allocate(1 << 62)
    assert told.value.error_number is not None


@pytest.mark.parametrize(
    ("length", "text"), [(1, "1 B"), (4096, "4 KiB"), (1 << 28, "256 MiB"), (4097, "4097 B")]
)
def test_sizes_are_said_in_words(length: int, text: str) -> None:
    assert size_text(length) == text
