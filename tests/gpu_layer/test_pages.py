"""Ranges in whole pages of the host: 4 KiB on most, 64 KiB on some aarch64 kernels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.gpu.export import PageRange, page_range

PAGES = st.sampled_from([4 << 10, 64 << 10])
ADDRESSES = st.integers(0, (1 << 57) - 1)
LENGTHS = st.integers(1, 1 << 38)


@given(address=ADDRESSES, length=LENGTHS, page=PAGES)
def test_the_pages_hold_the_range_and_no_page_more(address: int, length: int, page: int) -> None:
    pages = page_range(address, length, page)
    assert pages.address % page == 0
    assert pages.length_bytes % page == 0
    assert pages.address + pages.offset_bytes == address
    assert 0 <= pages.offset_bytes < page
    assert 0 <= pages.length_bytes - pages.offset_bytes - length < page


@given(first_page=st.integers(1, 1 << 40), allocated=LENGTHS, page=PAGES, data=st.data())
def test_the_pages_never_pass_the_end_of_the_allocation_in_pages(
    first_page: int, allocated: int, page: int, data: st.DataObject
) -> None:
    base = first_page * page
    offset = data.draw(st.integers(0, allocated - 1))
    length = data.draw(st.integers(1, allocated - offset))
    pages = page_range(base + offset, length, page)
    assert pages.address >= base
    assert pages.address + pages.length_bytes <= base + -(-allocated // page) * page


@pytest.mark.parametrize(
    ("address", "length", "page", "expected"),
    [
        (0x10000, 4096, 4096, PageRange(0x10000, 4096, 0)),
        (0x10001, 4096, 4096, PageRange(0x10000, 8192, 1)),
        (0x11000, 4096, 65536, PageRange(0x10000, 65536, 0x1000)),
        (0x1FFFF, 2, 65536, PageRange(0x10000, 131072, 0xFFFF)),
    ],
)
def test_examples(address: int, length: int, page: int, expected: PageRange) -> None:
    assert page_range(address, length, page) == expected
