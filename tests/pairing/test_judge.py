"""What measurements prove: the finding, the end that it names, and when nothing was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gdrcheck.outcome import ProbeError
from gdrcheck.pairing.judge import judge_staged, judge_timed
from gdrcheck.pairing.reports import End, StagedPlan, StagedReport, TimedPlan, TimedReport
from gdrcheck.transfer import Direction
from gdrcheck.verbs.protocol import StagedResult, StagedWay, TimedResult
from tests.pairing.tables import RAIL, WRONG, status

PLAN = TimedPlan("bandwidth", "gpu-host", 4096, 100)
LATENCY = replace(PLAN, kind="latency")
BOTH = replace(PLAN, both_ways=True)
COPIES = StagedPlan(1 << 20, 5)
WAY = StagedWay(median_us=10, gbps=800)


def timed(plan: TimedPlan, **changes: Any) -> TimedResult:
    values: dict[str, Any] = {
        "kind": plan.kind,
        "size_bytes": plan.size_bytes,
        "iterations": plan.iterations,
        "completed": not changes,
        "gbps": 300.0 if plan.kind == "bandwidth" else None,
        "median_us": 3.0 if plan.kind == "latency" else None,
    }
    return TimedResult(**{**values, **changes})


def measured(
    plan: TimedPlan = PLAN,
    source: TimedResult | None = None,
    sink: TimedResult | None = None,
    direction: Direction = "out",
) -> TimedReport:
    nodes = ("a", "b") if direction == "out" else ("b", "a")
    return TimedReport(
        plan, direction, End(nodes[0], source or timed(plan)), End(nodes[1], sink or timed(plan))
    )


@pytest.mark.parametrize("plan", [PLAN, LATENCY, BOTH])
def test_right_data_and_all_numbers_have_no_finding(plan: TimedPlan) -> None:
    assert judge_timed(measured(plan), RAIL) is None


@pytest.mark.parametrize(("direction", "place"), [("out", "b/mlx5_1"), ("in", "a/mlx5_0")])
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"mismatch": WRONG}, "PAIR-DATA-CORRUPT"),
        ({"guard_broken": "guard behind"}, "PAIR-GUARD-BROKEN"),
        ({"mismatch": WRONG, "completed": True}, "PAIR-DATA-CORRUPT"),
    ],
)
def test_wrong_data_is_found_at_the_sink(
    changes: dict[str, Any], code: str, direction: Direction, place: str
) -> None:
    finding = judge_timed(measured(sink=timed(PLAN, **changes), direction=direction), RAIL)
    assert finding is not None
    assert finding.code == code
    # The sink's memory is the host's: no GPU is named.
    assert finding.where.model_copy(update={"peer": None}).text() == place


def test_wrong_data_at_the_source_of_both_ways_is_found_there() -> None:
    finding = judge_timed(measured(BOTH, source=timed(BOTH, mismatch=WRONG)), RAIL)
    assert finding is not None
    assert finding.where.text() == "a/gpu0/mlx5_0 (with b)"


@pytest.mark.parametrize(
    ("name", "code", "place"),
    [
        ("RETRY_EXC_ERR", "PAIR-RETRY-EXCEEDED", "a/gpu0/mlx5_0 (with b)"),
        ("LOC_PROT_ERR", "PAIR-COMPLETION", "a/gpu0/mlx5_0 (with b)"),
        ("REM_ACCESS_ERR", "PAIR-COMPLETION", "b/mlx5_1 (with a)"),
    ],
)
def test_an_error_completion_names_its_end(name: str, code: str, place: str) -> None:
    source = timed(PLAN, completion_error=status(name), gbps=None)
    finding = judge_timed(measured(source=source, sink=timed(PLAN, completed=False)), RAIL)
    assert finding is not None
    assert (finding.code, finding.where.text()) == (code, place)
    assert finding.evidence["vendor error"] == "0x51"


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (replace(measured(), source=End("a", None, "child hangs")), "a: child hangs"),
        (replace(measured(), sink=End("b", None)), "b: did not complete"),
        (measured(sink=timed(PLAN, completed=False)), "b: did not complete"),
        (measured(source=timed(PLAN, gbps=None, completed=True)), "a: .*no number"),
        (measured(LATENCY, source=timed(LATENCY, median_us=None, completed=True)), "no number"),
        (measured(BOTH, sink=timed(BOTH, gbps=None, completed=True)), "b: .*no number"),
        (measured(source=timed(PLAN, iterations=99, completed=True)), "fewer messages"),
        (measured(source=timed(PLAN, size_bytes=8, completed=True)), "something else"),
        (measured(sink=timed(LATENCY)), "something else"),
        (
            measured(source=timed(PLAN, completion_error=status("CALL_FAILED"))),
            "a: message: CALL_FAILED",
        ),
        (
            replace(
                measured(source=timed(PLAN, completion_error=status("RETRY_EXC_ERR"))),
                sink=End("b", None, "child died"),
            ),
            "b: child died",
        ),
    ],
)  # fmt: skip
def test_what_was_not_measured_as_planned_is_an_error(report: TimedReport, words: str) -> None:
    with pytest.raises(ProbeError, match=words):
        judge_timed(report, RAIL)


def compared(source: StagedResult | None = None, sink: StagedResult | None = None) -> StagedReport:
    whole = StagedResult(completed=True, staged=WAY, direct=WAY)
    return StagedReport(COPIES, "out", End("a", source or whole), End("b", sink or whole))


def test_a_comparison_with_right_data_and_both_numbers_has_no_finding() -> None:
    assert judge_staged(compared(), RAIL) is None


def test_wrong_data_of_a_comparison_names_the_way_and_the_sink() -> None:
    sink = StagedResult(completed=False, wrong_way="direct", mismatch=WRONG)
    finding = judge_staged(compared(sink=sink), RAIL)
    assert finding is not None
    assert (finding.code, finding.where.text()) == ("PAIR-DATA-CORRUPT", "b/gpu3/mlx5_1 (with a)")
    assert finding.evidence["way"] == "direct"
    assert finding.evidence["first wrong offset"] == "63"


@pytest.mark.parametrize(
    "report",
    [
        compared(source=StagedResult(completed=True, staged=WAY)),
        compared(source=StagedResult(completed=True, direct=WAY)),
        compared(sink=StagedResult(completed=False)),
        replace(compared(), sink=End("b", None, "no answer")),
    ],
)
def test_a_comparison_without_its_numbers_is_an_error(report: StagedReport) -> None:
    with pytest.raises(ProbeError):
        judge_staged(report, RAIL)
