"""The proof of the data: every cell has a result, whatever data, completions and ports do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gdrcheck.outcome import Blocked
from gdrcheck.pairing.program import PairProgram
from gdrcheck.pairing.reports import TimedPlan
from gdrcheck.pairing.table import CellKey
from gdrcheck.transfer import ATOMICS, DIRECTIONS, MODES, OPERATIONS, has_gpu
from tests.pairing.fleet import SEND_OUT, WAITS, Fleet, one_pair, small
from tests.pairing.measured import ALL, BOTH, NODES, blocked, failures, measured, rail_of


@pytest.fixture
def one(tmp_path):
    """Two nodes, one rail with a GPU."""
    return Fleet(tmp_path, 2, gpus=True)


@pytest.fixture
def two(tmp_path):
    """Two nodes, two rails with GPUs."""
    return Fleet(tmp_path, 2, rails=2, gpus=True)


# --- when all is well -----------------------------------------------------------------------------


def test_every_cell_of_every_rail_is_measured_on_both_ends(two):
    with measured(two, ALL) as program:
        tables = program.correctness()
    for table in tables.values():
        assert list(table.cells) == [
            CellKey(mode, operation, direction)
            for mode in MODES
            for operation in OPERATIONS
            for direction in DIRECTIONS
        ]
        assert not failures(table)
        for key, cell in table.cells.items():
            source, sink = cell.result.source_report, cell.result.sink_report
            nodes = NODES if key.direction == "out" else NODES[::-1]
            assert (source.node, sink.node) == nodes
            assert cell.result.path_mtu == 1024
            assert cell.result.source_endpoint.gid_type == "RoCE v2"
            assert len(cell.result.plan.variants) == 2, "without relaxed ordering and with it"
    for device in ("rxe0", "rxe1"):
        ends = [two.faults.requests(f"{node}-{device}") for node in NODES]
        near, far = ([r for r in end if r["command"] == "arm"] for end in ends)
        for ours, theirs in zip(near, far, strict=True):
            assert {ours["role"], theirs["role"]} == {"source", "sink"}
            assert {**ours, "role": ""} == {**theirs, "role": ""}
        assert len({r["run_tag"] for r in near}) == len(near) == 40
        for end in ends:
            commands = [r["command"] for r in end]
            assert commands[:4] == ["open", "open_gpu", "create_qp", "connect"]
            assert commands.count("create_qp") == commands.count("close_qp") == 1


def test_rails_are_measured_side_by_side(two):
    two.faults.set("node1-rxe0", "go", "meet first second")
    two.faults.set("node1-rxe1", "go", "meet second first")
    with measured(two, BOTH) as program:
        assert not any(failures(table) for table in program.correctness().values())


def test_a_rail_without_gpus_has_cells_of_host_memory_only(tmp_path):
    fleet = Fleet(tmp_path, 2)
    with measured(fleet, ALL) as program:
        keys = set(program.correctness()[0].cells)
    assert {key.mode for key in keys} == {"host-host"}
    assert "open_gpu" not in fleet.commands("node1-rxe0") + fleet.commands("node2-rxe0")


def test_messages_are_sent_around_the_path_mtu_that_both_ends_agreed_on(one):
    with measured(one, replace(BOTH, around_mtu=True)) as program:
        cell = program.correctness()[0].cells[SEND_OUT]
    assert cell.result.plan.sizes_bytes == (1, 1023, 1024, 1025)


def test_atomic_operations_move_eight_bytes(one):
    with measured(one, small(operations=("SEND", *ATOMICS))) as program:
        assert not failures(program.correctness()[0])
    sizes = {
        request["operation"]: request["sizes_bytes"]
        for request in one.faults.requests("node2-rxe0")
        if request["command"] == "arm"
    }
    assert sizes == {"SEND": [1, 1024], "FETCH_ADD": [8], "CMP_SWAP": [8]}


def test_each_cell_is_told_of_when_it_is_done_and_again_when_it_was_repeated(one):
    told: list[tuple[CellKey, bool]] = []
    one.faults.set("node2-rxe0", "go", "RETRY_EXC_ERR")
    with one.serve("node2"), one.walk("node1", BOTH) as walk:
        pair = one_pair(walk)
        program = PairProgram(
            walk._meetings[0].session, pair.rails, BOTH, WAITS, "by hand",
            on_cell=lambda _, key, cell: told.append((key, cell.passed)),
        )  # fmt: skip
        tables = program.correctness()
        walk.finish()
    repeated = replace(SEND_OUT, direction="out")
    assert told[0] == (repeated, False)
    assert [key for key, _ in told].count(repeated) == 2
    assert {key for key, _ in told} == set(tables[0].cells)


# --- data and completions -------------------------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_mismatch_is_measured_again_and_stays_one(one, direction):
    sink = "node2" if direction == "out" else "node1"
    role = '"role": "sink"'
    one.faults.set(f"{sink}-rxe0", "go", f"[{role}] mismatch")
    with measured(one, BOTH) as program:
        key = replace(SEND_OUT, direction=direction)
        cell = program.correctness()[0].cells[key]
        ruling = program.rulings(0)[key]
    assert cell.result.sink_report.report.mismatch.first_bad_offset == 7
    assert ruling.finding.code == "PAIR-DATA-CORRUPT"
    assert ruling.finding.where.node == sink


def test_new_queue_pairs_are_made_after_a_failure_and_only_then(one):
    one.faults.set("node1-rxe0", "go", "LOC_PROT_ERR")
    with measured(one, BOTH) as program:
        program.correctness()
    for node in NODES:
        commands = one.commands(f"{node}-rxe0")
        assert commands.count("create_qp") == 2
        assert commands.count("open") == commands.count("open_gpu") == 1


def test_a_sink_that_verified_too_little_has_not_passed(one):
    one.faults.set("node2-rxe0", "go", "short")
    with measured(one, BOTH) as program:
        cell = program.correctness()[0].cells[SEND_OUT]
    assert cell.result.sink_report.completed
    assert cell.result.unverified == "verified only 0 of 6 messages of 1024 bytes"
    assert not cell.passed


def test_a_failure_that_does_not_come_back_alone_is_unstable(one):
    one.faults.set("node1-rxe0", "go", "RETRY_EXC_ERR")
    with measured(one, BOTH) as program:
        cell = program.correctness()[0].cells[SEND_OUT]
        ruling = program.rulings(0)[SEND_OUT]
    assert not cell.passed
    assert cell.repeat.passed
    assert ruling.finding.code == "PAIR-UNSTABLE"
    assert not failures(program.correctness()[0]).keys() - {SEND_OUT}


def test_host_memory_that_fails_for_certain_spares_everybody_the_rest(two):
    two.faults.set("node1-rxe0", "go", "RETRY_EXC_ERR", always=True)
    with measured(two, ALL) as program:
        tables = program.correctness()
        rulings = program.rulings(0)
    assert not failures(tables[1])
    (finding,) = [ruling.finding for ruling in rulings.values() if ruling.finding is not None]
    reason = f"{finding.code} at {finding.where.text()}"
    gpu = [key for key in tables[0].cells if has_gpu(key.mode)]
    assert len(gpu) == 30
    assert all(tables[0].cells[key].blocked_by == reason for key in gpu)
    tried = [r for r in two.faults.requests("node1-rxe0") if r["command"] == "go"]
    assert len(tried) <= 8, "two operations each way, and those again"
    assert all(rulings[key].blocked_by for key in gpu)


def test_slow_failures_of_a_mode_end_it_in_that_direction_only(one):
    wanted = '"memory": "gpu"'
    one.faults.set("node1-rxe0", "go", f"[{wanted}] DEADLINE", always=True)
    plan = small(modes=("host-host", "gpu-gpu"), operations=OPERATIONS)
    with measured(one, plan) as program:
        table = program.correctness()[0]
    out = [key for key in table.cells if (key.mode, key.direction) == ("gpu-gpu", "out")]
    assert [table.cells[key].blocked_by is None for key in out] == [True, True, False, False, False]
    assert not any(has_gpu(key.mode) is False for key in failures(table))


def test_what_was_given_up_is_measured_when_its_failures_do_not_come_back(one):
    one.faults.set("node1-rxe0", "go", '["operation": "SEND"] RETRY_EXC_ERR')
    one.faults.set("node2-rxe0", "go", '["operation": "SEND_WITH_IMM"] RETRY_EXC_ERR')
    plan = small(operations=OPERATIONS, directions=("out",))
    with measured(one, plan) as program:
        cells = program.correctness()[0].cells
    assert [cell.passed for cell in cells.values()] == [False, False, True, True, True]
    assert [key.operation for key in cells] == list(OPERATIONS)
    assert all(cell.repeat.passed for cell in cells.values() if not cell.passed)


# --- ports ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", NODES)
def test_a_port_that_stays_down_blocks_the_rest_of_its_rail_at_once(two, end):
    two.faults.set(f"{end}-rxe0", "go", "port down")
    two.faults.set(f"{end}-rxe0", "port_state", "DOWN", always=True)
    with measured(two, ALL) as program:
        tables = program.correctness()
        rulings = program.rulings(0)
        with pytest.raises(Blocked, match=f"PORT-NOT-ACTIVE at {end}/{end}-rxe0"):
            program.timed(rail_of(program), TimedPlan("latency", "host-host", 2, 100), "in")
    assert not failures(tables[1])
    assert set(blocked(tables[0]).values()) == {f"PORT-NOT-ACTIVE at {end}/{end}-rxe0"}
    assert len(blocked(tables[0])) == 39
    assert two.commands(f"{end}-rxe0").count("go") == 1
    assert rulings[SEND_OUT].finding.code == "PORT-NOT-ACTIVE"


def test_a_port_that_is_up_again_is_used_again(one):
    one.faults.set("node2-rxe0", "go", "port down")
    with measured(one, ALL) as program:
        table = program.correctness()[0]
        ruling = program.rulings(0)[SEND_OUT]
    assert set(failures(table)) == {SEND_OUT}
    assert ruling.finding.code == "PORT-NOT-ACTIVE"
    assert ruling.finding.where.node == "node2"


def test_a_port_whose_state_cannot_be_read_is_not_called_down(one):
    one.faults.set("node1-rxe0", "go", "LOC_PROT_ERR")
    one.faults.set("node1-rxe0", "port_state", "unreadable: no such file", always=True)
    with measured(one, BOTH) as program:
        assert set(failures(program.correctness()[0])) == {SEND_OUT}
