"""What becomes of transfers from and to GPU memory through one NIC."""

from __future__ import annotations

from typing import Any

import pytest

from gdrcheck.findings.model import Finding
from gdrcheck.mismatch import LooksLike, Mismatch
from gdrcheck.outcome import NotJudged, ProbeError
from gdrcheck.registration import Movement, Refusal
from gdrcheck.rules.movement import judge_movement
from gdrcheck.rules.registration_evidence import evidence_of_movement
from tests import facts as builders
from tests.rules.attempts import moved, movement, pair, with_peermem


def wrong(looks_like: LooksLike = "zeros") -> Mismatch:
    return Mismatch(
        first_bad_offset=4096,
        bad_bytes=61,
        excerpt_offset=4096,
        expected_hex="0102",
        got_hex="0000",
        looks_like=looks_like,
    )


def judged(one: Movement, **promises: object) -> Finding | None:
    facts, profile = with_peermem(), builders.profile(**promises)
    subject = pair(profile, facts)
    return judge_movement(subject, one, evidence_of_movement(one, subject, facts), profile)


def spoiled(**changes: Any) -> Movement:
    """All ways, the last transfer spoiled."""
    return movement(moved=(*movement().moved, moved(**changes)))


@pytest.mark.parametrize("method", ["dmabuf", "peermem"])
def test_every_byte_right_passes(method: str) -> None:
    assert judged(movement(method)) is None


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"by_gpu": wrong(), "by_cpu": wrong()}, "MR-DATA-WRONG"),
        ({"by_cpu": wrong(), "sink_is_gpu": False, "way": "gpu to host"}, "MR-DATA-WRONG"),
        ({"by_cpu": wrong()}, "GPU-VERIFIERS-DISAGREE"),
        ({"by_gpu": wrong()}, "GPU-VERIFIERS-DISAGREE"),
        ({"by_gpu": wrong("poison"), "by_cpu": wrong("zeros")}, "GPU-VERIFIERS-DISAGREE"),
        ({"spilled": "3 bytes before the range"}, "MR-DATA-SPILLED"),
        # The gravest first: bytes of the range count before bytes beside it.
        ({"by_gpu": wrong(), "by_cpu": wrong(), "spilled": "1 byte"}, "MR-DATA-WRONG"),
    ],
)
def test_wrong_bytes_are_found_at_the_pair(changes: dict[str, Any], code: str) -> None:
    finding = judged(spoiled(**changes))
    assert finding is not None
    assert (finding.code, finding.where.text()) == (code, "node1/gpu0/mlx5_0")
    assert finding.evidence["method"] == "dmabuf"
    assert finding.evidence["flush"]


def test_wrong_data_says_where_and_what_it_looks_like() -> None:
    bad = wrong("previous iteration")
    finding = judged(spoiled(operation="READ", by_gpu=bad, by_cpu=bad))
    assert finding is not None
    assert finding.observed == (
        "READ, gpu to gpu, 65 bytes: 61 wrong bytes, the first at offset 4096, they look like "
        "previous iteration"
    )


def failed(**changes: Any) -> Movement:
    values: dict[str, Any] = {
        "refusal": Refusal("move", "READ of 64 KiB: LOC_PROT_ERR, vendor error 0x51"),
        "way": "gpu to gpu",
        "operation": "READ",
        "status": "LOC_PROT_ERR",
        "vendor_error": 0x51,
        "moved": (moved(),),
    }
    return movement(**(values | changes))


def test_a_transfer_that_fails_names_status_and_what_it_points_to() -> None:
    finding = judged(failed())
    assert finding is not None
    assert finding.code == "MR-MOVE-FAILED"
    assert finding.evidence["completion status"] == "LOC_PROT_ERR"
    assert finding.evidence["vendor error"] == "0x51"
    assert finding.evidence["transfer"] == "READ, gpu to gpu"
    assert "WRITE works this way and READ does not" in finding.evidence["what it points to"]


def test_wrong_bytes_before_a_failure_are_the_finding() -> None:
    finding = judged(failed(moved=(moved(by_gpu=wrong(), by_cpu=wrong()),)))
    assert finding is not None
    assert finding.code == "MR-DATA-WRONG"


@pytest.mark.parametrize(
    ("refusal", "code", "where"),
    [
        (Refusal("register", "Bad address", 14), "MR-PEERMEM-REFUSED", "node1/gpu0/mlx5_0"),
        (Refusal("connect", "modify_qp", 22), "MR-MOVE-FAILED", "node1/gpu0/mlx5_0"),
        (Refusal("move", "unknown", cuda="CUDA_ERROR_UNKNOWN"), "GPU-GONE", "node1/gpu0"),
        (
            Refusal("allocate", "x", cuda="CUDA_ERROR_OUT_OF_MEMORY"),
            "GPU-MEMORY-FULL",
            "node1/gpu0",
        ),
    ],
)
def test_what_ends_the_transfers_early_has_its_own_code(
    refusal: Refusal, code: str, where: str
) -> None:
    finding = judged(movement("peermem", moved=(), refusal=refusal))
    assert finding is not None
    assert (finding.code, finding.where.text()) == (code, where)


def test_a_method_that_nobody_named_is_told_and_not_judged() -> None:
    with pytest.raises(NotJudged, match=r"every byte right; the profile demands .* by peermem"):
        judged(movement("dmabuf"), registration="peermem")
    with pytest.raises(NotJudged, match="MR-DATA-WRONG"):
        judged(spoiled(by_gpu=wrong(), by_cpu=wrong()), registration="peermem")


@pytest.mark.parametrize("left", [(), movement().moved[:-1]])
def test_nothing_refused_and_not_every_way_moved_is_an_error(left: tuple[Any, ...]) -> None:
    with pytest.raises(ProbeError, match="READ, host to gpu"):
        judged(movement(moved=left))
