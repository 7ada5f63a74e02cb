"""What gdrcheck pingpong says at the end: the verdict, and a sentence for each way of the data."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.commands.pingpong.report import Number, Report, ReportEnd, Transfer, verdict
from gdrcheck.commands.pingpong.words import report_lines
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.transfer import DIRECTIONS, MODES, OPERATIONS

FINDING = Finding(
    code="PORT-NOT-ACTIVE",
    where=Where(node="node1", nic="mlx5_0"),
    observed="state DOWN",
    expected="state ACTIVE",
    evidence={"physical state": "Polling"},
)


def end(node: str, **changes: Any) -> ReportEnd:
    values: dict[str, Any] = {
        "node": node, "gpu": "gpu0", "nic": "mlx5_0", "port": 1, "methods": ("dmabuf",),
        "about": f"all about {node}", "emulated": False, "software_rdma": False,
    }  # fmt: skip
    return ReportEnd(**values | changes)


def transfer(
    operation: str = "SEND", outcome: Outcome = Outcome.PASSED, **changes: Any
) -> Transfer:
    values: dict[str, Any] = {
        "source": "node1/gpu0/mlx5_0", "sink": "node2/gpu0/mlx5_0", "direction": "out",
        "mode": "gpu-gpu", "operation": operation, "outcome": outcome,
        "messages": 200 if outcome is Outcome.PASSED else 0,
    }  # fmt: skip
    return Transfer(**values | changes)


def every(outcome: Outcome = Outcome.PASSED, **changes: Any) -> tuple[Transfer, ...]:
    return tuple(transfer(operation, outcome, **changes) for operation in OPERATIONS)


def report(transfers: tuple[Transfer, ...], **changes: Any) -> Report:
    findings = changes.get("findings", ())
    not_measured = changes.get("not_measured", ())
    values: dict[str, Any] = {
        "verdict": verdict(transfers, findings, not_measured), "emulated": False,
        "software_rdma": False, "caller": end("node1"), "listener": end("node2"),
        "path_mtu": 4096, "transfers": transfers, "numbers": (), "findings": (),
        "not_measured": (), "notes": (), "duration_s": 12.0,
    }  # fmt: skip
    return Report(**values | changes)


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")


def sentence(*transfers: Transfer, **changes: Any) -> str:
    (found,) = [
        line for line in report_lines(report(transfers, **changes)) if " memory of " in line
    ]
    return found


def test_all_operations_right_is_one_plain_sentence() -> None:
    assert sentence(*every()) == (
        "GPU memory of node1 reaches GPU memory of node2 by dma-buf: 1,000 messages, every byte "
        "right"
    )
    assert sentence(*every(mode="gpu-host", direction="in")) == (
        "GPU memory of node2 reaches host memory of node1 by dma-buf: 1,000 messages, every byte "
        "right"
    )


def test_methods_that_differ_are_both_named() -> None:
    ends = {"caller": end("node1", methods=("dmabuf", "peermem")), "listener": end("node2")}
    assert " by dma-buf and peermem to dma-buf: " in sentence(*every(), **ends)


def test_operations_that_were_left_out_are_named() -> None:
    assert sentence(transfer("WRITE"), transfer("READ")).endswith("right (WRITE, READ only)")


def test_what_failed_is_named_with_what_was_right() -> None:
    said = sentence(
        transfer("SEND"),
        transfer("READ", Outcome.FAILED, reason="PAIR-READ-REFUSED at node1/gpu0/mlx5_0"),
    )
    assert said == (
        "GPU memory of node1 does not always reach GPU memory of node2 by dma-buf: "
        "PAIR-READ-REFUSED at node1/gpu0/mlx5_0 (READ); right: SEND"
    )


def test_what_was_blocked_is_not_told_as_failed() -> None:
    said = sentence(*every(Outcome.BLOCKED, reason="MR-BAR1-FULL at node2/gpu0"))
    assert said.endswith("by dma-buf: not measured: blocked by MR-BAR1-FULL at node2/gpu0")


def test_emulation_is_said_first() -> None:
    lines = report_lines(report(every(), emulated=True, software_rdma=True))
    assert lines[0].startswith("EMULATED: ")
    assert lines[1].startswith("SOFT-ROCE: ")


def test_a_finding_has_its_evidence_cause_and_repair() -> None:
    failed = (transfer("SEND", Outcome.FAILED, reason="PORT-NOT-ACTIVE at node1/mlx5_0"),)
    text = "\n".join(report_lines(report(failed, findings=(FINDING,))))
    for part in (
        "PORT-NOT-ACTIVE at node1/mlx5_0: ",
        "observed: state DOWN",
        "expected: state ACTIVE",
        "physical state: Polling",
        "likely cause: ",
        "first: ",
        "gdrcheck explain PORT-NOT-ACTIVE",
    ):
        assert part in text
    assert text.splitlines()[-1] == "FAIL: 1 finding, 1 of 1 transfers, in 12 s"


def test_numbers_say_what_loop_and_what_they_are_judged_by() -> None:
    values: dict[str, Any] = {
        "source": "node1/gpu0/mlx5_0", "sink": "node2/gpu0/mlx5_0", "direction": "out",
        "mode": "gpu-gpu", "size_bytes": 1 << 20, "queue_pairs": 4,
    }  # fmt: skip
    latency = Number(
        kind="latency", operation="SEND", outcome=Outcome.NOT_JUDGED, median_us=3.25, p99_us=4,
        max_us=9, **values,
    )  # fmt: skip
    rate = Number(
        kind="bandwidth", operation="WRITE", outcome=Outcome.PASSED, gbps=390.5, expected_gbps=360,
        limited_by="NIC rate, 400 Gb/s", **values,
    )  # fmt: skip
    text = "\n".join(report_lines(report(every(), numbers=(latency, rate))))
    assert "latency p50 3.2 us, p99 4.0 us, max 9.0 us" in text
    assert "bandwidth 390.50 Gb/s, 4 queue pairs; expected 360.0 (NIC rate, 400 Gb/s)" in text
    assert "half of a round trip" in text


outcomes = st.sampled_from(
    [Outcome.PASSED, Outcome.FAILED, Outcome.ERROR, Outcome.BLOCKED, Outcome.NOT_JUDGED]
)
transfers = st.lists(
    st.builds(
        transfer,
        st.sampled_from(OPERATIONS),
        outcomes,
        mode=st.sampled_from(MODES),
        direction=st.sampled_from(DIRECTIONS),
        reason=st.just("why"),
    ),
    max_size=8,
)
findings = st.lists(
    st.sampled_from([FINDING, FINDING.model_copy(update={"severity": Severity.WARN})]), max_size=2
)


@given(transfers, findings, st.lists(st.just("something"), max_size=1))
def test_a_pass_needs_something_measured_and_all_of_it_right(
    given_transfers: list[Transfer], given_findings: list[Finding], not_measured: list[str]
) -> None:
    found = verdict(given_transfers, given_findings, not_measured)
    right = bool(given_transfers) and all(one.outcome is Outcome.PASSED for one in given_transfers)
    wrong = any(one.severity is Severity.FAIL for one in given_findings)
    assert (found is Verdict.PASS) == (right and not wrong and not not_measured)
    if wrong:
        assert found is Verdict.FAIL


@given(transfers)
def test_every_transfer_is_told_of(given_transfers: list[Transfer]) -> None:
    ways = {(one.mode, one.direction) for one in given_transfers}
    lines = report_lines(report(tuple(given_transfers)))
    assert len([line for line in lines if " memory of " in line]) == len(ways)
    assert lines[-1].partition(":")[0] == verdict(given_transfers, (), ()).value
