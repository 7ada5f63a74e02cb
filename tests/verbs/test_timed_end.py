"""Where timed messages lie in a payload."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.verbs import fake_pyverbs


@pytest.fixture(scope="module")
def timed_end() -> Iterator[Any]:
    with fake_pyverbs.installed():
        yield fake_pyverbs.load("gdrcheck.verbs.timed_end")


@given(address=st.integers(0, (1 << 64) - 1))
def test_messages_begin_at_a_page_with_room_before_them(timed_end: Any, address: int) -> None:
    place = timed_end.first_place(address)
    assert (address + place) % timed_end.ALIGN_BYTES == 0
    assert timed_end.BESIDE_BYTES <= place < timed_end.BESIDE_BYTES + timed_end.ALIGN_BYTES
