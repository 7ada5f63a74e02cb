"""Ends that cannot do their part: named, whatever it is, and nothing else suffers."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from gdrcheck.outcome import Blocked, PeerError
from gdrcheck.pairing.channel import ChannelLost
from gdrcheck.pairing.program import PairProgram
from gdrcheck.pairing.reports import StagedPlan, TimedPlan
from gdrcheck.pairing.table import ANNOUNCED, CellKey
from gdrcheck.run import Deadlines
from gdrcheck.transfer import has_gpu
from gdrcheck.verbs.protocol import MODIFY_QP, MTU_HERE
from tests.pairing.fleet import SEND_OUT, WAITS, Fleet, one_pair, small, text_of
from tests.pairing.measured import ALL, BOTH, NODES, blocked, failures, measured, rail_of
from tests.pairing.support import eventually

GPU_OUT = CellKey("gpu-gpu", "SEND", "out")
GPU_IN = CellKey("gpu-gpu", "SEND", "in")
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


# --- an end that cannot do its part ---------------------------------------------------------------

STEPS = ("open", "create_qp", "connect", "arm", "go")
# Enough for the start of two dozen interpreters at once.
PATIENT = Deadlines(completion_s=3, connect_s=5, check_s=8, rail_s=60, rendezvous_s=5, phase_s=100)


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("hang", "did not end within"),
        ("crash", "killed by SIGSEGV"),
        ("garbage", "not a reply"),
        ("error", "Invalid argument"),
    ],
)
def test_an_end_that_fails_once_is_named_and_everything_else_is_measured(
    tmp_path, fault, complaint
):
    """A rail for each step at which one end fails, all side by side, and one that is well."""
    failing = list(itertools.product(NODES, STEPS))
    fleet = Fleet(tmp_path, 2, rails=len(failing) + 1, waits=PATIENT)
    for number, (end, command) in enumerate(failing):
        fleet.faults.set(f"{end}-rxe{number}", command, fault)
    with measured(fleet, small()) as program:
        tables = program.correctness()
    assert not failures(tables[len(failing)])
    for number, (end, command) in enumerate(failing):
        ((key, cell),) = failures(tables[number]).items()
        assert key == SEND_OUT
        if command == "go" and fault == "error":
            report = cell.result.source_report if end == "node1" else cell.result.sink_report
            assert complaint in report.error.text
            continue
        assert complaint in text_of(cell)
        assert (cell.failure.side, cell.failure.step) == (end, command)
        assert (cell.failure.error is not None) == (fault == "error")


@pytest.mark.parametrize("end", NODES)
@pytest.mark.parametrize("fault", ["hang", "crash", "error"])
def test_a_gpu_that_does_not_open_leaves_host_memory_to_be_measured(two, end, fault):
    two.faults.set(f"{end}-rxe0", "open_gpu", fault, always=True)
    with measured(two, BOTH) as program:
        tables = program.correctness()
        rulings = program.rulings(0)
    assert not failures(tables[1])
    assert set(failures(tables[0])) == {GPU_OUT, GPU_IN}
    for key in (GPU_OUT, GPU_IN):
        cell = tables[0].cells[key]
        assert (cell.failure.side, cell.failure.step) == (end, "open_gpu")
        assert not rulings[key].passed


def test_a_gpu_of_one_end_only_fails_what_needs_it(one):
    one.faults.set("node2-rxe0", "open_gpu", "error", always=True)
    modes = ("host-host", "gpu-host")
    with measured(one, small(modes=modes)) as program:
        failed = set(failures(program.correctness()[0]))
    assert failed == {CellKey("gpu-host", "SEND", "in")}


@pytest.mark.parametrize("end", NODES)
@pytest.mark.parametrize(
    ("command", "step", "code"),
    [
        ("open", MTU_HERE, "PAIR-MTU"),
        ("connect", f"{MODIFY_QP} INIT to RTR", "PAIR-CONNECT-FAILED"),
        ("create_qp", f"{MODIFY_QP} RESET to INIT", "PAIR-CONNECT-FAILED"),
    ],
)
def test_what_an_end_cannot_connect_for_is_one_finding_there(one, end, command, step, code):
    one.faults.set(f"{end}-rxe0", command, f"step {step}", always=True)
    with measured(one, ALL) as program:
        rulings = program.rulings(0)
    (finding,) = [ruling.finding for ruling in rulings.values() if ruling.finding is not None]
    assert (finding.code, finding.where.node) == (code, end)
    assert all(ruling.finding or ruling.blocked_by for ruling in rulings.values())


def test_endpoints_are_known_to_who_judges_a_failure_to_connect(one):
    one.faults.set("node1-rxe0", "connect", "error")
    with measured(one, BOTH) as program:
        failure = program.correctness()[0].cells[SEND_OUT].failure
    assert set(failure.endpoints) == set(NODES)


def test_ends_that_disagree_about_the_path_mtu_are_not_used(one):
    one.faults.set("node2-rxe0", "connect", "mtu")
    with measured(one, BOTH) as program:
        cell = program.correctness()[0].cells[SEND_OUT]
    assert "path MTU 512 there, 1024 here" in text_of(cell)
    assert cell.failure.side == "node2"


@pytest.mark.parametrize("end", NODES)
@pytest.mark.parametrize("lie", ["short region", "no gpu region"])
def test_an_end_that_tells_of_no_room_for_the_messages_is_named(one, end, lie):
    one.faults.set(f"{end}-rxe0", "create_qp", lie, always=True)
    with measured(one, BOTH) as program:
        failed = failures(program.correctness()[0])
        rulings = program.rulings(0)
    assert (SEND_OUT in failed) == (lie == "short region")
    cell = next(cell for cell in failed.values() if cell.failure)
    assert (cell.failure.side, cell.failure.step) == (end, ANNOUNCED)
    (finding,) = [ruling.finding for ruling in rulings.values() if ruling.finding is not None]
    assert finding.where.node == end


# --- rails that cannot be used --------------------------------------------------------------------


def test_a_blocked_rail_is_blocked_in_every_cell_and_number(two):
    two.change_rail("node2", 0, blocked_by="PORT-NOT-ACTIVE at node2/node2-rxe0")
    with measured(two, ALL) as program:
        tables = program.correctness()
        with pytest.raises(Blocked, match="PORT-NOT-ACTIVE at node2/node2-rxe0"):
            program.timed(rail_of(program), LATENCY, "out")
        assert list(program.timed_on_all(BOTH_WAYS)) == [1]
    assert set(blocked(tables[0]).values()) == {"PORT-NOT-ACTIVE at node2/node2-rxe0"}
    assert len(blocked(tables[0])) == 40
    assert not failures(tables[1])


def test_a_blocked_gpu_leaves_host_memory_to_be_measured(one):
    one.change_rail("node1", 0, gpu_blocked_by="CUDA-INIT at node1/gpu0")
    with measured(one, ALL) as program:
        table = program.correctness()[0]
        rail = rail_of(program)
        assert program.timed(rail, LATENCY, "out").completed
        for ask in (
            lambda: program.timed(rail, BANDWIDTH, "out"),
            lambda: program.staged(rail, StagedPlan(65536, 4), "out"),
            lambda: program.far(rail, "out"),
            lambda: program.rdma_cm(rail, "pinned", "out"),
        ):
            with pytest.raises(Blocked, match="CUDA-INIT at node1/gpu0"):
                ask()
    assert set(failures(table)) == {key for key in table.cells if has_gpu(key.mode)}
    assert set(blocked(table).values()) == {"CUDA-INIT at node1/gpu0"}
    assert "open_gpu" not in one.commands("node1-rxe0") + one.commands("node2-rxe0")


def test_a_rail_whose_time_is_used_up_is_given_up(tmp_path):
    waits = WAITS.model_copy(update={"rail_s": 3.5})
    fleet = Fleet(tmp_path, 2, rails=2, gpus=True, waits=waits)
    fleet.faults.set("node2-rxe0", "arm", "hang", always=True)
    with measured(fleet, ALL) as program:
        tables = program.correctness()
    assert not failures(tables[1])
    texts = [cell.failure.text for cell in failures(tables[0]).values() if cell.failure]
    assert "its 3.5 s are used up" in texts[-1]
    assert fleet.commands("node2-rxe0").count("arm") == 2


# --- channels that break --------------------------------------------------------------------------


def test_rails_that_lose_the_channel_together_get_one_new_one(two):
    cells: list[CellKey] = []
    with two.serve("node2"), two.walk("node1", ALL) as walk:
        meeting = walk._meetings[0]

        def count(_rail, key, _cell) -> None:
            cells.append(key)
            if len(cells) == 7:
                meeting._session._calls.cut()

        program = PairProgram(
            meeting.session, one_pair(walk).rails, ALL, WAITS, "by hand", on_cell=count
        )
        tables = program.correctness()
        walk.finish()
    lost = [cell for table in tables.values() for cell in failures(table).values()]
    assert 1 <= len(lost) <= 2, "at most what each rail was doing"
    assert all(cell.failure.side == "node2" for cell in lost)
    assert meeting._returns == 1


def test_a_peer_that_is_gone_for_good_fails_the_rest_at_once(two):
    with two.walk("node1", ALL) as walk:
        program = walk.program(one_pair(walk))
        tables = program.correctness()
        with pytest.raises((PeerError, Blocked)):
            program.timed(rail_of(program), LATENCY, "out")
        walk.finish()
    for table in tables.values():
        assert len(failures(table)) == 40
        tried = [cell for cell in table.cells.values() if cell.failure]
        assert all("no channel to" in text_of(cell) for cell in tried)


def test_an_interruption_ends_all_rails_at_once(two):
    two.faults.set("node1-rxe1", "go", "hang", always=True)
    two.faults.set("node2-rxe1", "go", "hang", always=True)

    def interrupt(*_) -> None:
        eventually(lambda: "go" in two.commands("node1-rxe1"), "the other rail hangs")
        raise KeyboardInterrupt

    with two.serve("node2"), two.walk("node1", ALL) as walk:
        program = PairProgram(
            walk._meetings[0].session, one_pair(walk).rails, ALL, WAITS, "by hand",
            on_cell=interrupt,
        )  # fmt: skip
        with pytest.raises(KeyboardInterrupt):
            program.correctness()
        with pytest.raises(ChannelLost):
            raise program._courses[1]._transfers.session._calls._lost
    assert two.commands("node1-rxe1").count("go") == 1
