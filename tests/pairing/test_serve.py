"""The responder: what it does for a proven initiator, what it refuses, and what never waits."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest

from gdrcheck.outcome import PeerError
from gdrcheck.pairing.channel import EndFailure, connect
from gdrcheck.pairing.lanes import MAX_WAITING, Lanes
from gdrcheck.pairing.listener import Listener
from gdrcheck.pairing.messages import Answer, Bye, Failure, Serving
from gdrcheck.pairing.own_rails import OwnRails
from gdrcheck.pairing.serve import Responder
from gdrcheck.pairing.session_messages import (
    Arm,
    Armed,
    Endpoint,
    EndpointMade,
    GpuOpened,
    Open,
    Opened,
    OpenGpu,
    PortState,
    PortStateIs,
    Staged,
    Timed,
)
from gdrcheck.pairing.tools import PerftestStop, PerftestStopped
from gdrcheck.pairing.waits import WalkWaits
from gdrcheck.transfer import variants
from tests.pairing.fleet import GPU, WAITS, Fleet
from tests.pairing.support import LOOPBACK, PATIENCE_S, eventually, identity, in_thread

HOST = variants("host-host", (), ())[0]
BY_DMABUF = variants("gpu-gpu", ("dmabuf",), ("dmabuf",))[0]
BY_PEERMEM = variants("gpu-gpu", ("peermem",), ("peermem",))[0]
ARM = Arm(
    rail=0, operation="SEND", role="sink", sizes_bytes=(64,), iterations=1, run_tag=0, direction=0,
    variants=(HOST,),
)  # fmt: skip
TIMED = Timed(
    rail=0, kind="latency", role="sink", variant=HOST, size_bytes=2, iterations=1, seconds=0,
    depth=1, queue_pairs=1, both_ways=False,
)  # fmt: skip
STAGED = Staged(rail=0, role="sink", variant=HOST, size_bytes=64, iterations=1, run_tag=0)


class FakeTools:
    """Answers one kind of request."""

    def __init__(self) -> None:
        self.opened = None
        self.ended = 0

    def answer(self, _request, deadline) -> Answer:
        assert deadline.remaining_s > 0
        if self.opened is None:
            raise EndFailure("node2: perftest: no port", side="node2", step="perftest")
        return PerftestStopped(complaint=f"on {self.opened.netdev}")

    def end_session(self) -> None:
        self.ended += 1


@pytest.fixture
def fleet(tmp_path):
    fleet = Fleet(tmp_path, 2, rails=3, gpus=True)
    fleet.change_rail("node2", 2, blocked_by="no cable")
    return fleet


@pytest.fixture
def tools():
    return FakeTools()


@contextmanager
def serving(fleet, tools=None, gpu=GPU):
    """The channel of an initiator that node2 serves; it says ``bye`` at the end."""
    out = fleet.directory / "node2"
    out.mkdir()
    own = OwnRails.of(
        fleet.run, "node2", fleet.states["node2"].rails, {0: gpu, 1: gpu}, out,
        command=fleet.faults.command, root=fleet.directory,
    )  # fmt: skip
    waits = WalkWaits.for_rails(WAITS, 2)
    responder = Responder(own.processes, own.blocked, waits, tools={0: tools} if tools else {})
    with Listener(identity("node2"), LOOPBACK, 0, {"node1"}, beat_s=0.2) as listening:
        near = connect(LOOPBACK, listening.port, identity("node1"), "node2", "pair", PATIENCE_S)
        far = listening.accept("node1", "pair", PATIENCE_S)
        assert far is not None
        near.start_heartbeats(0.2)
        with near, in_thread(lambda: responder.serve(far, waits.begun_by(0))) as outcome:
            near.receive(PATIENCE_S, Serving)
            try:
                yield near
            finally:
                near.send(Bye())
                near.receive(PATIENCE_S, Bye)
    assert "error" not in outcome, outcome
    for rail in own.processes.values():
        rail.close()


def ask(channel, request, *kinds):
    channel.send(request)
    return channel.receive(PATIENCE_S, *kinds, Failure)


def test_answers_carry_the_rail_and_the_number_of_their_request(fleet):
    with serving(fleet) as channel:
        for number, rail in ((7, 1), (9, 0)):
            answer = ask(channel, Open(rail=rail, number=number), Opened)
            assert (answer.rail, answer.number) == (rail, number)
            assert answer.info.gid_type == "RoCE v2"
        refused = ask(channel, Open(rail=5, number=11))
        assert (refused.rail, refused.number) == (5, 11)


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        (Open(rail=5), "refused: there is no rail 5"),
        (Open(rail=2), "refused: rail 2 is blocked by no cable"),
        (
            ARM.model_copy(update={"sizes_bytes": (1, 1 << 30)}),
            "a message of 1073741824 bytes does not fit",
        ),
        (TIMED.model_copy(update={"size_bytes": 1 << 30}), "does not fit"),
        (STAGED.model_copy(update={"size_bytes": 1 << 30}), "does not fit"),
        (ARM.model_copy(update={"variants": (HOST, BY_DMABUF)}), "no region of GPU memory by dma"),
        (TIMED.model_copy(update={"variant": BY_DMABUF}), "no region of GPU memory by dmabuf"),
        (STAGED.model_copy(update={"variant": BY_DMABUF}), "no region of GPU memory by dmabuf"),
        (PerftestStop(rail=0), "rail 0 has no tools for perftest-stop"),
    ],
)  # fmt: skip
def test_what_its_own_plan_does_not_hold_is_refused(fleet, request_, complaint):
    with serving(fleet) as channel:
        assert complaint in ask(channel, request_).text
        assert isinstance(ask(channel, Open(rail=0), Opened), Opened)


def test_gpu_memory_is_used_as_it_was_registered_and_no_further(fleet):
    with serving(fleet) as channel:
        opened = ask(channel, OpenGpu(rail=0), GpuOpened)
        assert {region.key.method for region in opened.info.regions} == {"dmabuf"}
        made = ask(channel, Endpoint(rail=0), EndpointMade)
        assert BY_DMABUF.sink in {region.key for region in made.info.regions}
        by_gpu = ARM.model_copy(update={"variants": (BY_DMABUF,)})
        assert isinstance(ask(channel, by_gpu, Armed), Armed)
        other = ask(channel, ARM.model_copy(update={"variants": (BY_PEERMEM,)}))
        assert "no region of GPU memory by peermem" in other.text
        far = ask(channel, by_gpu.model_copy(update={"far": True}))
        assert "does not reach beyond 2 GiB" in far.text


def test_far_gpu_memory_is_used_when_it_is_there(fleet):
    with serving(fleet, gpu=replace(GPU, far=True)) as channel:
        ask(channel, OpenGpu(rail=0), GpuOpened)
        ask(channel, Endpoint(rail=0), EndpointMade)
        far = ARM.model_copy(update={"variants": (BY_DMABUF,), "far": True})
        assert isinstance(ask(channel, far, Armed), Armed)


def test_a_rail_that_hangs_does_not_hold_up_another(fleet):
    fleet.faults.set("node2-rxe0", "port_state", "meet here never")
    with serving(fleet) as channel:
        channel.send(PortState(rail=0, number=1))
        answer = ask(channel, PortState(rail=1, number=2), PortStateIs)
        assert (answer.rail, answer.info.state) == (1, "ACTIVE")
        killed = channel.receive(PATIENCE_S, Failure)
        assert (killed.rail, killed.number, killed.step) == (0, 1, "port_state")


def test_the_requests_of_a_rail_are_answered_in_their_order(fleet):
    with serving(fleet) as channel:
        for number in (1, 2, 3):
            channel.send(PortState(rail=0, number=number))
        answers = [channel.receive(PATIENCE_S, PortStateIs) for _ in range(3)]
        assert [answer.number for answer in answers] == [1, 2, 3]


def test_more_requests_of_a_rail_than_anybody_needs_are_refused(fleet):
    fleet.faults.set("node2-rxe0", "port_state", "slow")
    with serving(fleet) as channel:
        count = MAX_WAITING + 3
        for number in range(count):
            channel.send(PortState(rail=0, number=number))
        answers = [channel.receive(PATIENCE_S, PortStateIs, Failure) for _ in range(count)]
        refused = [answer.text for answer in answers if isinstance(answer, Failure)]
        assert 1 <= len(refused) <= 3
        assert all("too many requests" in text for text in refused)


def test_tools_get_their_port_and_are_ended_with_the_session(fleet, tools):
    with serving(fleet, tools) as channel:
        assert ask(channel, PerftestStop(rail=0)).step == "perftest"
        ask(channel, Open(rail=0), Opened)
        assert ask(channel, PerftestStop(rail=0), PerftestStopped).complaint == "on eth1"
        assert tools.ended == 0
    assert tools.ended == 1


def test_an_initiator_that_is_lost_leaves_nothing_running(fleet, tools):
    fleet.faults.set("node2-rxe0", "port_state", "hang")
    out = fleet.directory / "node2"
    out.mkdir()
    own = OwnRails.of(
        fleet.run, "node2", fleet.states["node2"].rails, {}, out, command=fleet.faults.command
    )
    waits = replace(WalkWaits.for_rails(WAITS, 2), silence_s=0.5)
    responder = Responder(own.processes, own.blocked, waits, tools={0: tools})
    with (
        Listener(identity("node2"), LOOPBACK, 0, {"node1"}, beat_s=0.2) as listening,
        connect(LOOPBACK, listening.port, identity("node1"), "node2", "pair", PATIENCE_S) as near,
        listening.accept("node1", "pair", PATIENCE_S) as far,
        in_thread(lambda: responder.serve(far, waits.begun_by(0))) as outcome,
    ):
        near.start_heartbeats(0.1)
        near.send(PortState(rail=0, number=1))
        eventually(
            lambda: (
                (fleet.directory / "node2-rxe0-log").exists()
                and "port_state" in fleet.commands("node2-rxe0")
            ),
            "the child has the request",
        )
        near.cut()
    assert isinstance(outcome["error"], PeerError)
    assert own.processes[0]._child is None
    assert tools.ended >= 1


# --- lanes ----------------------------------------------------------------------------------------


def test_what_waits_when_a_session_ends_is_not_begun():
    begun: list[int] = []
    interrupted: list[int] = []

    def work(request) -> None:
        begun.append(request.number)
        eventually(lambda: bool(interrupted), "the interruption")

    with Lanes(work, interrupted.append, 0.1) as lanes:
        for number in (1, 2, 3):
            assert lanes.put(4, PortState(rail=4, number=number))
        eventually(lambda: begun == [1], "the first is begun")
    assert (begun, interrupted) == ([1], [4])


def test_a_lane_goes_on_after_a_loss_that_its_work_met():
    done: list[int] = []

    def work(request) -> None:
        done.append(request.number)
        if request.number == 1:
            raise PeerError("gone", side="node1", step="send")

    with Lanes(work, lambda _: None, PATIENCE_S) as lanes:
        lanes.put(0, PortState(rail=0, number=1))
        lanes.put(0, PortState(rail=0, number=2))
        eventually(lambda: done == [1, 2], "both are done")
