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
    assert all(len(line) <= words.page_width() for line in lines)
    assert all(line.startswith(" " * 17) for line in lines[1:])


@pytest.mark.parametrize(("columns", "width"), [("40", 60), ("70", 70), ("200", 200)])
def test_lines_are_as_long_as_the_terminal_is_wide(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    lines = words.wrapped("word " * 100)
    assert width - 5 < max(map(len, lines)) <= width


def test_without_a_terminal_lines_have_the_usual_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("sys.__stdout__", None)
    assert words.page_width() == words.USUAL_WIDTH == 96


def slots(count: int) -> list[str]:
    return [f"0000:{number:02x}:00.0" for number in range(count)]


def test_reasons_that_differ_in_a_slot_only_are_one() -> None:
    gaps = Gaps()
    for slot in slots(62):
        gaps.note(Unreadable(unreadable=f"config/{slot}: No such file or directory"), "ACS")
    gaps.note(Unreadable(unreadable="config/0000:ff:00.0: empty"), "ACS")
    assert gaps.lines() == [
        "not read:",
        "  config/<slot>: No such file or directory: ACS (62 times)",
        "  config/0000:ff:00.0: empty: ACS",
    ]
    assert words.counted([f"config/{slot}: empty" for slot in slots(2)]) == [
        "config/<slot>: empty (2 times)"
    ]
    assert words.counted(["config/0000:00:00.0: empty", "units: none"]) == [
        "config/0000:00:00.0: empty",
        "units: none",
    ]


def test_what_is_the_matter_at_several_places_is_told_once() -> None:
    sentences = [
        f"node1/mlx5_{number}: ACS is unreadable: config/{slot}: empty"
        for number, slot in enumerate(slots(2))
    ]
    assert words.by_place([*sentences, "node1/mlx5_0: firmware is unreadable"]) == [
        "node1/mlx5_0, node1/mlx5_1: ACS is unreadable: config/<slot>: empty",
        "node1/mlx5_0: firmware is unreadable",
    ]


@pytest.mark.parametrize(
    ("at_s", "text"),
    [
        (0.0, "1970-01-01 00:00:00 UTC (20000 days ago)"),
        (1.728e9 - 100, "2024-10-03 23:58:20 UTC (100 s ago)"),
        (1.728e9 - 5400, "2024-10-03 22:30:00 UTC (90 min ago)"),
        (1.728e9 - 7200, "2024-10-03 22:00:00 UTC (2 h ago)"),
        (1.728e9 + 60, "2024-10-04 00:01:00 UTC (later than this machine's clock)"),
        (1e300, "1e+300 s after the start of 1970"),
    ],
)
def test_times_have_an_age(at_s: float, text: str) -> None:
    assert words.moment(at_s, 1.728e9) == text
