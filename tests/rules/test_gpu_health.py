"""GPUs without errors: ECC, repairs of the memory, resets, Xids."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gdrcheck.facts import Collector, EccCounts, Facts, Gpu, LogLine, RetiredPages, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, NotJudged, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rules import gpu_health as rules
from tests import facts as make
from tests.gpu_facts import gpu_health

GPU0 = Where(node="node1", gpu="gpu0")
SLOT = "0000:1b:00.0"
UNREAD = Unreadable(unreadable="Unknown Error")
PRIVILEGE = Unreadable(unreadable="least privilege: no collector", privilege=True)
PAGES = RetiredPages(single_bit=2, double_bit=0, pending=False)
PAGES_WAIT = RetiredPages(single_bit=2, double_bit=0, pending=True)
Rule = Callable[[Where, Gpu, Profile], Finding | None]


def reset_needed(where: Where, gpu: Gpu, promised: Profile) -> Finding | None:
    return rules.reset_needed(where, gpu, promised, make.facts())


def gpu(**health: object) -> Gpu:
    return make.gpu(slot=SLOT, health=gpu_health(**health))


def code(found: Finding | None) -> str | None:
    return found.code if found else None


def promise(**expect: object) -> Profile:
    return make.profile(expect=expect)


@pytest.mark.parametrize(
    "rule", [rules.uncorrectable, rules.memory_repair, reset_needed], ids=lambda r: r.__name__
)
def test_a_healthy_gpu_has_no_finding(rule: Rule) -> None:
    assert rule(GPU0, gpu(), promise()) is None


@pytest.mark.parametrize(
    "rule", [rules.uncorrectable, rules.memory_repair, reset_needed], ids=lambda r: r.__name__
)
def test_health_that_was_not_read_is_an_error(rule: Rule) -> None:
    with pytest.raises(ProbeError, match="health of the GPU is unreadable"):
        rule(GPU0, make.gpu(health=UNREAD), promise())


@pytest.mark.parametrize(
    ("rule", "health", "said"),
    [
        (rules.uncorrectable, {"ecc": UNREAD}, "ECC of the GPU"),
        (rules.uncorrectable, {"ecc": {"sram_threshold_exceeded": UNREAD}}, "threshold of SRAM"),
        (rules.memory_repair, {"row_remap": UNREAD}, "remapped rows"),
        (rules.memory_repair, {"retired_pages": UNREAD}, "retired pages"),
        (reset_needed, {"recovery_action": UNREAD}, "recovery action"),
    ],
)
def test_a_value_that_was_not_read_is_an_error(
    rule: Rule, health: dict[str, object], said: str
) -> None:
    with pytest.raises(ProbeError, match=said):
        rule(GPU0, gpu(**health), promise())


@pytest.mark.parametrize(
    ("rule", "health"),
    [
        (
            rules.uncorrectable,
            {
                "ecc": {
                    "volatile": {"correctable": 0, "uncorrectable": 1},
                    "sram_threshold_exceeded": UNREAD,
                }
            },
        ),
        (
            rules.uncorrectable,
            {
                "ecc": {
                    "volatile": {"correctable": UNREAD, "uncorrectable": UNREAD},
                    "sram_threshold_exceeded": True,
                }
            },
        ),
        (rules.memory_repair, {"row_remap": {"pending": True}, "retired_pages": UNREAD}),
        (rules.memory_repair, {"row_remap": UNREAD, "retired_pages": PAGES_WAIT}),
    ],
)
def test_a_fault_is_found_beside_what_was_not_read(rule: Rule, health: dict[str, object]) -> None:
    assert rule(GPU0, gpu(**health), promise()) is not None


def test_errors_that_were_corrected_or_are_of_long_ago_are_shown_only() -> None:
    counts = EccCounts(correctable=90, uncorrectable=0)
    ever = EccCounts(correctable=900, uncorrectable=3)
    healthy = gpu(ecc={"volatile": counts, "aggregate": ever})
    assert rules.uncorrectable(GPU0, healthy, promise()) is None


@pytest.mark.parametrize(
    ("uncorrectable", "beyond", "observed"),
    [
        (1, False, "1 since the driver was loaded"),
        (2, None, "2 since the driver was loaded"),
        (0, True, "0 since the driver was loaded; SRAM is beyond its threshold"),
    ],
)
def test_uncorrectable_errors(uncorrectable: int, beyond: bool | None, observed: str) -> None:
    counts = EccCounts(correctable=0, uncorrectable=uncorrectable)
    found = rules.uncorrectable(
        GPU0, gpu(ecc={"volatile": counts, "sram_threshold_exceeded": beyond}), promise()
    )
    assert found is not None
    assert (found.code, found.where, found.observed) == ("GPU-ECC-UNCORRECTABLE", GPU0, observed)


def test_without_ecc_nothing_is_judged_unless_that_is_promised() -> None:
    off = gpu(ecc={"mode": "disabled"})
    with pytest.raises(NotPromised, match="has no ECC"):
        rules.uncorrectable(GPU0, gpu(ecc=None), promise())
    with pytest.raises(NotJudged, match="ECC is off"):
        rules.uncorrectable(GPU0, off, promise())
    for one in (off, gpu(ecc=None)):
        assert rules.uncorrectable(GPU0, one, promise(ecc="disabled")) is None


def test_a_gpu_that_does_not_count_is_not_passed() -> None:
    silent = EccCounts(correctable=None, uncorrectable=None)
    with pytest.raises(NotJudged, match="does not count"):
        rules.uncorrectable(GPU0, gpu(ecc={"volatile": silent}), promise())


@pytest.mark.parametrize(
    ("health", "expected"),
    [
        ({"row_remap": {"pending": True}}, "GPU-ROW-REMAP"),
        ({"row_remap": {"failed": True}}, "GPU-ROW-REMAP"),
        ({"row_remap": {"uncorrectable": 4, "correctable": 1}}, None),
        ({"row_remap": None, "retired_pages": PAGES}, None),
        (
            {"row_remap": None, "retired_pages": PAGES.model_copy(update={"pending": True})},
            "GPU-PAGES-RETIRED",
        ),
    ],
)
def test_repair_of_memory(health: dict[str, object], expected: str | None) -> None:
    assert code(rules.memory_repair(GPU0, gpu(**health), promise())) == expected


def test_a_gpu_that_repairs_no_memory_is_skipped() -> None:
    with pytest.raises(NotPromised, match="neither remaps rows"):
        rules.memory_repair(GPU0, gpu(row_remap=None, retired_pages=None), promise())


@pytest.mark.parametrize("action", ["reset", "reboot", "drain_p2p", "drain_and_reset", "new one"])
def test_whatever_action_the_driver_asks_for_is_told(action: str) -> None:
    found = reset_needed(GPU0, gpu(recovery_action=action, row_remap=None), promise())
    assert found is not None
    assert (found.code, found.observed) == ("GPU-RESET-NEEDED", action)


def test_a_reset_for_the_memory_is_told_once() -> None:
    sick = gpu(recovery_action="reset", row_remap={"pending": True})
    with pytest.raises(Blocked, match="GPU-ROW-REMAP at node1/gpu0"):
        reset_needed(GPU0, sick, promise())
    with pytest.raises(NotPromised, match="no recovery action"):
        reset_needed(GPU0, gpu(recovery_action=None), promise())


def with_log(log: object, *complaints: str) -> Facts:
    collector = Collector(version=1, ran_at_s=0.0, complaints=complaints)
    return make.facts(host=make.host(kernel_log=log), collector=collector)


def xid_line(number: int, device: str = "0000:1b:00") -> LogLine:
    text = f"NVRM: Xid (PCI:{device}): {number}, pid=1, text"
    return LogLine(topic="xid", seconds_since_boot=12.0, text=text)


def test_fatal_xids_of_this_gpu_are_one_finding() -> None:
    log = (xid_line(119), xid_line(13), xid_line(79), xid_line(119))
    found = rules.fatal_xid(GPU0, gpu(), promise(), with_log(log))
    assert found is not None
    assert found.code == "GPU-XID"
    assert found.observed == (
        "119 (hardware: GSP RPC timeout); 79 (hardware: GPU has fallen off the bus)"
    )
    assert set(found.evidence) == {"Xid 119", "Xid 79"}


@pytest.mark.parametrize(
    "line", [xid_line(79, "0000:2b:00"), xid_line(13), xid_line(63), xid_line(9999)]
)
def test_other_xids_are_shown_only(line: LogLine) -> None:
    assert rules.fatal_xid(GPU0, gpu(), promise(), with_log((line,))) is None


def test_a_reset_for_a_fatal_xid_is_told_once() -> None:
    sick = gpu(recovery_action="reset")
    with pytest.raises(Blocked, match="GPU-XID at node1/gpu0"):
        rules.reset_needed(GPU0, sick, promise(), with_log((xid_line(119),)))
    other = with_log((xid_line(119, "0000:2b:00"), xid_line(13)))
    assert code(rules.reset_needed(GPU0, sick, promise(), other)) == "GPU-RESET-NEEDED"


def test_an_xid_of_memory_is_blocked_by_the_finding_about_it() -> None:
    counts = EccCounts(correctable=0, uncorrectable=1)
    sick = gpu(ecc={"volatile": counts})
    with pytest.raises(Blocked, match="GPU-ECC-UNCORRECTABLE"):
        rules.fatal_xid(GPU0, sick, promise(), with_log((xid_line(48), xid_line(94))))
    mixed = with_log((xid_line(48), xid_line(79)))
    assert code(rules.fatal_xid(GPU0, sick, promise(), mixed)) == "GPU-XID"
    # The counts are gone after a reset: the line is all that is left.
    assert code(rules.fatal_xid(GPU0, gpu(), promise(), with_log((xid_line(48),)))) == "GPU-XID"


def test_a_log_that_was_not_read_whole_is_no_proof() -> None:
    with pytest.raises(NotJudged, match="least privilege"):
        rules.fatal_xid(GPU0, gpu(), promise(), with_log(PRIVILEGE))
    with pytest.raises(ProbeError, match="kernel log"):
        rules.fatal_xid(GPU0, gpu(), promise(), with_log(UNREAD))
    gap = "kernel_log: the first 900 records since boot are overwritten"
    with pytest.raises(NotJudged, match="the first 900 records"):
        rules.fatal_xid(GPU0, gpu(), promise(), with_log((), gap))
    found = rules.fatal_xid(GPU0, gpu(), promise(), with_log((xid_line(79),), gap))
    assert code(found) == "GPU-XID"


def test_an_xid_of_nobody_knows_which_gpu_is_no_proof() -> None:
    odd = LogLine(topic="xid", seconds_since_boot=9.0, text="NVRM: Xid of no known form: 79")
    with pytest.raises(NotJudged, match="GPU that is not told: NVRM: Xid of no known form"):
        rules.fatal_xid(GPU0, gpu(), promise(), with_log((odd,)))
    assert code(rules.fatal_xid(GPU0, gpu(), promise(), with_log((odd, xid_line(79))))) == "GPU-XID"


def test_gaps_about_something_else_do_not_matter() -> None:
    gap = "kernel_log: 40 older lines about aer are left out"
    assert rules.fatal_xid(GPU0, gpu(), promise(), with_log((), gap, "other: lost")) is None
