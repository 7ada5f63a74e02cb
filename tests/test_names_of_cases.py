"""The names of test cases are the same in each worker and in each second."""

from __future__ import annotations

import gzip

import pytest


@pytest.mark.parametrize(
    ("packed", "word"), [(gzip.compress(b"{}"), "whole"), (gzip.compress(b"{}")[:-4], "cut off")]
)
def test_bytes_that_hold_their_second_are_in_no_name(
    packed: bytes, word: str, request: pytest.FixtureRequest
) -> None:
    assert packed.startswith(b"\x1f\x8b")
    assert request.node.name.endswith(f"[packed-{word}]")
