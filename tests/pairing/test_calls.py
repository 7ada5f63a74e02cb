"""Requests under way on one channel: each rail gets its own answer, and nobody waits for ever."""

from __future__ import annotations

import pytest

from gdrcheck.pairing.calls import Calls
from gdrcheck.pairing.channel import ChannelLost, PeerTimeout, RemoteFailure, connect
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.listener import Listener
from gdrcheck.pairing.messages import Bye, Failure
from gdrcheck.pairing.session_messages import Armed, Close, Closed, Go, PortState
from tests.pairing.support import LOOPBACK, PATIENCE_S, eventually, identity, in_thread

SILENCE_S = 20.0
SOON_S = 0.3


@pytest.fixture
def far():
    with (
        Listener(identity("node2"), LOOPBACK, 0, {"node1"}) as listening,
        connect(LOOPBACK, listening.port, identity("node1"), "node2", "pair", PATIENCE_S) as near,
        listening.accept("node1", "pair", PATIENCE_S) as far,
    ):
        far.near = near
        yield far


@pytest.fixture
def calls(far):
    calls = Calls(far.near, SILENCE_S)
    yield calls
    calls.close()


def ask(calls, request, seconds=PATIENCE_S):
    return calls.end(calls.begin(request, Deadline.after(seconds)))


def answer(request, kind=Closed, **changes):
    return kind(**{"rail": request.rail, "number": request.number} | changes)


def test_answers_find_their_requests_in_any_order(far, calls):
    first = calls.begin(Close(rail=0), Deadline.after(PATIENCE_S))
    second = calls.begin(Go(rail=1), Deadline.after(PATIENCE_S))
    asked = [far.receive(PATIENCE_S, Close, Go) for _ in range(2)]
    assert len({request.number for request in asked}) == 2
    far.send(answer(asked[1], Armed))
    far.send(answer(asked[0]))
    assert isinstance(calls.end(second), Armed)
    assert isinstance(calls.end(first), Closed)


def test_a_failure_concerns_its_own_request_alone(far, calls):
    first = calls.begin(Close(rail=0), Deadline.after(PATIENCE_S))
    second = calls.begin(Close(rail=1), Deadline.after(PATIENCE_S))
    asked = [far.receive(PATIENCE_S, Close) for _ in range(2)]
    far.send(answer(asked[0], Failure, step="close", text="it is stuck"))
    far.send(answer(asked[1]))
    with pytest.raises(RemoteFailure, match="node2: close: it is stuck"):
        calls.end(first)
    assert isinstance(calls.end(second), Closed)


def test_a_late_answer_is_not_taken_for_that_to_the_next_request(far, calls):
    with pytest.raises(PeerTimeout, match=r"node2: no answer to close within 0\.3 s") as late:
        ask(calls, Close(rail=0), SOON_S)
    assert (late.value.side, late.value.step) == ("node2", "close")
    old = far.receive(PATIENCE_S, Close)
    with in_thread(lambda: ask(calls, Go(rail=0))) as outcome:
        new = far.receive(PATIENCE_S, Go)
        far.send(answer(old))
        far.send(answer(new, Armed))
    assert isinstance(outcome["result"], Armed)


@pytest.mark.parametrize(
    "lie",
    [
        lambda asked: answer(asked, number=asked.number + 1),
        lambda asked: answer(asked, number=0),
        lambda asked: answer(asked, rail=5),
        lambda _: Bye(),
    ],
)
def test_an_answer_that_nobody_asked_for_ends_the_connection(far, calls, lie):
    with in_thread(lambda: ask(calls, Close(rail=0))) as outcome:
        far.send(lie(far.receive(PATIENCE_S, Close)))
    assert isinstance(outcome["error"], ChannelLost)
    assert "that nobody asked for" in str(outcome["error"])
    assert not calls.usable


def test_a_loss_reaches_everybody_who_waits_and_who_comes_later(far, calls):
    waiting = [calls.begin(PortState(rail=i), Deadline.after(PATIENCE_S)) for i in range(3)]
    far.close()
    for call in waiting:
        with pytest.raises(ChannelLost, match="node2"):
            calls.end(call)
    with pytest.raises(ChannelLost, match="node2"):
        calls.begin(Close(rail=0), Deadline.after(PATIENCE_S))


def test_a_peer_that_falls_silent_is_lost(far):
    calls = Calls(far.near, SOON_S)
    with pytest.raises(ChannelLost, match=r"silent for 0\.3 s"):
        ask(calls, Close(rail=0))
    calls.close()


def test_a_loss_is_noticed_while_nobody_asks(far, calls):
    far.close()
    eventually(lambda: not calls.usable, "the loss is noticed")


def test_leaving_is_answered(far, calls):
    with in_thread(lambda: calls.leave(Deadline.after(PATIENCE_S))) as outcome:
        far.send(far.receive(PATIENCE_S, Bye))
    assert outcome == {"result": None}


def test_whoever_waits_goes_on_when_the_connection_is_cut(far, calls):
    with in_thread(lambda: ask(calls, Close(rail=0))) as outcome:
        far.receive(PATIENCE_S, Close)
        calls.cut()
    assert isinstance(outcome["error"], ChannelLost)
