"""The walk through the rounds, with fake endpoint children and real channels."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gdrcheck.outcome import Blocked, PeerError
from gdrcheck.pairing import serve
from gdrcheck.pairing.cases import Measurement, exchange_cases
from gdrcheck.pairing.channel import ChannelLost, EndFailure, PeerRefused, RemoteFailure, connect
from gdrcheck.pairing.handshake import Identity
from gdrcheck.pairing.messages import (
    Arm,
    Armed,
    Failure,
    NodeState,
    Open,
    Opened,
    RailInfo,
    Serving,
)
from gdrcheck.pairing.pairs import ExchangeResult, OwnedPair, owned_pairs, served_rounds
from gdrcheck.pairing.rail import RailError
from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.pairing.walk import JOURNAL_FILE, PairWalk
from gdrcheck.profile import Profile
from gdrcheck.run import Deadlines
from gdrcheck.verbs.protocol import MODIFY_QP, MTU_HERE, ExchangePlan
from tests.pairing.support import (
    LOOPBACK,
    PATIENCE_S,
    SECRET,
    Faults,
    eventually,
    in_thread,
    run_of,
)

WAITS = Deadlines(completion_s=1.5, connect_s=2, check_s=3, rail_s=20, rendezvous_s=5, phase_s=60)
PLAN = ExchangePlan(sizes_bytes=(1, 1024), iterations=3)


class Fleet:
    """Nodes of one run in this process. Devices are named after their node: node1-rxe0."""

    def __init__(self, tmp_path, count: int, rails: int = 1, waits: Deadlines = WAITS) -> None:
        self.run = run_of(count, waits, rounds="all")
        self.faults = Faults(tmp_path)
        self._directory = tmp_path
        self.states = {
            spec.name: NodeState(
                state="ready",
                rails=tuple(RailInfo(id=i, nic=f"{spec.name}-rxe{i}") for i in range(rails)),
            )
            for spec in self.run.nodes
        }

    @property
    def directory(self) -> Path:
        return self._directory

    def write(self) -> None:
        """Leave run, list and directories where ``walk_process`` finds them."""
        (self._directory / "run.json").write_text(self.run.model_dump_json())
        self.result.write(self._directory / "rendezvous.json")
        for spec in self.run.nodes:
            (self._directory / spec.name).mkdir(exist_ok=True)

    @property
    def result(self) -> RendezvousResult:
        return RendezvousResult(leader="node1", nodes=self.states)

    def strike(self, node: str) -> None:
        self.states[node] = NodeState(state="absent", reason="for the test")

    def walk(self, node: str) -> PairWalk:
        out = self._directory / node
        out.mkdir(exist_ok=True)
        return PairWalk(
            self.run, node, SECRET, self.result, out, command=self.faults.command,
            root=self._directory,
        )  # fmt: skip

    def serve(self, node: str):
        """Runs the whole walk of ``node`` beside the block, with one exchange for each pair."""

        def body() -> list[Any]:
            with self.walk(node) as walk:
                outcomes = exchanges(walk)
                walk.finish()
                return outcomes

        return in_thread(body)


def exchanges(walk: PairWalk) -> list[Any]:
    outcomes: list[Any] = []
    for pair in walk.pairs_owned():
        for rail in pair.rails:
            try:
                outcomes.append(walk.exchange(pair, rail, "SEND", "out", PLAN))
            except (PeerError, Blocked) as error:
                outcomes.append(error)
    return outcomes


@pytest.fixture
def two(tmp_path):
    return Fleet(tmp_path, 2)


def one_pair(walk: PairWalk) -> OwnedPair:
    (pair,) = walk.pairs_owned()
    return pair


def test_an_exchange_is_driven_on_both_ends(two):
    with two.serve("node2"), two.walk("node1") as walk:
        pair = one_pair(walk)
        assert (pair.round, pair.peer, pair.rails[0].remote.nic) == (0, "node2", "node2-rxe0")
        for operation in ("SEND", "READ"):
            for direction in ("out", "in"):
                result = walk.exchange(pair, pair.rails[0], operation, direction, PLAN)
                assert result.completed, result
                near, far = result.source_report, result.sink_report
                nodes = ("node1", "node2") if direction == "out" else ("node2", "node1")
                assert (near.node, far.node) == nodes
                assert result.path_mtu == 1024
        walk.finish()
    armed = {
        node: [r for r in two.faults.requests(f"{node}-rxe0") if r["command"] == "arm"]
        for node in ("node1", "node2")
    }
    assert [r["role"] for r in armed["node1"]] == ["source", "sink", "source", "sink"]
    assert [r["role"] for r in armed["node2"]] == ["sink", "source", "sink", "source"]
    for ours, theirs in zip(armed["node1"], armed["node2"], strict=True):
        assert {**ours, "role": ""} == {**theirs, "role": ""}
    assert len({r["run_tag"] for r in armed["node1"]}) == 4
    commands = [r["command"] for r in two.faults.requests("node2-rxe0")]
    assert commands.count("create_qp") == commands.count("close_qp") == 1


@pytest.mark.parametrize("count", [3, 4, 5])
def test_every_pair_of_a_fleet_is_measured_once(tmp_path, count):
    fleet = Fleet(tmp_path, count, rails=2)
    with ExitStack() as stack:
        outcomes = [
            stack.enter_context(fleet.serve(spec.name)) for spec in reversed(fleet.run.nodes)
        ]
    results = [result for outcome in outcomes for result in outcome["result"]]
    assert all(result.completed for result in results)
    met = [(r.source_report.node, r.sink_report.node) for r in results]
    assert len(met) == len(set(met)) * 2 == count * (count - 1)


def test_a_struck_off_node_is_in_no_pair_and_awaited_by_nobody(tmp_path):
    fleet = Fleet(tmp_path, 4)
    fleet.strike("node3")
    with ExitStack() as stack:
        outcomes = [stack.enter_context(fleet.serve(node)) for node in ("node1", "node2", "node4")]
    assert [len(outcome["result"]) for outcome in outcomes] == [2, 1, 0]


def test_a_mismatch_is_in_the_result_with_the_end_that_saw_it(two):
    two.faults.set("node2-rxe0", "go", "mismatch")
    with two.serve("node2"), two.walk("node1") as walk:
        pair = one_pair(walk)
        result = walk.exchange(pair, pair.rails[0], "SEND", "out", PLAN)
        assert not result.completed
        assert result.sink_report.node == "node2"
        assert result.sink_report.report.mismatch.first_bad_offset == 7
        assert result.source_report.completed
        assert walk.exchange(pair, pair.rails[0], "SEND", "out", PLAN).completed
        walk.finish()
    commands = [r["command"] for r in two.faults.requests("node1-rxe0")]
    assert commands.count("create_qp") == 2, "both ends need new queue pairs after that"


def test_a_completion_error_of_the_source_is_in_its_report(two):
    two.faults.set("node1-rxe0", "go", "completion_error")
    with two.serve("node2"), two.walk("node1") as walk:
        pair = one_pair(walk)
        result = walk.exchange(pair, pair.rails[0], "SEND", "out", PLAN)
        assert result.source_report.report.completion_error.status == "RETRY_EXC_ERR"
        assert not result.completed
        walk.finish()


def test_a_sink_that_claims_success_but_verified_too_little_has_not_completed(two):
    two.faults.set("node2-rxe0", "go", "short")
    with two.serve("node2"), two.walk("node1") as walk:
        pair = one_pair(walk)
        result = walk.exchange(pair, pair.rails[0], "SEND", "out", PLAN)
        assert result.sink_report.completed
        assert result.unverified == "verified only 0 of 3 messages of 1024 bytes"
        assert not result.completed
        walk.finish()


@pytest.mark.parametrize("end", ["node1", "node2"])
@pytest.mark.parametrize(
    ("command", "fault", "complaint"),
    [
        ("open", "crash", "killed by SIGSEGV"),
        ("arm", "crash", "killed by SIGSEGV"),
        ("connect", "hang", "did not end within 2 s"),
        ("open", "error", "Invalid argument"),
        ("connect", "error", "Invalid argument"),
    ],
)
def test_an_end_that_cannot_do_its_part_is_named_and_the_next_exchange_works(
    two, end, command, fault, complaint
):
    two.faults.set(f"{end}-rxe0", command, fault)
    with two.serve("node2"), two.walk("node1") as walk:
        pair = one_pair(walk)
        with pytest.raises(EndFailure, match=complaint) as failure:
            walk.exchange(pair, pair.rails[0], "SEND", "out", PLAN)
        assert isinstance(failure.value, RailError if end == "node1" else RemoteFailure)
        assert failure.value.side == end
        assert (failure.value.error is not None) == (fault == "error")
        assert walk.exchange(pair, pair.rails[0], "SEND", "out", PLAN).completed
        walk.finish()


@pytest.mark.parametrize("end", ["node1", "node2"])
def test_a_child_that_dies_in_an_exchange_is_named_and_the_next_exchange_works(two, end):
    two.faults.set(f"{end}-rxe0", "go", "crash")
    with two.serve("node2"), two.walk("node1") as walk:
        pair = one_pair(walk)
        with pytest.raises(EndFailure, match="SIGSEGV") as failure:
            walk.exchange(pair, pair.rails[0], "SEND", "out", PLAN)
        assert failure.value.side == end
        assert walk.exchange(pair, pair.rails[0], "SEND", "out", PLAN).completed
        walk.finish()


@pytest.mark.parametrize("end", ["node1", "node2"])
@pytest.mark.parametrize(
    ("command", "step", "code"),
    [
        ("open", MTU_HERE, "PAIR-MTU"),
        ("connect", f"{MODIFY_QP} INIT to RTR", "PAIR-CONNECT-FAILED"),
        ("create_qp", f"{MODIFY_QP} RESET to INIT", "PAIR-CONNECT-FAILED"),
    ],
)
def test_what_an_end_could_not_connect_for_is_a_finding_at_that_end(two, end, command, step, code):
    two.faults.set(f"{end}-rxe0", command, f"step {step}", always=True)
    with two.serve("node2"), two.walk("node1") as walk:
        case = exchange_cases([one_pair(walk)])[0]
        found = Measurement(walk).finding(case, PLAN)
        assert found is not None
        assert (found.code, found.where.node) == (code, end)
        walk.finish()


def test_ends_that_disagree_about_the_path_mtu_are_not_used(two):
    two.faults.set("node2-rxe0", "connect", "mtu")
    with two.serve("node2"), two.walk("node1") as walk:
        pair = one_pair(walk)
        with pytest.raises(EndFailure, match="path MTU 512 there, 1024 here"):
            walk.exchange(pair, pair.rails[0], "SEND", "out", PLAN)
        walk.finish()


def test_a_blocked_rail_is_blocked_with_its_node_and_reason(tmp_path):
    fleet = Fleet(tmp_path, 2)
    rail = RailInfo(id=0, nic="node2-rxe0", blocked_by="PORT-NOT-ACTIVE at node2/rxe0")
    fleet.states["node2"] = NodeState(state="ready", rails=(rail,))
    with fleet.serve("node2"), fleet.walk("node1") as walk:
        pair = one_pair(walk)
        with pytest.raises(Blocked, match="blocked by PORT-NOT-ACTIVE at node2/rxe0"):
            walk.exchange(pair, pair.rails[0], "SEND", "out", PLAN)
        walk.finish()


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
        walk.exchange(second, second.rails[0], "SEND", "out", PLAN)
        with pytest.raises(PeerError, match=r"round \d with node\d is over"):
            walk.exchange(first, first.rails[0], "SEND", "out", PLAN)
        walk.finish()


# --- partners that die, stay away, or misbehave -------------------------------------------------


def test_a_responder_that_never_comes_costs_one_wait(two):
    with two.walk("node1") as walk:
        pair = one_pair(walk)
        with pytest.raises(PeerError, match="node2: no channel to "):
            walk.exchange(pair, pair.rails[0], "SEND", "out", PLAN)
        with in_thread(lambda: exchanges(walk)) as outcome:
            eventually(lambda: bool(outcome), "the second error")
        assert "no channel to 127.0.0.1" in str(outcome["result"][0])
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


def test_a_responder_process_that_is_killed_is_noticed_and_its_successor_serves_on(tmp_path):
    patient = WAITS.model_copy(update={"connect_s": 15, "check_s": 16})
    two = Fleet(tmp_path, 2, waits=patient)
    with two.walk("node1") as walk:
        pair = one_pair(walk)
        with process(two, "node2") as first:
            assert walk.exchange(pair, pair.rails[0], "SEND", "out", PLAN).completed
            first.kill()
            with pytest.raises(ChannelLost, match="node2") as failure:
                walk.exchange(pair, pair.rails[0], "SEND", "out", PLAN)
            assert failure.value.side == "node2"
        with process(two, "node2") as second:
            assert walk.exchange(pair, pair.rails[0], "SEND", "out", PLAN).completed
            walk.finish()
            assert second.wait(PATIENCE_S) == 0


def test_a_responder_that_is_gone_for_good_costs_one_wait_more(two):
    with two.walk("node1") as walk:
        pair = one_pair(walk)
        with process(two, "node2"):
            assert walk.exchange(pair, pair.rails[0], "SEND", "out", PLAN).completed
        first, second, third = (exchanges(walk)[0] for _ in range(3))
        assert isinstance(first, ChannelLost)
        assert "no channel to" in str(second)
        assert str(third) == str(second)
        walk.finish()


def test_a_partner_that_is_late_because_of_a_dead_one_is_waited_for(tmp_path):
    fleet = Fleet(tmp_path, 4)
    with fleet.walk("node1") as probe:
        dead = probe.pairs_owned()[0].peer
    others = [spec.name for spec in fleet.run.nodes if spec.name != dead]
    with ExitStack() as stack:
        outcomes = [stack.enter_context(fleet.serve(node)) for node in others]
    results = [result for outcome in outcomes for result in outcome["result"]]
    measured = [r for r in results if isinstance(r, ExchangeResult)]
    failed = [r for r in results if not isinstance(r, ExchangeResult)]
    assert len(measured) == 3
    assert all(dead in str(error) for error in failed)


def test_an_initiator_that_dies_frees_its_responder_for_the_next(tmp_path):
    fleet = Fleet(tmp_path, 3)
    with fleet.serve("node2"), fleet.serve("node3") as third:
        with fleet.walk("node1") as walk:
            first = walk.pairs_owned()[0]
            assert walk.exchange(first, first.rails[0], "SEND", "out", PLAN).completed
            for meeting in walk._meetings.values():
                eventually(lambda m=meeting: m._called_once or m._called is not None, "calls")
                if meeting._session is not None:
                    meeting._session._channel._wire.cut()
                else:
                    meeting._called._wire.cut()
        eventually(lambda: bool(third), "node3 ends")
    assert third["result"] == []


def test_an_initiator_process_that_starts_again_goes_on_where_it_was(two):
    with two.serve("node2") as other:
        with two.walk("node1") as walk:
            pair = one_pair(walk)
            assert walk.exchange(pair, pair.rails[0], "SEND", "out", PLAN).completed
            walk._meetings[0]._session._channel._wire.cut()
        with two.walk("node1") as walk:
            assert walk.exchange(pair, pair.rails[0], "SEND", "out", PLAN).completed
            walk.finish()
    assert other["result"] == []


def test_a_responder_process_that_starts_again_does_not_wait_for_who_is_through(two):
    with two.serve("node2"), two.walk("node1") as walk:
        exchanges(walk)
        walk.finish()
    with two.walk("node2") as again:
        assert again._over == {"node1"}
        again.finish()


def test_the_journal_of_another_run_is_not_ours(two):
    stale = two.directory / "node2" / JOURNAL_FILE
    stale.parent.mkdir()
    stale.write_text('{"run_id": "20261129T120000Z-abc123", "over": ["node1"]}')
    with two.serve("node2"), two.walk("node1") as walk:
        (result,) = exchanges(walk)
        assert result.completed
        walk.finish()


def caller(fleet, purpose="pair", node="node1"):
    spec = fleet.run.node("node2")
    return connect(
        LOOPBACK, spec.port, Identity.of(fleet.run, node, SECRET), "node2", purpose, PATIENCE_S
    )


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        (Open(rail=5), "refused: there is no rail 5"),
        (Open(rail=1), "refused: rail 1 is blocked by no cable"),
        (
            Arm(
                rail=0, operation="SEND", role="sink", sizes_bytes=(1 << 30,), iterations=1,
                run_tag=0, direction=0,
            ),
            "a message of 1073741824 bytes does not fit",
        ),
    ],
)  # fmt: skip
def test_a_responder_refuses_what_its_own_plan_does_not_hold(two, request_, complaint):
    rails = (RailInfo(id=0, nic="node2-rxe0"), RailInfo(id=1, nic="x", blocked_by="no cable"))
    two.states["node2"] = NodeState(state="ready", rails=rails)
    with two.serve("node2"), caller(two) as channel:
        channel.receive(PATIENCE_S, Serving)
        channel.send(request_)
        with pytest.raises(RemoteFailure, match=complaint):
            channel.receive(PATIENCE_S, Opened, Armed)
        channel.send(Open(rail=0))
        assert channel.receive(PATIENCE_S, Opened).info.gid_type == "RoCE v2"
        channel.send(serve.Bye())
        channel.receive(PATIENCE_S, serve.Bye)


def test_a_long_error_of_a_child_still_fits_a_message():
    text = "x" * 100_000
    failure = Failure(step="s", text=serve.clipped(text))
    assert len(failure.text) == 2000


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
