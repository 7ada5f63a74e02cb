"""The numbers of a pair, and what they stand on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gdrcheck.outcome import Blocked, NotJudged
from gdrcheck.pairing import cm, perftest
from gdrcheck.pairing.channel import EndFailure
from gdrcheck.pairing.program import PairProgram
from gdrcheck.pairing.reports import StagedPlan, TimedPlan
from gdrcheck.pairing.tools import PerftestPlan
from gdrcheck.transfer import DIRECTIONS
from tests.pairing.fleet import GPU, WAITS, Fleet, one_pair, small
from tests.pairing.measured import BOTH, NODES, measured, rail_of

LATENCY = TimedPlan("latency", "host-host", 2, 100)
BANDWIDTH = TimedPlan("bandwidth", "gpu-gpu", 65536, 8, queue_pairs=4)
BOTH_WAYS = replace(BANDWIDTH, both_ways=True)


@pytest.fixture
def one(tmp_path):
    """Two nodes, one rail with a GPU."""
    return Fleet(tmp_path, 2, gpus=True)


@pytest.fixture
def two(tmp_path):
    """Two nodes, two rails with GPUs."""
    return Fleet(tmp_path, 2, rails=2, gpus=True)


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_measurement_has_both_ends_reports(one, direction):
    with measured(one, BOTH) as program:
        report = program.timed(rail_of(program), BANDWIDTH, direction)
    assert report.completed
    nodes = NODES if direction == "out" else NODES[::-1]
    assert (report.source.node, report.sink.node) == nodes
    assert (report.source.report.gbps, report.sink.report.gbps) == (100, None)
    ours, theirs = (
        next(r for r in one.faults.requests(f"{node}-rxe0") if r["command"] == "timed")
        for node in NODES
    )
    assert {**ours, "role": ""} == {**theirs, "role": ""}
    assert ours["role"] == ("source" if direction == "out" else "sink")
    assert ours["variant"]["source"] == {"memory": "gpu", "method": "dmabuf", "relaxed": True}
    assert one.commands("node1-rxe0").count("create_qp") == 1


def test_measuring_both_ways_gives_each_end_numbers(one):
    with measured(one, BOTH) as program:
        report = program.timed(rail_of(program), BOTH_WAYS, "out")
    assert (report.source.report.gbps, report.sink.report.gbps) == (100, 100)


def test_all_rails_are_measured_at_once(two):
    two.faults.set("node1-rxe0", "timed", "meet first second")
    two.faults.set("node1-rxe1", "timed", "meet second first")
    with measured(two, BOTH) as program:
        reports = program.timed_on_all(BOTH_WAYS)
    assert list(reports) == [0, 1]
    assert all(report.completed for report in reports.values())


@pytest.mark.parametrize("end", NODES)
def test_a_rail_that_cannot_be_measured_does_not_stop_the_others(two, end):
    two.faults.set(f"{end}-rxe0", "timed", "crash")
    with measured(two, BOTH) as program:
        reports = program.timed_on_all(BOTH_WAYS)
    assert reports[1].completed
    failed = reports[0]
    assert not failed.completed
    said = {reported.node: reported.error for reported in (failed.source, failed.sink)}
    assert "SIGSEGV" in said[end]
    assert {node for node, error in said.items() if error} == {end}


@pytest.mark.parametrize("end", NODES)
@pytest.mark.parametrize("fault", ["crash", "error", "hang"])
def test_a_measurement_that_an_end_could_not_do_names_it_and_the_next_one_works(one, end, fault):
    one.faults.set(f"{end}-rxe0", "timed", fault)
    with measured(one, BOTH) as program:
        rail = rail_of(program)
        with pytest.raises(EndFailure) as failure:
            program.timed(rail, LATENCY, "out")
        assert (failure.value.side, failure.value.step) == (end, "timed")
        assert program.timed(rail, LATENCY, "out").completed


def test_wrong_data_of_a_measurement_is_in_its_report_and_costs_the_queue_pairs(one):
    one.faults.set("node2-rxe0", "timed", "mismatch")
    with measured(one, BOTH) as program:
        rail = rail_of(program)
        report = program.timed(rail, LATENCY, "out")
        assert report.sink.report.mismatch is not None
        assert not report.completed
        assert program.timed(rail, LATENCY, "out").completed
    assert one.commands("node1-rxe0").count("create_qp") == 2


def test_a_number_is_blocked_by_the_exchange_that_it_stands_on(one):
    one.faults.set("node2-rxe0", "go", '["operation": "WRITE"] mismatch')
    plan = small(modes=("host-host",), operations=("SEND", "WRITE"))
    with measured(one, plan) as program:
        rail = rail_of(program)
        for bandwidth in (
            replace(BANDWIDTH, mode="host-host"), replace(BOTH_WAYS, mode="host-host")
        ):  # fmt: skip
            with pytest.raises(Blocked, match="PAIR-DATA-CORRUPT at "):
                program.timed(rail, bandwidth, "out")
        assert program.timed(rail, LATENCY, "out").completed
        assert program.timed_on_all(replace(BOTH_WAYS, mode="host-host")) == {}


def test_the_ways_are_compared(one):
    with measured(one, BOTH) as program:
        report = program.staged(rail_of(program), StagedPlan(65536, 4), "in")
    assert report.completed
    assert (report.source.node, report.sink.node) == ("node2", "node1")
    request = next(r for r in one.faults.requests("node2-rxe0") if r["command"] == "staged")
    assert (request["role"], request["iterations"]) == ("source", 4)


# --- beyond 2 GiB ---------------------------------------------------------------------------------


@pytest.fixture
def far(one):
    one.gpus = {0: replace(GPU, far=True)}
    return one


def test_messages_beyond_2_gib(far):
    with measured(far, BOTH) as program:
        cell = program.far(rail_of(program), "in")
    assert cell.passed
    armed = [r for r in far.faults.requests("node1-rxe0") if r["command"] == "arm"][-1]
    assert (armed["far"], armed["operation"], armed["role"]) == (True, "WRITE_WITH_IMM", "sink")


@pytest.mark.parametrize("end", NODES)
def test_memory_that_does_not_reach_so_far_is_not_judged(far, end):
    far.faults.set(f"{end}-rxe0", "open_gpu", "not far")
    with (
        measured(far, BOTH) as program,
        pytest.raises(NotJudged, match=f"{end}: BAR1 has 256 MiB"),
    ):
        program.far(rail_of(program), "out")


def test_a_failure_beyond_2_gib_is_measured_again(far):
    far.faults.set("node2-rxe0", "go", '["far": true] RETRY_EXC_ERR')
    with measured(far, BOTH) as program:
        cell = program.far(rail_of(program), "out")
    assert not cell.passed
    assert cell.repeat.passed


# --- tools ----------------------------------------------------------------------------------------


def test_tools_get_the_port_that_was_opened_and_the_session_to_ask(one, monkeypatch):
    seen = {}

    def run(near, ask, rail, _what, _direction, deadline):
        seen.update(opened=near.opened, rail=rail, left=deadline.remaining_s, ask=ask)
        return "report"

    monkeypatch.setattr(perftest, "run", run)
    monkeypatch.setattr(cm, "run", run)
    plan = PerftestPlan(kind="latency", size_bytes=2, iterations=5)
    with measured(one, BOTH) as program:
        rail = rail_of(program)
        assert program.perftest(rail, plan, "out") == "report"
        assert seen["opened"].gid_type == "RoCE v2"
        assert seen["rail"] is rail
        assert 0 < seen["left"] <= WAITS.rail_s
        assert program.rdma_cm(rail, "gpu", "in") == "report"


def test_without_tools_nothing_is_judged(one):
    with one.serve("node2"), one.walk("node1", BOTH) as walk:
        program = PairProgram(
            walk._meetings[0].session, one_pair(walk).rails, BOTH, WAITS, "by hand"
        )
        with pytest.raises(NotJudged, match="no tools"):
            program.perftest(
                rail_of(program), PerftestPlan(kind="latency", size_bytes=2, iterations=5), "out"
            )
        walk.finish()
