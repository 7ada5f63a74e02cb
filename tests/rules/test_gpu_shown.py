"""What the cases about a GPU's health show: each value once, and what was not read as that."""

from __future__ import annotations

from gdrcheck.facts import Collector, Facts, Gpu, LogLine, RetiredPages, Unreadable
from gdrcheck.rules import gpu_shown as shown
from tests import facts as make
from tests.gpu_facts import gpu_health, nvlink

SLOT = "0000:1b:00.0"
UNREAD = Unreadable(unreadable="Unknown Error")


def gpu(**health: object) -> Gpu:
    return make.gpu(slot=SLOT, health=gpu_health(**health))


def logged(topic: str, *texts: str, complaints: tuple[str, ...] = ()) -> Facts:
    lines = tuple(
        LogLine(topic=topic, seconds_since_boot=10.0 * at, text=text)
        for at, text in enumerate(texts, 1)
    )
    collector = Collector(version=1, ran_at_s=0.0, complaints=complaints)
    return make.facts(host=make.host(kernel_log=lines), collector=collector)


def test_every_count_of_ecc_is_shown() -> None:
    values = dict(shown.ecc(gpu(ecc={"sram_threshold_exceeded": UNREAD})))
    assert values["ECC"] == "enabled"
    assert values["uncorrectable"] == "0"
    assert values["SRAM beyond its threshold"] == "unreadable (Unknown Error)"
    assert shown.ecc(gpu(ecc=None)) == [("ECC", "none")]


def test_rows_and_pages_are_shown() -> None:
    pages = RetiredPages(single_bit=2, double_bit=0, pending=False)
    values = dict(shown.memory_repair(gpu(retired_pages=pages, row_remap=UNREAD)))
    assert values == {
        "rows": "unreadable (Unknown Error)",
        "pages: single_bit": "2",
        "pages: double_bit": "0",
        "pages: pending": "no",
    }
    assert ("rows: pending", "no") in shown.memory_repair(gpu())


def test_settings_firmware_and_links_are_shown() -> None:
    one = gpu(nvlinks=(nvlink(replay_errors=4),), persistence=None)
    assert ("persistence", "none") in shown.settings(one)
    assert ("VBIOS", "96.00.A5.00.1A") in shown.firmware(one)
    assert shown.nvlinks(one) == [("NVLink 0", "up to a switch; replay errors 4")]


def test_health_that_was_not_read_shows_nothing() -> None:
    one = make.gpu(health=UNREAD)
    assert shown.ecc(one) == shown.memory_repair(one) == shown.firmware(one) == []
    assert shown.nvlinks(one) == []
    assert shown.settings(one) == [("compute mode", "default")]


def test_each_xid_of_the_gpu_is_shown_once_with_its_class() -> None:
    facts = logged(
        "xid",
        "NVRM: Xid (PCI:0000:1b:00): 31, a",
        "NVRM: Xid (PCI:0000:2b:00): 79, other GPU",
        "NVRM: Xid (PCI:0000:1b:00): 31, b",
        "NVRM: Xid (PCI:0000:1b:00): 43, c",
        "NVRM: Xid of no known form",
        complaints=("kernel_log: the first 9 records since boot are overwritten",),
    )
    assert dict(shown.xids(gpu(), facts)) == {
        "Xid 31 (application: GPU memory page fault), before this run": (
            "2 times, the last 30 s after the start: NVRM: Xid (PCI:0000:1b:00): 31, b"
        ),
        "Xid 43 (info: GPU stopped processing), before this run": (
            "40 s after the start: NVRM: Xid (PCI:0000:1b:00): 43, c"
        ),
        "Xid of a GPU that is not told": "50 s after the start: NVRM: Xid of no known form",
        "kernel log": "kernel_log: the first 9 records since boot are overwritten",
    }
    assert shown.xids(gpu(), make.facts(host=make.host(kernel_log=UNREAD))) == []


def test_each_error_of_an_nvswitch_is_shown_once() -> None:
    line = "nvidia-nvswitch4: SXid (PCI:0000:c6:00.0): 19084, Non-fatal, Link 29"
    assert shown.sxids(logged("sxid", line, line)) == [
        (
            "SXid 19084 of PCI:0000:c6:00.0, before this run",
            f"2 times, the last 20 s after the start: {line}",
        )
    ]
