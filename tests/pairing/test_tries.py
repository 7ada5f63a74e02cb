"""What one try shows: the finding, the end that it names, and that nothing else counts as right."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Any

import pytest

from gdrcheck import gates
from gdrcheck.findings.model import Finding
from gdrcheck.pairing.pairs import EndReport
from gdrcheck.pairing.table import ANNOUNCED, Cell, CellKey, Failure
from gdrcheck.pairing.tries import Seen, seen
from gdrcheck.verbs import protocol
from tests.pairing.tables import (
    ALL_KEYS,
    LINK_LOCAL,
    RAIL,
    ROUTABLE,
    SIZE,
    WRONG,
    exchange,
    plan,
    report,
    right,
    silent,
    status,
)

KEY = CellKey("gpu-gpu", "WRITE", "out")
BASE = CellKey("host-host", "SEND", "out")


def of(cell: Cell, key: CellKey = KEY) -> Seen:
    return seen(RAIL, key, cell)


def finding_of(cell: Cell, key: CellKey = KEY) -> Finding:
    finding = of(cell, key).finding
    assert finding is not None
    return finding


@pytest.mark.parametrize("key", ALL_KEYS, ids=str)
def test_what_both_ends_completed_and_the_sink_verified_whole_is_right(key: CellKey) -> None:
    assert of(right(key), key).kind == "passed"


@pytest.mark.parametrize(
    "cell",
    [
        Cell(),
        Cell(result=exchange(KEY), failure=Failure(side="a", step="go", text="lost")),
        Cell(result=exchange(KEY), blocked_by="PORT-NOT-ACTIVE at a/mlx5_0"),
        Cell(result=exchange(replace(KEY, operation="READ"))),
        Cell(result=exchange(replace(KEY, mode="host-host"))),
        Cell(result=exchange(replace(KEY, direction="in"))),
        Cell(result=exchange(KEY, plan=plan(replace(KEY, mode="host-gpu")))),
        Cell(result=exchange(KEY, sink_report=EndReport("b", None))),
        Cell(result=exchange(KEY, source_report=EndReport("a", None))),
        Cell(result=exchange(KEY, source_report=EndReport("c", report(KEY)))),
        Cell(result=exchange(KEY, sink=report(KEY, left=1, completed=True))),
        Cell(result=exchange(KEY, sink=report(KEY, sizes=(), completed=True))),
        Cell(result=exchange(KEY, source=report(KEY, completed=False))),
        Cell(result=exchange(KEY, source=report(KEY, stopped_by_peer=True))),
    ],
    ids=[
        *("nothing", "result and failure", "result and blocker", "another operation"),
        *("another mode", "another direction", "host memory in place of the source's GPU"),
        *("no report of the sink", "no report of the source", "a stranger's report"),
        *("one message short", "no message at all", "the source did not complete"),
        "the source was stopped",
    ],
)
def test_what_is_not_whole_is_never_right(cell: Cell) -> None:
    got = of(cell)
    assert got.kind in ("error", "blocked")
    assert got.text


COMPLAINTS: list[tuple[str, dict[str, Any]]] = [
    ("sink", {"mismatch": WRONG}),
    ("sink", {"guard_broken": "guard behind"}),
    ("sink", {"verdicts_differ": "GPU: right, CPU: 1 byte wrong"}),
    ("source", {"source_changed": "1 byte at offset 63"}),
    ("source", {"completion_error": status("LOC_PROT_ERR")}),
    ("sink", {"completion_error": status("RETRY_EXC_ERR")}),
]


@pytest.mark.parametrize(("end", "changes"), COMPLAINTS)
def test_a_complaint_counts_even_when_both_ends_say_completed(
    end: str, changes: dict[str, Any]
) -> None:
    said = report(KEY, **changes, completed=True)
    cell = Cell(result=exchange(KEY, **{end: said}))
    assert not cell.passed
    got = of(cell)
    assert got.kind not in ("passed", "error")
    assert got.finding is not None


@pytest.mark.parametrize("state", ["DOWN", "ACTIVE_DEFER", "unreadable: gone"])
@pytest.mark.parametrize(("end", "changes"), COMPLAINTS[:4])
def test_no_state_of_a_port_excuses_wrong_data(
    end: str, changes: dict[str, Any], state: str
) -> None:
    assert (
        of(Cell(result=exchange(KEY, **{end: report(KEY, **changes, port_state=state)}))).kind
        == "data"
    )


def test_wrong_data_is_found_with_message_variant_offset_and_kind() -> None:
    variant = plan(KEY).variants[1]
    sink = report(
        KEY,
        mismatch=WRONG,
        mismatch_size_bytes=SIZE,
        mismatch_iteration=1,
        mismatch_variant=variant,
    )
    finding = finding_of(Cell(result=exchange(KEY, report(KEY, stopped_by_peer=True), sink)))
    assert (finding.code, finding.where.node) == ("PAIR-DATA-CORRUPT", "b")
    assert "offset 63" in finding.observed
    assert {
        "message bytes": "64",
        "iteration": "1",
        "variant": variant.text(),
        "wrong bytes": "1",
        "looks like": "other",
        "seen by the source, a": "stopped by the other end",
    }.items() <= finding.evidence.items()


# --- completions ----------------------------------------------------------------------------------


def ended(source: str | None, sink: str | None, key: CellKey = BASE, **changes: Any) -> Cell:
    ends = [
        report(key, left=1, completion_error=status(name))
        if name
        else report(key, left=1, stopped_by_peer=True)
        for name in (source, sink)
    ]
    return Cell(result=exchange(key, *ends, **changes))


@pytest.mark.parametrize(
    ("source", "sink", "code", "place", "named"),
    [
        ("LOC_PROT_ERR", None, "PAIR-COMPLETION", "a/mlx5_0", {"a"}),
        (None, "LOC_PROT_ERR", "PAIR-COMPLETION", "b/mlx5_1", {"b"}),
        ("REM_ACCESS_ERR", None, "PAIR-COMPLETION", "b/mlx5_1", {"b"}),
        (None, "REM_INV_REQ_ERR", "PAIR-COMPLETION", "a/mlx5_0", {"a"}),
        ("REM_OP_ERR", "LOC_PROT_ERR", "PAIR-COMPLETION", "b/mlx5_1", {"b"}),
        ("WR_FLUSH_ERR", "LOC_LEN_ERR", "PAIR-COMPLETION", "b/mlx5_1", {"b"}),
        ("LOC_PROT_ERR", "LOC_PROT_ERR", "PAIR-COMPLETION", "a/mlx5_0", {"a", "b"}),
        ("RETRY_EXC_ERR", "DEADLINE", "PAIR-RETRY-EXCEEDED", "a/mlx5_0", set()),
        ("DEADLINE", "RETRY_EXC_ERR", "PAIR-RETRY-EXCEEDED", "b/mlx5_1", set()),
        ("DEADLINE", "DEADLINE", "PAIR-COMPLETION", "a/mlx5_0", set()),
        ("WR_FLUSH_ERR", None, "PAIR-COMPLETION", "a/mlx5_0", set()),
        # Its own status was lost with the flush, and the other end only waited.
        ("WR_FLUSH_ERR", "DEADLINE", "PAIR-COMPLETION", "a/mlx5_0", {"a"}),
        ("DEADLINE", "WR_FLUSH_ERR", "PAIR-COMPLETION", "b/mlx5_1", {"b"}),
        ("WR_FLUSH_ERR", "WR_FLUSH_ERR", "PAIR-COMPLETION", "a/mlx5_0", set()),
    ],
)  # fmt: skip
def test_a_status_names_the_end_that_it_complains_of(
    source: str | None, sink: str | None, code: str, place: str, named: set[str]
) -> None:
    got = of(ended(source, sink), BASE)
    assert got.finding is not None
    where = got.finding.where
    assert (got.finding.code, where.model_copy(update={"peer": None}).text()) == (code, place)
    assert where.peer == ({"a", "b"} - {where.node}).pop()
    assert set(got.named) == named
    assert got.finding.evidence["vendor error"] == "0x51"


@pytest.mark.parametrize("down", ["a", "b"])
def test_a_port_that_went_down_explains_the_rest_and_blames_its_own_node(down: str) -> None:
    states = {"a": "ACTIVE", "b": "ACTIVE", down: "DOWN"}
    ends = [
        report(KEY, left=1, completion_error=status("RETRY_EXC_ERR"), port_state=states[node])
        for node in ("a", "b")
    ]
    finding = finding_of(Cell(result=exchange(KEY, *ends)))
    # The check of the counters at that node finds the very same: a report shows it once.
    assert finding == gates.port_went_down(RAIL.end(down).port, "DOWN")
    assert finding.where.peer is None


def test_a_state_that_cannot_be_read_is_no_port_that_went_down() -> None:
    said = report(
        KEY, left=1, completion_error=status("RETRY_EXC_ERR"), port_state="unreadable: EIO"
    )
    assert of(Cell(result=exchange(KEY, source=said))).kind == "transport"


@pytest.mark.parametrize("other", ["RETRY_EXC_ERR", "DEADLINE", "WR_FLUSH_ERR"])
def test_an_end_that_could_not_do_its_part_is_an_error_that_names_it(other: str) -> None:
    died = EndReport("b", None, protocol.ErrorInfo(step="go", text="child died of signal 9"))
    source = report(BASE, left=1, completion_error=status(other))
    got = of(Cell(result=exchange(BASE, source, sink_report=died)), BASE)
    assert (got.kind, got.text) == ("error", "b: go: child died of signal 9")


def test_a_call_that_failed_is_an_error_and_no_finding_of_a_gpu() -> None:
    got = of(ended("CALL_FAILED", "DEADLINE", KEY))
    assert got.kind == "error"
    assert got.text.startswith("a: message:")


def test_a_refusal_says_more_than_the_other_end_that_gave_up() -> None:
    died = EndReport("b", None, protocol.ErrorInfo(step="go", text="no answer"))
    source = report(BASE, left=1, completion_error=status("REM_OP_ERR"))
    assert of(Cell(result=exchange(BASE, source, sink_report=died)), BASE).kind == "refused"


def test_host_memory_names_no_gpu() -> None:
    for key in (BASE, KEY):
        finding = finding_of(silent(key), key)
        assert finding.where.gpu == (None if key is BASE else "gpu0")


# --- connections ----------------------------------------------------------------------------------

TO_RTR = f"{protocol.MODIFY_QP} INIT to RTR, towards ::1 from ::2"


def not_done(side: str, step: str, number: int | None = None, **changes: Any) -> Cell:
    info = protocol.ErrorInfo(step=step, errno=number, text=f"{step}: no")
    return Cell(failure=Failure(side=side, step="connect", text="no", error=info, **changes))


@pytest.mark.parametrize(("side", "peer"), [("a", "b"), ("b", "a")])
def test_a_connection_that_fails_names_the_end_the_step_and_the_errno(side: str, peer: str) -> None:
    got = of(not_done(side, TO_RTR, errno.ETIMEDOUT))
    assert got.kind == "connection"
    assert got.finding is not None
    where = got.finding.where
    assert (got.finding.code, where.node, where.gpu, where.peer) == (
        "PAIR-CONNECT-FAILED", side, None, peer,
    )  # fmt: skip
    assert "INIT to RTR" in got.finding.evidence["step"]
    assert got.finding.evidence["errno"] == "ETIMEDOUT"


@pytest.mark.parametrize(
    ("cell", "code", "place"),
    [
        (not_done("b", protocol.MTU_HERE), "PAIR-MTU", "b/mlx5_1"),
        (not_done("a", protocol.MTU_THERE), "PAIR-MTU", "b/mlx5_1 (with a)"),
        (not_done("b", ANNOUNCED), "PAIR-END-DEVIATES", "b/gpu3/mlx5_1 (with a)"),
    ],
)
def test_an_end_that_is_not_as_promised_is_named(cell: Cell, code: str, place: str) -> None:
    got = of(cell)
    assert got.finding is not None
    assert (got.kind, got.finding.code, got.finding.where.text()) == ("setup", code, place)


@pytest.mark.parametrize(
    "cell",
    [
        Cell(failure=Failure(side="b", step="connect", text="child hangs")),
        not_done("b", "connect"),
        not_done("b", "ibv_reg_mr of 4096 B", errno.ENOMEM),
        not_done("c", TO_RTR, errno.ETIMEDOUT),
    ],
    ids=["no report", "no errno", "another step", "a stranger"],
)
def test_what_is_no_refused_connection_is_an_error_with_side_and_step(cell: Cell) -> None:
    got = of(cell)
    assert got.kind == "error"
    assert cell.failure is not None
    assert got.text == f"{cell.failure.side}: connect: {cell.failure.text}"


def test_an_error_says_side_and_step_once() -> None:
    failure = Failure(side="b", step="connect", text="b: connect: no answer for 20 s")
    assert of(Cell(failure=failure)).text == "b: connect: no answer for 20 s"


def test_gids_that_cannot_reach_each_other_explain_a_connection_that_fails() -> None:
    endpoints = {"a": ROUTABLE, "b": LINK_LOCAL}
    got = of(not_done("a", TO_RTR, errno.ENETUNREACH, endpoints=endpoints), BASE)
    assert got.finding is not None
    assert (got.finding.code, got.finding.where.text()) == (
        "PAIR-GID-MISMATCH", "b/mlx5_1 (with a)",
    )  # fmt: skip
    assert "b: index 0, fe80::1" in got.finding.evidence["gids"]
    assert "PAIR-CONNECT-FAILED" in got.finding.evidence["symptom"]


def test_gids_that_cannot_reach_each_other_explain_answers_that_do_not_come() -> None:
    ends: dict[str, Any] = {"source_endpoint": LINK_LOCAL, "sink_endpoint": ROUTABLE}
    got = of(ended("RETRY_EXC_ERR", None, **ends), BASE)
    assert got.finding is not None
    assert (got.finding.code, got.finding.where.node) == ("PAIR-GID-MISMATCH", "a")
    # They explain no refusal of memory, and no transfer that was right.
    assert finding_of(ended("LOC_PROT_ERR", None, **ends), BASE).code == "PAIR-COMPLETION"
    assert of(Cell(result=exchange(BASE, **ends)), BASE).kind == "passed"
