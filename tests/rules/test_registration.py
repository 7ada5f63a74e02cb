"""What becomes of an attempt to register GPU memory: by profile, place, and what happened."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gdrcheck.facts import Facts
from gdrcheck.findings import catalogue
from gdrcheck.findings.model import Finding, Severity
from gdrcheck.outcome import Blocked, NotJudged, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import GpuNic, gpu_nic_pairs
from gdrcheck.registration import Attempt, Refusal, Support
from gdrcheck.rules.registration import (
    judge_attempt,
    require_known_rail,
    require_memlock,
    works,
)
from gdrcheck.rules.registration_evidence import evidence_of_attempt
from tests import facts as builders
from tests.rules.attempts import (
    EBADF,
    attempt,
    growth,
    pair,
    proof,
    refused,
    region,
    regions,
    with_peermem,
)

NO_EXPORT = Support(dmabuf_errno=EBADF, dmabuf_attribute=False, gdr_attribute=True)
ABSENT = refused(
    "dmabuf",
    Refusal("export", "cuMemGetHandleForAddressRange: no", cuda="CUDA_ERROR_NOT_SUPPORTED"),
    support=NO_EXPORT,
)
BROKEN = refused("dmabuf", Refusal("register", "ibv_reg_dmabuf_mr: Remote I/O error", 121))
WORKS = attempt("dmabuf")


def judged(
    one: Attempt,
    profile: Profile,
    facts: Facts | None = None,
    *,
    other_works: bool | None = None,
    on_rail: bool = True,
) -> Finding | None:
    """The judgement; the other method must not be asked for unless ``other_works`` is given."""
    facts = facts or with_peermem()
    subject = replace(pair(profile, facts), on_rail=on_rail)

    def other() -> bool:
        assert other_works is not None, "the other method was asked for"
        return other_works

    evidence = evidence_of_attempt(one, subject, facts)
    finding = judge_attempt(subject, one, evidence, profile, other)
    if finding is not None:
        assert finding.severity is catalogue.entry(finding.code).severity
    return finding


def word(one: Attempt, profile: Profile, **how: Any) -> str:
    """The outcome in a word, or the code."""
    try:
        finding = judged(one, profile, **how)
    except NotJudged:
        return "not judged"
    except NotPromised:
        return "skipped"
    return finding.code if finding else "passed"


NAMED = [builders.profile(registration="dmabuf"), builders.profile(registration="both")]
ANY = builders.profile()
OTHER = builders.profile(registration="peermem")


@pytest.mark.parametrize("profile", NAMED, ids=["dmabuf", "both"])
@pytest.mark.parametrize(
    ("one", "outcome"),
    [(WORKS, "passed"), (ABSENT, "MR-DMABUF-NO-GPU"), (BROKEN, "MR-GPU-FAILED")],
)
def test_a_method_that_the_profile_names_must_work(
    one: Attempt, outcome: str, profile: Profile
) -> None:
    assert word(one, profile) == outcome


@pytest.mark.parametrize(
    ("one", "other_works", "outcome"),
    [
        (WORKS, None, "passed"),
        (ABSENT, True, "skipped"),
        (ABSENT, False, "MR-DMABUF-NO-GPU"),
        # Broken is broken, whether the other one works or not.
        (BROKEN, None, "MR-GPU-FAILED"),
    ],
)
def test_one_of_two_methods_may_be_absent_and_none_broken(
    one: Attempt, other_works: bool | None, outcome: str
) -> None:
    assert word(one, ANY, other_works=other_works) == outcome


@pytest.mark.parametrize("one", [WORKS, ABSENT, BROKEN])
@pytest.mark.parametrize(
    ("profile", "on_rail"), [(OTHER, True), (ANY, False), (NAMED[1], False)], ids=str
)
def test_what_the_profile_does_not_ask_for_is_told_and_not_judged(
    one: Attempt, profile: Profile, on_rail: bool
) -> None:
    assert word(one, profile, on_rail=on_rail) == "not judged"


@pytest.mark.parametrize(
    ("one", "outcome"), [(WORKS, "passed"), (BROKEN, "MR-GPU-FAILED"), (ABSENT, "skipped")]
)
def test_a_full_matrix_judges_every_pair_as_a_rail(one: Attempt, outcome: str) -> None:
    full = builders.profile(matrix="full")
    assert word(one, full, on_rail=False, other_works=True) == outcome


def test_a_full_matrix_does_not_judge_a_method_that_is_not_named() -> None:
    full = builders.profile(matrix="full", registration="peermem")
    assert word(BROKEN, full, on_rail=False) == "not judged"


def test_what_is_skipped_or_not_judged_says_why_with_the_error() -> None:
    with pytest.raises(NotPromised, match=r"cannot export memory.*: no; the other method works"):
        judged(ABSENT, ANY, other_works=True)
    with pytest.raises(NotJudged, match=r"MR-GPU-FAILED: .*Remote I/O error.*by peermem"):
        judged(BROKEN, OTHER)
    with pytest.raises(NotJudged, match=r"up to 1073741824 bytes.*not the one of the GPU's rail"):
        judged(WORKS, ANY, on_rail=False)


def test_a_gpu_without_a_rail_is_said_to_have_none() -> None:
    facts = with_peermem()
    two = builders.profile(gpus={"count": 2, "model": "NVIDIA H200"})
    far = next(one for one in gpu_nic_pairs(two, facts) if one.gpu_number == 1)
    evidence = evidence_of_attempt(WORKS, far, facts)
    with pytest.raises(NotJudged, match="this GPU has no rail"):
        judge_attempt(far, WORKS, evidence, two, lambda: True)


def test_a_failure_says_which_gpu_nic_method_errno_and_what_is_around() -> None:
    facts = with_peermem(clients=())
    finding = judged(refused("peermem"), OTHER, facts)
    assert finding is not None
    assert finding.code == "MR-PEERMEM-UNREGISTERED"
    assert finding.where.text() == "node1/gpu0/mlx5_0"
    evidence = finding.evidence
    assert evidence["method"] == "peermem"
    assert evidence["errno"] == "14 EFAULT (Bad address)"
    assert evidence["step"] == "register"
    assert evidence["range"] == "whole, 65536 bytes"
    assert evidence["nvidia-peermem"].startswith("loaded: yes, as nvidia_peermem; clients of the")
    for key in (
        *("kernel", "driver", "memlock soft limit", "IPC_LOCK effective", "IOMMU", "distance"),
        *("ACS redirect", "BAR1, before the checks", "attributes of the GPU", "buffer"),
    ):
        assert evidence[key]


def test_candidates_come_with_the_most_likely_first() -> None:
    finding = judged(refused("peermem"), OTHER, with_peermem(clients=None))
    assert finding is not None
    codes = finding.evidence["candidates"].split(", ")
    assert codes[0] == finding.code == "MR-PEERMEM-REFUSED"
    assert "MR-PEERMEM-UNREGISTERED" in codes


@pytest.mark.parametrize("profile", [ANY, OTHER, NAMED[0]], ids=["any", "peermem", "dmabuf"])
@pytest.mark.parametrize("on_rail", [True, False])
def test_a_success_without_peermem_is_a_finding_whoever_asked(
    profile: Profile, on_rail: bool
) -> None:
    facts = with_peermem(loaded=False, module=None, clients=None)
    assert word(attempt("peermem"), profile, facts=facts, on_rail=on_rail) == "MR-NOT-GPU-MEMORY"


def test_a_success_of_a_gpu_that_cannot_export_is_a_finding() -> None:
    assert word(attempt("dmabuf", support=NO_EXPORT), ANY) == "MR-NOT-GPU-MEMORY"


@pytest.mark.parametrize("on_rail", [True, False])
def test_what_is_wrong_with_the_gpu_is_found_at_the_gpu_on_every_pair(on_rail: bool) -> None:
    wrong = refused("dmabuf", Refusal("prove", "managed"), proof=proof(managed=True))
    gone = refused("dmabuf", Refusal("export", "unknown error", cuda="CUDA_ERROR_UNKNOWN"))
    full = refused("dmabuf", Refusal("allocate", "full", cuda="CUDA_ERROR_OUT_OF_MEMORY"))
    codes = {"GPU-MEMORY-KIND": wrong, "GPU-GONE": gone, "GPU-MEMORY-FULL": full}
    for code, one in codes.items():
        finding = judged(one, ANY, on_rail=on_rail)
        assert finding is not None
        assert (finding.code, finding.where.text()) == (code, "node1/gpu0")


@pytest.mark.parametrize("changes", [{"address": 0}, {"length_bytes": 4096}])
def test_a_region_of_another_range_is_found_with_the_range(changes: dict[str, int]) -> None:
    wrong = replace(region("interior"), **changes)
    finding = judged(attempt(regions=(*regions(), wrong)), ANY)
    assert finding is not None
    assert finding.code == "MR-WRONG-RANGE"
    assert finding.evidence["range"] == "interior"
    assert finding.evidence["method"] == "dmabuf"


@pytest.mark.parametrize("changes", [{"lkey": 11}, {"rkey": 11}])
def test_two_neighbours_with_one_key_are_found(changes: dict[str, int]) -> None:
    made = [
        replace(one, **changes) if one.range == "second neighbour" else one for one in regions()
    ]
    assert word(attempt(regions=tuple(made)), ANY) == "MR-WRONG-KEY"


@pytest.mark.parametrize(
    "changes",
    [
        {"fds_after": 21},
        {"rss_after_bytes": 364 << 20},
        {"free_after_bytes": (100 << 30) - (64 << 20)},
    ],
)
def test_what_stays_in_use_is_a_leak(changes: dict[str, int]) -> None:
    assert word(attempt(growth=growth(**changes)), ANY) == "MR-LEAK"


@pytest.mark.parametrize(
    "changes",
    [
        {"fds_after": 19},
        {"rss_after_bytes": 308 << 20},
        {"free_after_bytes": (100 << 30) - (2 << 20)},
        {"last_us": 60_000.0},
    ],
)
def test_what_allocators_keep_is_no_leak(changes: dict[str, Any]) -> None:
    assert word(attempt(growth=growth(**changes)), ANY) == "passed"


@pytest.mark.parametrize(
    "one",
    [
        attempt(regions=(*regions(), region(register_us=1.1e6))),
        attempt(regions=(*regions(), region(export_us=1.1e6))),
        attempt(regions=(*regions(), region(deregister_us=1.1e6))),
        attempt(growth=growth(first_us=70_000.0, last_us=2_505_000.0)),
    ],
)
def test_slow_is_a_warning(one: Attempt) -> None:
    finding = judged(one, ANY)
    assert finding is not None
    assert (finding.code, finding.severity) == ("MR-SLOW", Severity.WARN)


def test_a_range_of_more_gib_may_take_longer() -> None:
    long = region(requested_bytes=8 << 30, length_bytes=8 << 30, register_us=7e6)
    assert word(attempt(regions=(*regions(), long)), ANY) == "passed"


@pytest.mark.parametrize(
    ("changes", "lacking"),
    [
        ({"regions": ()}, "whole, interior"),
        ({"regions": regions()[1:]}, "a size"),
        ({"regions": regions()[:-1]}, "second neighbour"),
        ({"growth": None}, "many times"),
        ({"regions": (), "growth": None, "sizes_bytes": ()}, "many times"),
    ],
)
def test_nothing_refused_and_not_all_tried_is_an_error(
    changes: dict[str, Any], lacking: str
) -> None:
    with pytest.raises(ProbeError, match=lacking):
        judged(attempt(**changes), ANY)


def test_small_sizes_alone_prove_nothing() -> None:
    small = tuple(one for one in regions() if one.requested_bytes < 2 << 20)
    one = attempt(
        sizes_bytes=(64 << 10,), regions=small, limited_by="the GPU has 9 MiB of memory free"
    )
    why = r"only 64 KiB could be tried: the GPU has 9 MiB of memory free; free the GPU's memory"
    facts = with_peermem()
    place = pair(ANY, facts)
    with pytest.raises(ProbeError, match=why):
        judged(one, ANY)
    with pytest.raises(ProbeError, match=why):
        works(one, evidence_of_attempt(one, place, facts), place)
    enough = region(requested_bytes=2 << 20, length_bytes=2 << 20)
    assert word(replace(one, regions=(*small, enough)), ANY) == "passed"


def test_a_method_that_only_warns_works() -> None:
    facts = with_peermem()
    subject = pair(ANY, facts)

    def does(one: Attempt) -> bool:
        return works(one, evidence_of_attempt(one, subject, facts), subject)

    assert does(WORKS)
    assert does(attempt(growth=growth(first_us=1.0, last_us=2e6)))
    assert not does(BROKEN)
    assert not does(attempt(growth=growth(fds_after=84)))


def subject(**changes: Any) -> GpuNic:
    return replace(pair(ANY, builders.facts()), **changes)


def test_a_low_limit_on_locked_memory_blocks_as_for_host_memory() -> None:
    low = {"memlock_soft_bytes": 8 << 20, "memlock_hard_bytes": 8 << 20}
    require_memlock(subject(), builders.facts())
    for uid, code in ((0, "HOST-CAP-IPCLOCK"), (1000, "HOST-MEMLOCK-LIMIT")):
        limits = builders.limits(**low, effective_capabilities=0, uid=uid)
        with pytest.raises(Blocked, match=f"{code} at node1/mlx5_0$"):
            require_memlock(subject(), builders.facts(limits=limits))


def test_with_a_gpu_missing_it_is_unknown_which_are_the_rails() -> None:
    facts = builders.facts()
    two = builders.profile(gpus={"count": 2, "model": "NVIDIA H200"})
    with pytest.raises(Blocked, match="GPU-MISSING at node1/gpu1"):
        require_known_rail(subject(), two, facts)
    full = builders.profile(gpus={"count": 2, "model": "NVIDIA H200"}, matrix="full")
    require_known_rail(subject(), full, facts)
    with pytest.raises(Blocked, match="GPU-MISSING at node1/gpu1"):
        require_known_rail(subject(gpu_slot=None), full, facts)
    require_known_rail(subject(), ANY, facts)
    with pytest.raises(NotPromised, match="fewer GPUs than rails"):
        require_known_rail(subject(gpu_slot=None, gpu_number=None), ANY, facts)
