"""The rendezvous: one list for all, whoever is missing, late, or dies."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.outcome import InputError, PeerError
from gdrcheck.pairing import handshake
from gdrcheck.pairing.channel import PeerRefused, connect
from gdrcheck.pairing.desk import Timing, list_parts
from gdrcheck.pairing.frames import pack
from gdrcheck.pairing.handshake import IMAGE_ID_VARIABLE, Identity
from gdrcheck.pairing.listener import Listener
from gdrcheck.pairing.messages import (
    ClockOffset,
    ListPart,
    ListTaken,
    NodeState,
    RailInfo,
    Ready,
    Refused,
)
from gdrcheck.pairing.rendezvous import Rendezvous, RendezvousResult
from tests.pairing.support import LOOPBACK, PATIENCE_S, SECRET, eventually, identity, run_of

QUICK = Timing(rendezvous_s=2, phase_s=10, silence_s=1.5, beat_s=0.2, attempt_s=0.3)
RAIL = RailInfo(id=0, nic="rxe0")


class Fleet:
    """Several nodes of one run in this process, each with its rendezvous."""

    def __init__(self, stack: ExitStack, count: int, present: list[str] | None = None) -> None:
        self.run = run_of(count)
        self._stack = stack
        self._present = present or [spec.name for spec in self.run.nodes]
        self._threads: list[threading.Thread] = []
        self.outcomes: dict[str, Any] = {}

    def start(self, *names: str) -> list[Rendezvous]:
        return [self._start(name) for name in names]

    def _start(self, name: str) -> Rendezvous:
        meeting = Rendezvous(self.run, name, SECRET, self._present, timing=QUICK)
        meeting = self._stack.enter_context(meeting)
        meeting.start()
        return meeting

    def ready(self, *meetings: Rendezvous) -> None:
        """Each becomes ready in a thread; ``wait`` collects what came of it."""
        for meeting in meetings:
            thread = threading.Thread(target=self._ready, args=(meeting,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _ready(self, meeting: Rendezvous) -> None:
        try:
            self.outcomes[meeting._node] = meeting.ready([RAIL])
        except Exception as error:
            self.outcomes[meeting._node] = error

    def wait(self) -> dict[str, Any]:
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "the rendezvous did not end"
        return self.outcomes

    def one_list(self) -> RendezvousResult:
        """The list, after it was seen to be the same for all."""
        lists = list(self.wait().values())
        assert all(isinstance(entry, RendezvousResult) for entry in lists), lists
        assert all(entry == lists[0] for entry in lists)
        return lists[0]


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


def states(result: RendezvousResult) -> dict[str, str]:
    return {name: node.state for name, node in result.nodes.items()}


def test_all_ready_get_the_same_list_with_all_rails(stack):
    fleet = Fleet(stack, 6)
    fleet.ready(*fleet.start(*(spec.name for spec in fleet.run.nodes)))
    result = fleet.one_list()
    assert result.leader == "node1"
    assert list(result.nodes) == [spec.name for spec in fleet.run.nodes]
    assert {node.state for node in result.nodes.values()} == {"ready"}
    assert all(node.rails == (RAIL,) for node in result.nodes.values())


def test_the_list_tells_each_clock_against_the_leaders(stack, monkeypatch):
    real_offset = handshake.clock_offset
    # As seen by a node whose own clock is a minute late: the leader's is ahead of it.
    monkeypatch.setattr(
        handshake,
        "clock_offset",
        lambda sent_s, trip_s, other_s: real_offset(sent_s - 60, trip_s, other_s),
    )
    fleet = Fleet(stack, 3)
    fleet.ready(*fleet.start("node1", "node2"))
    result = fleet.one_list()
    assert result.nodes["node1"].clock is None
    assert result.nodes["node3"].clock is None
    clock = result.nodes["node2"].clock
    assert clock is not None
    assert abs(clock.offset_s - 60) <= clock.error_s + 1e-5


def test_the_port_is_free_afterwards(stack):
    fleet = Fleet(stack, 2)
    fleet.ready(*fleet.start("node1", "node2"))
    fleet.one_list()
    for spec in fleet.run.nodes:
        with Listener(identity(spec.name), LOOPBACK, spec.port, ()):
            pass


def test_a_node_that_never_comes_is_absent(stack):
    fleet = Fleet(stack, 3)
    fleet.ready(*fleet.start("node1", "node3"))
    result = fleet.one_list()
    assert states(result) == {"node1": "ready", "node2": "absent", "node3": "ready"}
    assert result.nodes["node2"].reason == "not seen within 2 s of node1 being ready"


def test_a_node_that_was_not_started_is_absent_without_a_wait(stack):
    fleet = Fleet(stack, 3, present=["node1", "node3"])
    fleet.ready(*fleet.start("node1", "node3"))
    assert fleet.one_list().nodes["node2"].reason == "not started: preflight did not pass"


def test_a_node_that_dies_in_its_node_phase_is_lost(stack):
    fleet = Fleet(stack, 3)
    one, two, three = fleet.start("node1", "node2", "node3")
    fleet.ready(one)
    eventually(lambda: two._channel is not None, "node2 reports")
    two.__exit__(None, None, None)
    fleet.ready(three)
    result = fleet.one_list()
    assert states(result) == {"node1": "ready", "node2": "lost", "node3": "ready"}
    assert result.nodes["node2"].reason == "nothing heard for 1.5 s"


def test_a_node_that_is_alive_may_take_longer_than_the_absent(stack):
    fleet = Fleet(stack, 2)
    one, two = fleet.start("node1", "node2")
    fleet.ready(one)
    threading.Timer(QUICK.rendezvous_s + 1, fleet.ready, args=(two,)).start()
    eventually(lambda: len(fleet._threads) == 2, "node2 is ready late")
    assert states(fleet.one_list()) == {"node1": "ready", "node2": "ready"}


def test_without_the_first_the_next_leads(stack):
    fleet = Fleet(stack, 4)
    fleet.ready(*fleet.start("node2", "node3", "node4"))
    result = fleet.one_list()
    assert result.leader == "node2"
    assert states(result) == {
        "node1": "absent", "node2": "ready", "node3": "ready", "node4": "ready",
    }  # fmt: skip


def test_when_the_leader_dies_the_next_leads(stack):
    fleet = Fleet(stack, 3)
    one, two, three = fleet.start("node1", "node2", "node3")
    eventually(lambda: two._channel is not None and three._channel is not None, "all report")
    fleet.ready(two, three)
    one.__exit__(None, None, None)
    result = fleet.one_list()
    assert result.leader == "node2"
    assert states(result) == {"node1": "absent", "node2": "ready", "node3": "ready"}


def test_a_first_node_that_starts_last_still_leads_all(stack):
    fleet = Fleet(stack, 3)
    two, three = fleet.start("node2", "node3")
    eventually(lambda: three._channel is not None, "node3 reports to node2")
    (one,) = fleet.start("node1")
    fleet.ready(one, two, three)
    assert fleet.one_list().leader == "node1"


def test_nobody_to_report_to_is_an_error_that_says_whom_was_tried(stack):
    fleet = Fleet(stack, 6)
    fleet.ready(*fleet.start("node6"))
    error = fleet.wait()["node6"]
    assert isinstance(error, PeerError)
    assert "node6: no candidate for the lead within 2 s" in str(error)
    assert all(f"node{i}: no channel to 127.0.0.1" in str(error) for i in range(1, 5))


def test_a_late_node_is_told_that_the_rendezvous_is_over(stack):
    fleet = Fleet(stack, 3)
    fleet.ready(*fleet.start("node1", "node2"))
    assert states(fleet.one_list())["node3"] == "absent"
    spec = fleet.run.node("node1")
    over = Refused(reason="the rendezvous of this run is over", retry=False)
    names = [node.name for node in fleet.run.nodes]
    owner = Identity.of(fleet.run, "node1", SECRET)
    with Listener(owner, LOOPBACK, spec.port, names, lambda *_: over):
        fleet.ready(*fleet.start("node3"))
        error = fleet.wait()["node3"]
    assert isinstance(error, PeerRefused)
    assert "node1 refused: the rendezvous of this run is over" in str(error)


def report_by_hand(fleet, node):
    """A channel on which ``node`` has reported ready to node1."""
    spec = fleet.run.node("node1")
    own = Identity.of(fleet.run, node, SECRET)
    channel = connect(LOOPBACK, spec.port, own, "node1", "rendezvous", PATIENCE_S)
    channel.start_heartbeats(QUICK.beat_s)
    channel.send(Ready(rails=(RAIL,)))
    return channel


def test_while_the_list_is_given_out_ready_nodes_may_return_and_others_are_told(stack):
    fleet = Fleet(stack, 3)
    fleet.ready(*fleet.start("node1"))
    with report_by_hand(fleet, "node2") as first:
        given = first.receive(PATIENCE_S, ListPart, silence_s=PATIENCE_S)
        assert given.last
        (late,) = fleet.start("node3")
        with pytest.raises(PeerRefused, match="node3 is absent"):
            late.ready([RAIL])
        with report_by_hand(fleet, "node2") as again:
            assert again.receive(PATIENCE_S, ListPart) == given
            again.send(ListTaken())
    assert fleet.one_list().nodes == given.nodes


def test_a_pair_call_during_the_rendezvous_is_tried_again_until_it_is_over(stack):
    fleet = Fleet(stack, 2)
    spec = fleet.run.node("node1")
    own = Identity.of(fleet.run, "node2", SECRET)
    fleet.start("node1")
    with pytest.raises(PeerError, match="last: node1 refused: the rendezvous is still running"):
        connect(LOOPBACK, spec.port, own, "node1", "pair", 0.5)


def test_a_node_that_runs_another_image_is_refused_and_told(stack, monkeypatch):
    fleet = Fleet(stack, 2)
    monkeypatch.setenv(IMAGE_ID_VARIABLE, "sha256:one")
    fleet.ready(*fleet.start("node1"))
    monkeypatch.setenv(IMAGE_ID_VARIABLE, "sha256:other")
    fleet.ready(*fleet.start("node2"))
    outcomes = fleet.wait()
    told = "image differs: node1 has 'sha256:one', node2 has 'sha256:other'"
    assert told in str(outcomes["node2"])
    assert states(outcomes["node1"])["node2"] == "absent"


def test_a_list_with_other_rails_of_ours_is_refused():
    run = run_of(2)
    meeting = Rendezvous(run, "node2", SECRET, ["node1", "node2"])
    meeting._rails = (RAIL,)
    good = {name: NodeState(state="ready", rails=(RAIL,)) for name in ("node1", "node2")}
    assert meeting._result("node1", good).nodes["node2"].rails == (RAIL,)
    for rails in ((), (RailInfo(id=0, nic="other"),)):
        bad = {**good, "node2": NodeState(state="ready", rails=rails)}
        with pytest.raises(PeerError, match="other rails of node2"):
            meeting._result("node1", bad)


def test_a_run_of_one_node_does_not_wait(stack, tmp_path):
    run = run_of(1)
    path = tmp_path / "rendezvous.json"
    meeting = stack.enter_context(Rendezvous(run, "node1", SECRET, ["node1"], path=path))
    meeting.start()
    result = meeting.ready([RAIL])
    assert states(result) == {"node1": "ready"}
    assert RendezvousResult.load(path) == result
    assert path.stat().st_mode & 0o777 == 0o644
    assert json.loads(path.read_text())["leader"] == "node1"


def test_a_node_that_is_not_present_is_an_input_error():
    with pytest.raises(InputError, match="node node2 is not among those present: node1"):
        Rendezvous(run_of(2), "node2", SECRET, ["node1"])


@given(st.lists(st.integers(0, 64), min_size=1, max_size=100))
def test_the_parts_of_a_list_fit_a_frame_and_lose_nothing(rail_counts):
    rail = RailInfo(id=1, gpu="g" * 64, nic="n" * 64, blocked_by="b" * 400)
    clock = ClockOffset(offset_s=-99999999999.123456, error_s=12345678.123456)
    nodes = {
        f"node{i}": NodeState(state="ready", reason="r" * 300, rails=(rail,) * count, clock=clock)
        for i, count in enumerate(rail_counts)
    }
    parts = list_parts("node0", nodes)
    assert {name: state for part in parts for name, state in part.nodes.items()} == nodes
    assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]
    for part in parts:
        pack(b"k", 1, part)
