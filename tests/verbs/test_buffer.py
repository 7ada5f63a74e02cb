"""The host buffer: where its parts lie, and what its guards notice."""

from __future__ import annotations

import ctypes

import pytest

from gdrcheck.sizes import size_text
from gdrcheck.verbs.buffer import PAGE_BYTES, HostBuffer, allocate
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


def test_too_much_memory_is_an_error_with_its_number() -> None:
    with pytest.raises(VerbsError, match=r"allocate .* of host memory") as told:
        allocate(1 << 62)
    assert told.value.error_number is not None


@pytest.mark.parametrize(
    ("length", "text"), [(1, "1 B"), (4096, "4 KiB"), (1 << 28, "256 MiB"), (4097, "4097 B")]
)
def test_sizes_are_said_in_words(length: int, text: str) -> None:
    assert size_text(length) == text
