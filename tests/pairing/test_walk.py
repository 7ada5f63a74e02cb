"""The walk through the rounds, with fake endpoint children and real channels."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gdrcheck.outcome import PeerError
from gdrcheck.pairing.channel import ChannelLost, PeerRefused, connect
from gdrcheck.pairing.handshake import Identity
from gdrcheck.pairing.messages import Failure, clipped
from gdrcheck.pairing.pairs import owned_pairs, served_rounds
from gdrcheck.pairing.reports import TimedPlan
from gdrcheck.pairing.walk import JOURNAL_FILE
from gdrcheck.profile import Profile
from tests.pairing.fleet import SEND_OUT, WAITS, Fleet, one_pair, tables, text_of
from tests.pairing.support import LOOPBACK, PATIENCE_S, SECRET, eventually, in_thread


@pytest.fixture
def two(tmp_path):
    return Fleet(tmp_path, 2)


def test_both_ends_are_driven_and_the_peer_is_served(two):
    with two.serve("node2") as other, two.walk("node1") as walk:
        pair = one_pair(walk)
        assert (pair.round, pair.peer, pair.rails[0].remote.nic) == (0, "node2", "node2-rxe0")
        cells = walk.correctness(pair)[0].cells
        assert list(cells) == [SEND_OUT, replace(SEND_OUT, direction="in")]
        assert all(cell.passed for cell in cells.values())
        walk.finish()
    assert other["result"] == []


def test_what_was_measured_is_not_measured_again(two):
    with two.serve("node2"), two.walk("node1") as walk:
        pair = one_pair(walk)
        assert walk.correctness(pair) is walk.correctness(pair)
        assert all(ruling.passed for ruling in walk.rulings(pair, 0).values())
        walk.finish()
    assert two.commands("node1-rxe0").count("go") == 2


@pytest.mark.parametrize("count", [3, 4, 5])
def test_every_pair_of_a_fleet_is_measured_once(tmp_path, count):
    fleet = Fleet(tmp_path, count, rails=2)
    with ExitStack() as stack:
        outcomes = [
            stack.enter_context(fleet.serve(spec.name)) for spec in reversed(fleet.run.nodes)
        ]
    found = [table for outcome in outcomes for table in outcome["result"]]
    assert all(cell.passed for table in found for cell in table.cells.values())
    met = [(table.rail.local.node, table.rail.remote.node) for table in found]
    assert len(met) == len(set(met)) * 2 == count * (count - 1)


def test_a_struck_off_node_is_in_no_pair_and_awaited_by_nobody(tmp_path):
    fleet = Fleet(tmp_path, 4)
    fleet.strike("node3")
    with ExitStack() as stack:
        outcomes = [stack.enter_context(fleet.serve(node)) for node in ("node1", "node2", "node4")]
    assert [len(outcome["result"]) for outcome in outcomes] == [2, 1, 0]


def test_a_node_whose_profile_wants_no_pairs_is_in_none(tmp_path):
    fleet = Fleet(tmp_path, 3)
    nodes = [spec.model_copy(update={"profile": "q"}) if spec.name == "node2" else spec
             for spec in fleet.run.nodes]  # fmt: skip
    fleet.run = fleet.run.model_copy(
        update={"nodes": tuple(nodes), "profiles": {"p": Profile(), "q": Profile(pairs="none")}}
    )
    for node in ("node1", "node2", "node3"):
        pairs = owned_pairs(fleet.run, node, fleet.result)
        served = served_rounds(fleet.run, node, fleet.result)
        met = {pair.peer for pair in pairs} | set(served.values())
        assert met == {"node1": {"node3"}, "node2": set(), "node3": {"node1"}}[node]


def test_rounds_must_be_asked_for_in_order(tmp_path):
    fleet = Fleet(tmp_path, 3)
    with fleet.serve("node2"), fleet.serve("node3"), fleet.walk("node1") as walk:
        first, second = walk.pairs_owned()
        walk.correctness(second)
        with pytest.raises(PeerError, match=r"round \d with node\d is over"):
            walk.correctness(first)
        walk.finish()


# --- partners that die, stay away, or misbehave -------------------------------------------------


def test_a_responder_that_never_comes_costs_one_wait_and_is_in_every_cell(two):
    with two.walk("node1") as walk:
        first, second = walk.correctness(one_pair(walk))[0].cells.values()
        assert first.failure.side == "node2"
        assert "node2: no channel to " in text_of(first)
        assert text_of(second) == text_of(first)
        walk.finish()


def test_an_initiator_that_never_comes_is_given_up(two):
    with two.walk("node2") as walk:
        walk.finish()


@contextmanager
def process(fleet, node):
    """The walk of ``node`` in a process of its own."""
    fleet.write()
    walking = subprocess.Popen(
        [sys.executable, "-m", "tests.pairing.walk_process", str(fleet.directory), node],
        cwd=Path(__file__).parents[2],
    )
    try:
        yield walking
    finally:
        walking.kill()
        walking.wait(PATIENCE_S)


def timed(walk, pair):
    """A measurement that can be asked for again and again."""
    return walk.timed(pair, pair.rails[0], TimedPlan("latency", "host-host", 2, 10), "out")


@pytest.mark.parametrize("command", ["create_qp", "connect", "arm", "go"])
def test_a_responder_that_is_killed_at_a_step_is_named_with_it_and_no_other_pair_suffers(
    tmp_path, command
):
    fleet = Fleet(tmp_path, 3, waits=WAITS.model_copy(update={"connect_s": 6, "check_s": 8}))
    fleet.faults.set("node2-rxe0", command, "hang")
    with process(fleet, "node2") as killed, fleet.serve("node3") as third:
        with fleet.walk("node1") as walk:
            pairs = {pair.peer: pair for pair in walk.pairs_owned()}
            found = {}
            for pair in walk.pairs_owned():
                with in_thread(lambda pair=pair: walk.correctness(pair)) as outcome:
                    if pair.peer == "node2":
                        eventually(lambda: reached(fleet, "node2-rxe0", command), command)
                        killed.kill()
                found[pair.peer] = outcome["result"][0].cells
            walk.finish()
        eventually(lambda: bool(third), "node3 ends")
    assert set(pairs) == {"node2", "node3"}
    assert all(cell.passed for cell in found["node3"].values())
    first = found["node2"][SEND_OUT].failure
    step = {"create_qp": "endpoint"}.get(command, command)
    assert (first.side, first.step) == ("node2", step)


def reached(fleet, device, command) -> bool:
    log = fleet.directory / f"{device}-log"
    return log.exists() and command in fleet.commands(device)


def test_a_responder_process_that_is_killed_is_noticed_and_its_successor_serves_on(tmp_path):
    patient = WAITS.model_copy(update={"connect_s": 15, "check_s": 16})
    two = Fleet(tmp_path, 2, waits=patient)
    with two.walk("node1") as walk:
        pair = one_pair(walk)
        with process(two, "node2") as first:
            assert timed(walk, pair).completed
            two.faults.set("node2-rxe0", "timed", "hang")
            with in_thread(lambda: timed(walk, pair)) as outcome:
                eventually(lambda: two.commands("node2-rxe0").count("timed") == 2, "it is asked")
                first.kill()
            assert isinstance(outcome["error"], ChannelLost)
            assert outcome["error"].side == "node2"
        with process(two, "node2") as second:
            assert timed(walk, pair).completed
            walk.finish()
            assert second.wait(PATIENCE_S) == 0


def test_a_responder_that_is_gone_for_good_costs_one_wait_more(two):
    with two.walk("node1") as walk:
        pair = one_pair(walk)
        with process(two, "node2"):
            assert timed(walk, pair).completed
        eventually(lambda: not walk._meetings[0]._session.usable, "the loss is noticed")
        with pytest.raises(PeerError, match="no channel to") as first:
            timed(walk, pair)
        with pytest.raises(PeerError) as second:
            timed(walk, pair)
        assert str(second.value) == str(first.value)
        walk.finish()


def test_a_partner_that_is_late_because_of_a_dead_one_is_waited_for(tmp_path):
    fleet = Fleet(tmp_path, 4)
    with fleet.walk("node1") as probe:
        dead = probe.pairs_owned()[0].peer
    others = [spec.name for spec in fleet.run.nodes if spec.name != dead]
    with ExitStack() as stack:
        outcomes = [stack.enter_context(fleet.serve(node)) for node in others]
    found = [table for outcome in outcomes for table in outcome["result"]]
    alive = [table for table in found if dead != table.rail.remote.node]
    assert len(alive) == 3
    assert all(cell.passed for table in alive for cell in table.cells.values())
    assert all(
        dead in text_of(cell)
        for table in found
        if table not in alive
        for cell in table.cells.values()
    )


def test_an_initiator_that_dies_frees_its_responder_for_the_next(tmp_path):
    fleet = Fleet(tmp_path, 3)
    with fleet.serve("node2"), fleet.serve("node3") as third:
        with fleet.walk("node1") as walk:
            first = walk.pairs_owned()[0]
            assert timed(walk, first).completed
            for meeting in walk._meetings.values():
                eventually(lambda m=meeting: m._called_once or m._called is not None, "calls")
                if meeting._session is not None:
                    meeting._session._calls.cut()
                else:
                    meeting._called._wire.cut()
        eventually(lambda: bool(third), "node3 ends")
    assert third["result"] == []


def test_an_initiator_process_that_starts_again_goes_on_where_it_was(two):
    with two.serve("node2") as other:
        with two.walk("node1") as walk:
            assert timed(walk, one_pair(walk)).completed
            walk._meetings[0]._session._calls.cut()
        with two.walk("node1") as walk:
            assert timed(walk, one_pair(walk)).completed
            walk.finish()
    assert other["result"] == []


def test_a_responder_process_that_starts_again_does_not_wait_for_who_is_through(two):
    with two.serve("node2"), two.walk("node1") as walk:
        tables(walk)
        walk.finish()
    with two.walk("node2") as again:
        assert again._over == {"node1"}
        again.finish()


def test_the_journal_of_another_run_is_not_ours(two):
    stale = two.directory / "node2" / JOURNAL_FILE
    stale.parent.mkdir()
    stale.write_text('{"run_id": "20261129T120000Z-abc123", "over": ["node1"]}')
    with two.serve("node2"), two.walk("node1") as walk:
        (table,) = tables(walk)
        assert all(cell.passed for cell in table.cells.values())
        walk.finish()


def caller(fleet, purpose="pair", node="node1"):
    spec = fleet.run.node("node2")
    return connect(
        LOOPBACK, spec.port, Identity.of(fleet.run, node, SECRET), "node2", purpose, PATIENCE_S
    )


def test_a_long_error_of_a_child_still_fits_a_message():
    text = "x" * 100_000
    assert len(Failure(step="s", text=clipped(text)).text) == 2000


def test_who_is_late_or_not_scheduled_is_told_so(tmp_path):
    fleet = Fleet(tmp_path, 3)
    fleet.strike("node3")
    with fleet.walk("node2"):
        with pytest.raises(PeerRefused, match="rendezvous of this run is over"):
            caller(fleet, "rendezvous", "node3")
        with pytest.raises(PeerRefused, match="no round in which it meets node2"):
            caller(fleet, "pair", "node3")


def test_a_node_without_pairs_neither_listens_nor_waits(tmp_path):
    fleet = Fleet(tmp_path, 1)
    with fleet.walk("node1") as walk:
        assert walk.pairs_owned() == ()
        walk.finish()
