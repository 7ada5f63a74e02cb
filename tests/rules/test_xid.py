"""Xid: which numbers call for a repair, and which GPU a line is about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.facts import LogLine
from gdrcheck.rules import xid


def log(text: str, topic: str = "xid") -> LogLine:
    return LogLine(topic=topic, seconds_since_boot=9.5, text=text)


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("hardware", (48, 62, 64, 74, 79, 94, 95, 119, 120, 140, 143)),
        ("driver", (38, 46, 109)),
        ("application", (13, 31, 32, 69, 137)),
        ("info", (43, 45, 63, 92, 154)),
        ("unknown", (0, 1, 500)),
    ],
)
def test_class_of_a_number(kind: str, numbers: tuple[int, ...]) -> None:
    assert {xid.of(number).kind for number in numbers} == {kind}
    assert all(xid.of(number).number == number for number in numbers)


def test_no_number_is_in_two_classes() -> None:
    assert all(one.number == number for number, one in xid.XIDS.items())
    rows = sum(len(rows) for _, rows in xid._TABLE)
    assert rows == len(xid.XIDS)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("145, RLW_REMAP Fatal XC0 i0 Link 03", "hardware"),
        ("145, RLW_REMAP Nonfatal XC0 i0 Link 03", "info"),
        ("145, RLW_REMAP Non-fatal XC0 i0 Link 03", "info"),
        ("", "driver"),
    ],
)
def test_line_decides_whether_an_error_of_nvlink_5_is_fatal(text: str, kind: str) -> None:
    assert xid.of(145, text).kind == kind


@pytest.mark.parametrize(
    ("text", "slot", "number"),
    [
        ("NVRM: Xid (PCI:0000:0f:00): 79, pid=1, GPU has fallen off", "0000:0f:00.0", 79),
        ("NVRM: Xid (PCI:0000:C8:00 GPU-I:05): 94, pid=2, Contained", "0000:c8:00.0", 94),
        ("NVRM: Xid (0000:01:00): 31, Ch 00000000", "0000:01:00.0", 31),
        ("NVRM: Xid (PCI:00010000:01:00): 31, Ch", "10000:01:00.0", 31),
    ],
)
def test_a_line_names_gpu_and_number(text: str, slot: str, number: int) -> None:
    (found,) = xid.lines((log(text), log(text, topic="nvrm")))
    assert (found.slot, found.xid.number, found.line.text) == (slot, number, text)
    assert xid.unreadable_lines((log(text),)) == []


def test_a_line_without_gpu_or_number_is_not_lost() -> None:
    odd = (log("NVRM: Xid (PCI:0000:0f:00): , pid=1"), log("NVRM: Xid 79"))
    assert xid.lines(odd) == []
    assert xid.unreadable_lines(odd) == list(odd)


@given(st.text(max_size=80), st.integers(0, 99999))
def test_any_line_is_read_or_told(text: str, number: int) -> None:
    lines = (log(f"NVRM: Xid (PCI:0000:0f:00): {number}, {text}"), log(f"NVRM: Xid{text}"))
    assert len(xid.lines(lines)) + len(xid.unreadable_lines(lines)) == 2
    assert xid.lines(lines)[0].xid.number == number
