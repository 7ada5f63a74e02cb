"""What becomes of CUDA's errors, of GPUs that it does not show, and of memory of a wrong kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from gdrcheck.facts import MigDevice
from gdrcheck.findings.model import Where
from gdrcheck.mismatch import LooksLike, Mismatch, Verdict
from gdrcheck.outcome import Blocked, ProbeError
from gdrcheck.rules.cuda import (
    buffer_refused,
    call_failed,
    none_seen,
    open_failed,
    start_failed,
    unseen,
)
from gdrcheck.rules.gpu_pattern import flip_missed, pattern_wrong
from tests import facts as builders
from tests.rules.attempts import proof

NODE, GPU = Where(node="node1"), Where(node="node1", gpu="gpu0")
SLOT = builders.GPU_SLOT


@dataclass
class Failure:
    """An error of the driver."""

    name: str
    number: int
    function: str = "cuInit"
    explanation: str = "a text"

    def __str__(self) -> str:
        return f"{self.function}: {self.name} ({self.number}): {self.explanation}"


def failure(name: str, number: int, function: str = "cuInit") -> Failure:
    return Failure(f"CUDA_ERROR_{name}", number, function)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (failure("INSUFFICIENT_DRIVER", 35), "GPU-CUDA-DRIVER-OLD"),
        (failure("CALL_REQUIRES_NEWER_DRIVER", 36), "GPU-CUDA-DRIVER-OLD"),
        (failure("SYSTEM_NOT_READY", 802), "GPU-CUDA-FABRIC"),
        (failure("SYSTEM_DRIVER_MISMATCH", 803), "GPU-CUDA-MISMATCH"),
        (failure("COMPAT_NOT_SUPPORTED_ON_DEVICE", 804), "GPU-CUDA-MISMATCH"),
        (failure("STUB_LIBRARY", 34), "GPU-CUDA-MISMATCH"),
        (failure("NO_DEVICE", 100), "GPU-CUDA-NONE"),
        (failure("UNKNOWN", 999), "GPU-CUDA-FAILED"),
        (Failure("CUDA_DRIVER_LIBRARY_MISSING", -1), "GPU-CUDA-FAILED"),
    ],
)
def test_cuda_that_does_not_start_is_found_once_at_the_node(error: Failure, code: str) -> None:
    finding = start_failed(NODE, error, builders.profile(), builders.facts())
    assert (finding.code, finding.where) == (code, NODE)
    assert str(error.number) in finding.evidence["CUDA error"]
    assert finding.evidence["call"] == "cuInit"


def test_a_fabric_that_was_found_already_blocks() -> None:
    nvml = builders.nvml(gpus=(builders.gpu(fabric_state="in_progress"),))
    with pytest.raises(Blocked, match="DRV-FABRIC-MANAGER at node1"):
        start_failed(
            NODE,
            failure("SYSTEM_NOT_READY", 802),
            builders.profile(),
            builders.facts(nvml=nvml),
        )


@pytest.mark.parametrize("number", [35, 802])
def test_an_error_of_the_node_is_not_found_at_a_gpu(number: int) -> None:
    names = {35: "INSUFFICIENT_DRIVER", 802: "SYSTEM_NOT_READY"}
    assert open_failed(GPU, failure(names[number], number), SLOT, builders.facts()).where == NODE


@pytest.mark.parametrize(
    ("error", "opening", "later"),
    [
        (failure("UNKNOWN", 999), "GPU-CUDA-FAILED", "GPU-GONE"),
        (failure("INVALID_DEVICE", 101), "GPU-CUDA-FAILED", "GPU-GONE"),
        (failure("OUT_OF_MEMORY", 2), "GPU-MEMORY-FULL", "GPU-MEMORY-FULL"),
        (failure("LAUNCH_FAILED", 719), "GPU-CUDA-FAILED", "GPU-CUDA-FAILED"),
    ],
)
def test_a_call_that_fails_is_found_at_the_gpu(error: Failure, opening: str, later: str) -> None:
    facts = builders.facts()
    for finding, code in (
        (open_failed(GPU, error, SLOT, facts), opening),
        (call_failed(GPU, error, SLOT, facts), later),
    ):
        assert (finding.code, finding.where) == (code, GPU)
        assert finding.evidence["compute mode"] == "default"


@dataclass
class Device:
    slot: str = "0000:61:00.0"
    uuid: str = "11111111-2222-3333-4444-555555555550"


@dataclass
class Survey:
    gpus: tuple[Any, ...] = ()
    lost: tuple[Any, ...] = ()


def test_no_device_at_all_is_found_once() -> None:
    finding = none_seen(Survey(), builders.facts(), "")
    assert finding is not None
    assert (finding.code, finding.where) == ("GPU-CUDA-NONE", NODE)
    assert finding.evidence["CUDA_VISIBLE_DEVICES"].startswith("set, and empty")
    assert none_seen(Survey(gpus=(Device(),)), builders.facts(), None) is None
    # One that does not answer is found at the GPU.
    assert none_seen(Survey(lost=(failure("UNKNOWN", 999),)), builders.facts(), None) is None


def test_a_gpu_that_cuda_does_not_show_is_found_with_what_it_shows() -> None:
    finding = unseen(GPU, SLOT, Survey(gpus=(Device(),)), builders.facts(), "0")
    assert (finding.code, finding.where) == ("GPU-CUDA-UNSEEN", GPU)
    assert "0000:61:00.0" in finding.evidence["devices that CUDA shows"]
    assert finding.evidence["CUDA_VISIBLE_DEVICES"] == "0"
    assert finding.evidence["MIG"] == "disabled"


def test_a_gpu_that_one_mig_device_hides_is_not_measured_and_not_blamed() -> None:
    sliced = MigDevice(uuid=f"MIG-{Device().uuid.upper()}", name="MIG 1g.18gb")
    other = builders.gpu(Device().slot, mig="enabled", mig_devices=(sliced,))
    facts = builders.facts(nvml=builders.nvml(gpus=(builders.gpu(SLOT), other)))
    with pytest.raises(ProbeError, match=f"one MIG device to a process.*nothing of {SLOT}"):
        unseen(GPU, SLOT, Survey(gpus=(Device(),)), facts, None)
    lost = (failure("UNKNOWN", 999, "cuDeviceGetUuid"),)
    assert unseen(GPU, SLOT, Survey(gpus=(Device(),), lost=lost), facts, None).code == "GPU-GONE"


def test_a_gpu_that_cuda_counts_and_that_does_not_answer_is_gone() -> None:
    lost = (failure("UNKNOWN", 999, "cuDeviceGetUuid"),)
    finding = unseen(GPU, SLOT, Survey(gpus=(Device(),), lost=lost), builders.facts(), None)
    assert finding.code == "GPU-GONE"
    assert "cuDeviceGetUuid" in finding.observed


@pytest.mark.parametrize(
    ("changes", "right"),
    [
        ({}, True),
        ({"kind": "gpu-vmm"}, True),
        ({"managed": True}, False),
        ({"memory_type": "host"}, False),
        ({"ordinal": 1}, False),
        ({"gdr_capable": False}, False),
        ({"range_bytes": 4096}, False),
        ({"kind": "pinned", "memory_type": "host", "gdr_capable": False}, True),
        ({"kind": "pinned"}, False),
        # The memory type alone does not tell managed memory from the GPU's.
        ({"kind": "managed", "managed": True, "gdr_capable": False}, True),
        ({"kind": "managed"}, False),
    ],
)
def test_memory_must_be_what_was_asked_for(changes: dict[str, Any], right: bool) -> None:
    finding = buffer_refused(GPU, proof(**changes))
    assert (finding is None) == right
    if finding is not None:
        assert (finding.code, finding.where) == ("GPU-MEMORY-KIND", GPU)


def mismatch(offset: int = 7, count: int = 1, looks_like: LooksLike = "other") -> Mismatch:
    return Mismatch(
        first_bad_offset=offset,
        bad_bytes=count,
        excerpt_offset=0,
        expected_hex="00",
        got_hex="01",
        looks_like=looks_like,
    )


ONE = mismatch()


def test_bytes_that_do_not_stay_are_found_at_the_gpu() -> None:
    assert pattern_wrong(GPU, Verdict(None, None), "1 GiB") is None
    finding = pattern_wrong(GPU, Verdict(ONE, ONE), "1 GiB")
    assert finding is not None
    assert finding.code == "GPU-PATTERN-WRONG"
    assert "first at offset 7" in finding.observed
    for verdict in (Verdict(ONE, None), Verdict(None, ONE), Verdict(ONE, mismatch(count=2))):
        finding = pattern_wrong(GPU, verdict, "1 GiB")
        assert finding is not None
        assert finding.code == "GPU-VERIFIERS-DISAGREE"


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (Verdict(ONE, ONE), None),
        (Verdict(None, None), "GPU-PATTERN-WRONG"),
        (Verdict(mismatch(8), mismatch(8)), "GPU-PATTERN-WRONG"),
        (Verdict(mismatch(count=2), mismatch(count=2)), "GPU-PATTERN-WRONG"),
        (Verdict(None, ONE), "GPU-VERIFIERS-DISAGREE"),
    ],
)
def test_a_byte_made_wrong_on_purpose_must_be_found(verdict: Verdict, code: str | None) -> None:
    finding = flip_missed(GPU, verdict, 7)
    assert (finding.code if finding else None) == code
