"""The rule of the waits: nobody is given up on whom the rule allows to be late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.pairing.messages import NodeState, RailInfo
from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.pairing.schedule import rounds
from gdrcheck.pairing.waits import LOOKAHEAD, WalkWaits
from gdrcheck.run import Deadlines
from tests.pairing.test_schedule import nodes_of

RAILS = tuple(RailInfo(id=i, nic=f"rxe{i}") for i in range(2))


def waits() -> WalkWaits:
    ready = NodeState(state="ready", rails=RAILS)
    result = RendezvousResult(leader="n0", nodes={"n0": ready, "n1": NodeState(state="lost")})
    return WalkWaits.of(Deadlines(), result)


@given(st.integers(2, 16), st.data())
def test_a_node_that_was_held_up_as_long_as_a_round_may_last_is_still_waited_for(count, data):
    """Plays the walk: everyone starts late by any allowed time, every round takes any."""
    rule = waits()
    at = {f"n{i}": rule.start + data.draw(st.floats(0, rule.meet_s)) for i in range(count)}
    for number, turn in enumerate(rounds(nodes_of(count), "all")):
        for pair in turn:
            begin = max(at[pair.initiator], at[pair.responder])
            assert begin <= rule.begun_by(number)
            at[pair.initiator] = begin + data.draw(st.floats(0, rule.round_s))
            at[pair.responder] = at[pair.initiator]


def test_a_round_holds_the_meeting_and_every_rail():
    assert waits().round_s == Deadlines().connect_s + 2 * Deadlines().rail_s


def test_a_call_is_due_at_the_start_for_rounds_within_the_lookahead():
    rule = waits()
    assert rule.heard_by(LOOKAHEAD) == rule.heard_by(0) == rule.start + rule.meet_s
    assert rule.heard_by(LOOKAHEAD + 2) == rule.heard_by(0) + 2 * rule.round_s
