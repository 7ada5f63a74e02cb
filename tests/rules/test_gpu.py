"""Rules about GPUs: each finding, and what blocks what."""

from __future__ import annotations

import pytest

from gdrcheck.facts import Facts, LogLine, PciFunction, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, NotJudged, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rules import gpu as rules
from tests import facts as make

GPU0 = Where(node=make.NODE, gpu="gpu0")
GPU1 = Where(node=make.NODE, gpu="gpu1")
SLOT = make.GPU_SLOT
OTHER = "0000:43:00.0"
UNREAD = Unreadable(unreadable="why")


def code(finding: Finding | None) -> str | None:
    return finding.code if finding else None


def two_gpus(**changes: object) -> Facts:
    tree = make.pci_tree()
    functions: tuple[PciFunction, ...] = (*tree.functions, make.gpu_function(OTHER))
    return make.facts(pci=make.pci_tree(functions=functions), **changes)


def profile(count: int = 1, **changes: object) -> Profile:
    return make.profile(gpus={"count": count, "model": "NVIDIA H200"}, **changes)


def test_a_healthy_gpu_has_no_finding() -> None:
    facts, promised = make.facts(), profile()
    assert rules.missing(GPU0, SLOT, promised, facts) is None
    assert rules.extra(promised, facts) is None
    assert rules.nvml_failed(promised, facts) is None
    gpu = rules.answering(GPU0, SLOT, promised, facts)
    assert gpu == make.gpu()
    assert rules.wrong_model(GPU0, gpu, promised) is None
    assert rules.small_bar1(GPU0, gpu, promised) is None


def test_fewer_gpus_than_promised() -> None:
    finding = rules.missing(GPU1, None, profile(2), make.facts())
    assert finding is not None
    assert (finding.code, finding.where) == ("GPU-MISSING", GPU1)
    assert (finding.observed, finding.expected) == (f"1 ({SLOT}) on PCI", "2")


def test_a_function_that_could_not_be_placed_is_shown_with_what_is_missing() -> None:
    tree = make.pci_tree(functions=(), misplaced={SLOT: "vendor: Input/output error"})
    finding = rules.missing(GPU0, None, profile(), make.facts(pci=tree))
    assert finding is not None
    assert finding.observed == "none on PCI"
    assert finding.evidence == {f"not placed: {SLOT}": "vendor: Input/output error"}


def test_more_gpus_than_promised() -> None:
    finding = rules.extra(profile(), two_gpus())
    assert code(finding) == "GPU-EXTRA"
    assert code(rules.extra(make.profile(gpus={"count": 0}), make.facts())) == "GPU-EXTRA"
    assert rules.extra(profile(2), two_gpus()) is None
    with pytest.raises(NotPromised):
        rules.extra(make.profile(gpus=None), two_gpus())


def test_pci_that_could_not_be_read_says_nothing_of_gpus() -> None:
    facts = make.facts(pci=UNREAD)
    with pytest.raises(Blocked, match="error in pci_listed"):
        rules.missing(GPU0, None, profile(), facts)
    with pytest.raises(Blocked, match="error in pci_listed"):
        rules.extra(profile(), facts)
    with pytest.raises(Blocked, match="error in pci_listed"):
        rules.answering(GPU0, None, profile(), facts)


def test_numbers_of_gpus_count_only_with_as_many_as_promised() -> None:
    rules.require_promised_number(profile(2), two_gpus())
    rules.require_promised_number(make.profile(gpus=None), two_gpus())
    with pytest.raises(Blocked, match=r"GPU-MISSING at node1/gpu2$"):
        rules.require_promised_number(profile(4), two_gpus())
    with pytest.raises(Blocked, match=r"GPU-EXTRA at node1$"):
        rules.require_promised_number(profile(1), two_gpus())


@pytest.mark.parametrize("nvml", [UNREAD, None])
def test_nvml_that_does_not_answer_blocks_every_gpu(nvml: Unreadable | None) -> None:
    facts = make.facts(nvml=nvml)
    assert code(rules.nvml_failed(profile(), facts)) == "GPU-NVML-FAILED"
    for rule in (rules.lost, rules.answering):
        with pytest.raises(Blocked, match=f"GPU-NVML-FAILED at {make.NODE}$"):
            rule(GPU0, SLOT, profile(), facts)


def test_nvml_is_not_asked_for_where_no_gpus_are_promised() -> None:
    for promised in (make.profile(gpus=None), make.profile(gpus={"count": 0})):
        with pytest.raises(NotPromised):
            rules.nvml_failed(promised, make.facts(nvml=UNREAD))


def test_no_driver_blocks_all_that_the_driver_would_answer() -> None:
    facts = make.facts(nvidia=None, nvml=None)
    assert rules.missing(GPU0, SLOT, profile(), facts) is None
    for rule in (rules.lost, rules.answering):
        with pytest.raises(Blocked, match="DRV-NVIDIA-MISSING at node1"):
            rule(GPU0, SLOT, profile(), facts)
    with pytest.raises(Blocked, match="DRV-NVIDIA-MISSING at node1"):
        rules.nvml_failed(profile(), facts)


