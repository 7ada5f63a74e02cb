"""What got worse on a GPU during a run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gdrcheck.facts import Gpu, GpuHealth, NvLink, Nvml, RetiredPages, Unreadable
from gdrcheck.findings.catalogue import ENTRIES_BY_CODE
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.outcome import NotJudged, ProbeError
from gdrcheck.rules import gpu_after
from gdrcheck.xids import WatchBegun, XidSeen, XidWatch
from tests import facts as builders
from tests import gpu_facts

SLOT, OTHER = builders.GPU_SLOT, "0000:ff:00.0"
WHERE = Where(node="node1", gpu="gpu0")
TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
REFUSED = Unreadable(unreadable="NVML: unknown error")
QUIET = XidWatch(WatchBegun(time=TIME, watched=(SLOT,)), (), ())
HEALTHY = gpu_facts.gpu_health()


def with_xids(*numbers: int, slot: str = SLOT) -> XidWatch:
    seen = tuple(XidSeen(time=TIME, slot=slot, xid=number) for number in numbers)
    return XidWatch(QUIET.begun, seen, ())


def answer(health: GpuHealth | Unreadable) -> Gpu:
    return builders.gpu(SLOT, health=health)


def judged(
    after: GpuHealth | Unreadable,
    *,
    before: GpuHealth | Unreadable = HEALTHY,
    watch: XidWatch = QUIET,
) -> Finding | None:
    nvml = builders.nvml(gpus=(answer(after),))
    both = gpu_after.ends(WHERE, answer(before), nvml, watch)
    assert gpu_after.told(both, watch, SLOT)
    return gpu_after.grown(both, watch, SLOT)


def ecc(uncorrectable: object, correctable: object = 0) -> GpuHealth:
    volatile = {"correctable": correctable, "uncorrectable": uncorrectable}
    return gpu_facts.gpu_health(ecc={"volatile": volatile})


def rows(**changes: object) -> GpuHealth:
    return gpu_facts.gpu_health(row_remap=changes)


def pages(*, pending: bool) -> GpuHealth:
    retired = RetiredPages(single_bit=0, double_bit=1, pending=pending)
    return gpu_facts.gpu_health(retired_pages=retired)


# One that retires pages, as those before Ampere do.
OLD = pages(pending=False)


def asked(action: str | None) -> GpuHealth:
    return gpu_facts.gpu_health(recovery_action=action)


def one_link(**changes: object) -> GpuHealth:
    return gpu_facts.gpu_health(nvlinks=gpu_facts.nvlinks(gpu_facts.nvlink(3, **changes)))


def down() -> GpuHealth:
    return gpu_facts.gpu_health(nvlinks=gpu_facts.nvlinks(NvLink(number=3, active=False)))


def test_a_gpu_on_which_nothing_got_worse_passes() -> None:
    assert judged(HEALTHY) is None
    old = ecc(2)
    assert judged(old, before=old) is None
    pending = rows(pending=True)
    assert judged(pending, before=pending) is None
    assert judged(down(), before=down()) is None
    waiting = pages(pending=True)
    assert judged(waiting, before=waiting) is None
    for before, after in (("reset", "reset"), ("reset", "none"), (None, None)):
        assert judged(asked(after), before=asked(before)) is None
    # Corrected ones are shown, and wrong nothing.
    assert judged(ecc(0, correctable=70)) is None


@pytest.mark.parametrize(
    ("after", "code", "observed", "severity"),
    [
        (ecc(1), "GPU-ECC-UNCORRECTABLE", "0 -> 1", Severity.FAIL),
        (rows(pending=True), "GPU-ROW-REMAP", "pending", Severity.FAIL),
        (rows(failed=True), "GPU-ROW-REMAP", "failed", Severity.FAIL),
        (pages(pending=True), "GPU-PAGES-RETIRED", "pending", Severity.FAIL),
        (asked("reset"), "GPU-RESET-NEEDED", "none -> reset", Severity.FAIL),
        (down(), "GPU-NVLINK-DOWN", "NVLink 3 went down", Severity.FAIL),
        (one_link(recovery_errors=2), "GPU-NVLINK-ERRORS", "recoveries +2", Severity.FAIL),
        (one_link(replay_errors=5), "GPU-NVLINK-ERRORS", "replays +5", Severity.WARN),
    ],
)
def test_each_thing_that_got_worse_is_found(
    after: GpuHealth, code: str, observed: str, severity: Severity
) -> None:
    finding = judged(after, before=OLD if code == "GPU-PAGES-RETIRED" else HEALTHY)
    assert finding is not None
    assert (finding.code, finding.where, finding.severity) == (code, WHERE, severity)
    assert observed in finding.observed
    assert finding.code in ENTRIES_BY_CODE


@pytest.mark.parametrize("number", [79, 48, 31, 62, 9999])
def test_an_xid_of_any_class_but_notices_is_found(number: int) -> None:
    finding = judged(HEALTHY, watch=with_xids(63, number, number))
    assert finding is not None
    assert finding.code == "GPU-XID"
    assert finding.observed.count(f"Xid {number} (") == 1
    assert "63" not in finding.observed


def test_notices_and_xids_of_other_gpus_are_no_finding() -> None:
    assert judged(HEALTHY, watch=with_xids(63, 43, 92)) is None
    assert judged(HEALTHY, watch=with_xids(79, slot=OTHER)) is None


def test_an_action_that_the_driver_asks_for_is_found_beside_its_notice() -> None:
    finding = judged(asked("drain_and_reset"), watch=with_xids(154))
    assert finding is not None
    assert finding.code == "GPU-RESET-NEEDED"
    assert "154" in finding.evidence["Xids during the run"]


def test_the_worst_is_told_with_the_rest_as_evidence() -> None:
    links = gpu_facts.nvlinks(gpu_facts.nvlink(1, replay_errors=1))
    after = ecc(1).model_copy(update={"nvlinks": links})
    finding = judged(after, watch=with_xids(48))
    assert finding is not None
    assert finding.code == "GPU-ECC-UNCORRECTABLE"
    assert {"GPU-XID", "GPU-NVLINK-ERRORS", "Xids during the run"} <= set(finding.evidence)


def test_a_failure_goes_before_a_warning() -> None:
    finding = judged(one_link(replay_errors=1), watch=with_xids(74))
    assert finding is not None
    assert finding.code == "GPU-XID"


@pytest.mark.parametrize(
    ("nvml", "observed"),
    [
        (builders.nvml(gpus=(), lost={SLOT: "GPU is lost"}), "GPU is lost"),
        (builders.nvml(gpus=(), lost={"index 0": "GPU is lost"}), "index 0: GPU is lost"),
        (builders.nvml(gpus=()), "not listed by NVML"),
    ],
)
def test_a_gpu_that_nvml_lost_is_gone(nvml: Nvml, observed: str) -> None:
    finding = gpu_after.gone(WHERE, SLOT, nvml)
    assert finding is not None
    assert finding.code == "GPU-GONE"
    assert observed in finding.observed
    with pytest.raises(ProbeError, match="does not answer for the GPU"):
        gpu_after.ends(WHERE, answer(HEALTHY), nvml, QUIET)


def test_a_gpu_that_answers_is_not_gone() -> None:
    assert gpu_after.gone(WHERE, SLOT, builders.nvml(gpus=(answer(HEALTHY),))) is None


@pytest.mark.parametrize("nvml", [None, REFUSED])
def test_a_driver_that_does_not_answer_is_an_error(nvml: Unreadable | None) -> None:
    with pytest.raises(ProbeError, match=r"not seen here any more|unknown error"):
        gpu_after.gone(WHERE, SLOT, nvml)


UNTOLD = [
    REFUSED,
    ecc(REFUSED),
    gpu_facts.gpu_health(ecc=REFUSED),
    gpu_facts.gpu_health(row_remap=REFUSED),
    gpu_facts.gpu_health(retired_pages=REFUSED),
    gpu_facts.gpu_health(recovery_action=REFUSED),
    gpu_facts.gpu_health(nvlinks=REFUSED),
    one_link(recovery_errors=REFUSED),
    one_link(replay_errors=REFUSED),
    one_link(active=REFUSED),
]


@pytest.mark.parametrize("untold", UNTOLD)
def test_what_cannot_be_read_at_one_of_the_two_times_is_an_error(
    untold: GpuHealth | Unreadable,
) -> None:
    with pytest.raises(ProbeError, match="unknown error"):
        judged(untold)
    with pytest.raises(ProbeError, match="unknown error"):
        judged(HEALTHY, before=untold)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (ecc(3), ecc(0), "reset during the run, 3 -> 0"),
        (one_link(recovery_errors=1), HEALTHY, "reset during the run, 1 -> 0"),
        (HEALTHY, ecc(None), "at one of the two times only"),
    ],
)
def test_a_counter_that_fell_tells_nothing(before: GpuHealth, after: GpuHealth, why: str) -> None:
    with pytest.raises(ProbeError, match=why):
        judged(after, before=before)


def test_a_gpu_without_ecc_and_nvlinks_is_judged_by_the_rest() -> None:
    bare = gpu_facts.gpu_health(ecc=None, row_remap=None, nvlinks=())
    assert judged(bare, before=bare) is None
    assert judged(bare, before=bare, watch=with_xids(79)) is not None


@pytest.mark.parametrize(
    ("watch", "why"),
    [
        (XidWatch(None, (), ("no file",)), "no file"),
        (XidWatch(None, (), ()), "told nothing"),
        (XidWatch(QUIET.begun, (), ("it died",)), "it died"),
        (XidWatch(WatchBegun(time=TIME, watched=(OTHER,)), (), ()), "not among the GPUs"),
        (with_xids(79, slot="unknown"), "has no slot"),
    ],
)
def test_silence_of_a_watcher_that_did_not_watch_is_no_pass(watch: XidWatch, why: str) -> None:
    with pytest.raises(ProbeError, match=why):
        judged(HEALTHY, watch=watch)
    # What it did see counts all the same, and so does what NVML counted.
    finding = judged(ecc(1), watch=watch)
    assert finding is not None
    assert finding.code == "GPU-ECC-UNCORRECTABLE"


def test_a_gpu_whose_xids_nobody_can_watch_is_not_judged() -> None:
    begun = WatchBegun(time=TIME, watched=(), refused={SLOT: "Not Supported"})
    watch = XidWatch(begun, (), ())
    with pytest.raises(NotJudged, match="no counted error grew; Xids cannot be watched"):
        judged(HEALTHY, watch=watch)
    with pytest.raises(ProbeError, match="unknown error"):
        judged(ecc(REFUSED), watch=watch)
