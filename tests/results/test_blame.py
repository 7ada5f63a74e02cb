"""Blame where the truth table of a pair has named an end already; the rest is in test_reports."""

from __future__ import annotations

import pytest

from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.evidence import ROLE_WORDS
from gdrcheck.results import blame
from gdrcheck.results.cases import CaseResult
from tests.results.trees import place_of

A, B, C = "a/gpu0/mlx5_0", "b/gpu0/mlx5_0", "c/gpu0/mlx5_0"
SOURCE = {"role": ROLE_WORDS["source"]}


def pair(source: str, sink: str, *findings: Finding, outcome: Outcome | None = None) -> CaseResult:
    """A pair case that failed with ``findings``, or passed."""
    return CaseResult(
        suite="pairs",
        id=f"pingpong[{source} -> {sink}, gpu-host, SEND]",
        classname="pairs.pingpong",
        where=place_of(source, sink),
        outcome=outcome or (Outcome.FAILED if findings else Outcome.PASSED),
        findings=findings,
    )


def finding(code: str, place: str, peer: str, **changes: object) -> Finding:
    node, gpu, nic = place.split("/")
    where = Where(node=node, gpu=gpu, nic=nic, peer=peer.split("/")[0])
    values = {"code": code, "where": where, "observed": "x", "expected": "y"}
    return Finding.model_validate(values | changes)


def test_an_end_that_a_role_names_is_suspected_alone_after_one_partner() -> None:
    failed = pair(A, B, finding("PAIR-GPU-READ", A, B, evidence=SOURCE))
    (suspect,) = blame.suspects([failed, pair(B, A), pair(B, C)])
    assert suspect.place == (A,)
    assert suspect.reason == (
        "PAIR-GPU-READ with 1 partner: the fault is at this end, not at theirs; partners: b"
    )
    assert suspect.cases == (failed.id,)


def test_the_end_is_the_one_of_the_finding_and_not_the_one_of_the_case() -> None:
    failed = pair(A, B, finding("PAIR-GPU-WRITE", B, A, evidence={"role": ROLE_WORDS["sink"]}))
    (suspect,) = blame.suspects([failed])
    assert suspect.place == (B,)


def test_wrong_data_with_a_role_is_of_that_end() -> None:
    failed = pair(A, B, finding("PAIR-DATA-CORRUPT", A, B, evidence=SOURCE))
    (suspect,) = blame.suspects([failed])
    assert suspect.place == (A,)


@pytest.mark.parametrize("evidence", [{}, {"role": "both ends together: ..."}])
def test_wrong_data_without_a_role_is_of_the_pair(evidence: dict[str, str]) -> None:
    (suspect,) = blame.suspects([pair(A, B, finding("PAIR-DATA-CORRUPT", B, A, evidence=evidence))])
    assert suspect.place == (A, B)


def test_an_end_that_passes_with_another_partner_is_suspected_with_this_one_only() -> None:
    failed = pair(A, B, finding("PAIR-GPU-READ", A, B, evidence=SOURCE))
    (suspect,) = blame.suspects([failed, pair(A, C), pair(C, A)])
    assert suspect.place == (A, B)
    assert "a, which passes with others" in suspect.reason


def test_two_ends_of_a_pair_are_two_suspects() -> None:
    sink = {"role": ROLE_WORDS["sink"]}
    found = blame.suspects(
        [
            pair(A, B, finding("PAIR-GPU-READ", A, B, evidence=SOURCE)),
            pair(B, A, finding("PAIR-GPU-WRITE", B, A, evidence=sink)),
        ]
    )
    assert {suspect.place for suspect in found} == {(A,), (B,)}


def test_what_a_named_end_spoils_does_not_accuse_its_partners() -> None:
    cases = [
        pair(A, B, finding("PAIR-GPU-READ", A, B, evidence=SOURCE)),
        pair(A, B, finding("PAIR-BANDWIDTH-LOW", A, B)),
        pair(A, C, finding("PAIR-GPU-READ", A, C, evidence=SOURCE)),
        pair(B, C),
    ]
    (suspect,) = blame.suspects(cases)
    assert suspect.place == (A,)
    assert suspect.reason == (
        "PAIR-GPU-READ with 2 partners: the fault is at this end, not at theirs; partners: b, c"
    )


def test_a_rail_that_fails_with_several_says_with_what_code() -> None:
    low = "PAIR-BANDWIDTH-LOW"
    cases = [pair(A, B, finding(low, A, B)), pair(A, C, finding(low, C, A)), pair(B, C)]
    (suspect,) = blame.suspects(cases)
    assert suspect.place == (A,)
    assert suspect.reason == (
        "PAIR-BANDWIDTH-LOW with 2 partners that pass with others: the fault is at this end; "
        f"partners: {B}, {C}"
    )


def test_a_warning_accuses_nobody_and_leaves_its_pair_a_witness() -> None:
    warning = finding("PAIR-INSTRUMENT-DIFFERS", B, C, severity=Severity.WARN)
    cases = [
        pair(A, B, finding("PAIR-RETRY-EXCEEDED", A, B)),
        pair(A, C, finding("PAIR-RETRY-EXCEEDED", A, C)),
        pair(B, C),
        pair(B, C, warning),
    ]
    (suspect,) = blame.suspects(cases)
    assert suspect.place == (A,)