def test_a_device_node_without_its_module_is_a_missing_module() -> None:
    unloaded = make.host(modules=(make.module("nvidia", loaded=False),), loaded_modules=())
    facts = make.facts(nvml=UNREAD, host=unloaded)
    with pytest.raises(Blocked, match="DRV-MODULE-MISSING at node1"):
        rules.nvml_failed(profile(), facts)


def test_a_missing_gpu_blocks_what_is_asked_of_it() -> None:
    for rule in (rules.lost, rules.answering):
        with pytest.raises(Blocked, match="GPU-MISSING at node1/gpu1"):
            rule(GPU1, None, profile(2), make.facts())


@pytest.mark.parametrize(
    ("lost", "observed"),
    [
        ({OTHER: "NVML_ERROR_GPU_IS_LOST (15)"}, f"{OTHER}: NVML_ERROR_GPU_IS_LOST (15)"),
        ({"index 1": "NVML_ERROR_UNKNOWN (999)"}, f"{OTHER}: index 1: NVML_ERROR_UNKNOWN (999)"),
        ({}, f"{OTHER}: not listed by NVML"),
    ],
)
def test_a_gpu_on_pci_for_which_the_driver_does_not_answer(
    lost: dict[str, str], observed: str
) -> None:
    xid = LogLine(topic="xid", seconds_since_boot=9.5, text="NVRM: Xid (PCI:0000:43:00): 79, x")
    other = LogLine(topic="xid", seconds_since_boot=9.9, text="NVRM: Xid (PCI:0000:1b:00): 13, x")
    facts = two_gpus(nvml=make.nvml(lost=lost), host=make.host(kernel_log=(xid, other)))
    assert rules.lost(GPU0, SLOT, profile(2), facts) is None
    finding = rules.lost(GPU1, OTHER, profile(2), facts)
    assert finding is not None
    assert (finding.code, finding.observed) == ("GPU-LOST", observed)
    assert finding.evidence == {"kernel driver": "nvidia", "last Xid": xid.text}
    with pytest.raises(Blocked, match="GPU-LOST at node1/gpu1"):
        rules.answering(GPU1, OTHER, profile(2), facts)


def test_the_model_is_a_pattern() -> None:
    gpu = make.gpu(model="NVIDIA H200 NVL")
    finding = rules.wrong_model(GPU0, gpu, profile())
    assert code(finding) == "GPU-MODEL"
    pattern = make.profile(gpus={"count": 1, "model": "NVIDIA H200*"})
    assert rules.wrong_model(GPU0, gpu, pattern) is None


@pytest.mark.parametrize(
    ("mode", "promised", "expected"),
    [
        ("enabled", "disabled", "GPU-MIG"),
        ("disabled", "enabled", "GPU-MIG"),
        (None, "enabled", "GPU-MIG"),
        ("enabled", "enabled", None),
        ("disabled", "disabled", None),
        (None, "disabled", None),
    ],
)
def test_the_mig_mode(mode: str | None, promised: str, expected: str | None) -> None:
    promise = profile(expect={"mig": promised})
    assert code(rules.wrong_mig(GPU0, make.gpu(mig=mode), promise)) == expected


def test_a_mig_mode_that_nobody_promised_is_shown() -> None:
    with pytest.raises(NotJudged, match="MIG mode: enabled"):
        rules.wrong_mig(GPU0, make.gpu(mig="enabled"), profile())


@pytest.mark.parametrize(
    ("bar1_bytes", "expected"), [(99, "GPU-BAR1-SMALL"), (100, None), (101, None)]
)
def test_bar1_against_the_promise(bar1_bytes: int, expected: str | None) -> None:
    promise = profile(expect={"bar1_bytes": 100})
    gpu = make.gpu(bar1_total_bytes=bar1_bytes, memory_total_bytes=UNREAD)
    assert code(rules.small_bar1(GPU0, gpu, promise)) == expected


def test_bar1_without_promise_is_judged_only_when_it_holds_all_memory() -> None:
    gpu = make.gpu(bar1_total_bytes=100, memory_total_bytes=100)
    assert rules.small_bar1(GPU0, gpu, profile()) is None
    gpu = make.gpu(bar1_total_bytes=99, memory_total_bytes=100)
    with pytest.raises(NotJudged, match="99 of the 100 bytes"):
        rules.small_bar1(GPU0, gpu, profile())


@pytest.mark.parametrize("promised", [True, False])
def test_what_could_not_be_read_is_no_pass(promised: bool) -> None:
    expect: dict[str, object] = {"mig": "disabled", "bar1_bytes": 1} if promised else {}
    promise = profile(expect=expect)
    with pytest.raises(ProbeError):
        rules.wrong_model(GPU0, make.gpu(model=UNREAD), promise)
    with pytest.raises(ProbeError):
        rules.wrong_mig(GPU0, make.gpu(mig=UNREAD), promise)
    with pytest.raises(ProbeError):
        rules.small_bar1(GPU0, make.gpu(bar1_total_bytes=UNREAD), promise)
