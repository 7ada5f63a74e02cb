"""Words for values: short, with units, and a question mark for what is not known."""

from __future__ import annotations

import pytest

from gdrcheck.facts import Unreadable
from gdrcheck.show import words
from gdrcheck.show.words import Gaps
from tests import facts as build


@pytest.mark.parametrize(
    ("value_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (4096, "4 KiB"),
        (1536 << 20, "1.5 GiB"),
        (2 << 40, "2 TiB"),
        (10**400, f"{10**400} B"),
    ],
)
def test_sizes_have_the_largest_unit_that_fits(value_bytes: int, text: str) -> None:
    assert words.size(value_bytes) == text


def test_link_says_what_it_could_be_only_if_it_is_less() -> None:
    assert words.link(build.link(), Gaps(), "link") == "32 GT/s x16"
    slow = build.link(current_gts=2.5)
    assert words.link(slow, Gaps(), "link") == "2.5 GT/s x16 (can 32 GT/s x16)"


def test_unknown_value_is_a_question_mark_and_its_reason_is_told_once() -> None:
    gaps, why = Gaps(), Unreadable(unreadable="max_link_width: Permission denied")
    unknown = build.link(max_width=why)
    assert words.link(unknown, gaps, "PCIe link") == "32 GT/s x16 (can 32 GT/s x?)"
    assert gaps.text(why, "width") == "?"
    assert gaps.lines() == ["not read:", "  max_link_width: Permission denied: PCIe link, width"]


def test_settings_show_what_is_unusual() -> None:
    assert words.settings({"a": "1", "b": "0", "c": "0"}, usual="0") == "a=1, 2 others are 0"
    assert words.settings({"b": "0"}, usual="0") == "all 1 are 0"
    assert words.settings({}) == "none"


def test_long_rows_are_wrapped_beside_their_label() -> None:
    lines = words.row("command line", " ".join(["word"] * 40))
    assert len(lines) > 1
    assert all(len(line) <= words.WIDTH for line in lines)
    assert all(line.startswith(" " * 17) for line in lines[1:])
