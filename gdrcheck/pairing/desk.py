"""Where the other nodes report before the pair phase: the leading side of the rendezvous.

Every candidate for the lead keeps a desk from its start on. While it has not found an earlier
candidate, it holds those who report to it; when it follows one, it sends them there; when it
leads, it decides about every node once and gives all ready ones the same list.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from gdrcheck.outcome import PeerError
from gdrcheck.pairing.channel import Channel, ChannelLost
from gdrcheck.pairing.handshake import Identity
from gdrcheck.pairing.listener import Listener
from gdrcheck.pairing.messages import (
    ListPart,
    ListTaken,
    Moved,
    NodeState,
    Purpose,
    RailInfo,
    Ready,
    Refused,
)
from gdrcheck.pairing.reception import Reception
from gdrcheck.run import Deadlines, NodeSpec

# A list part stays well below the size of a frame: this many rails at most, or one node.
RAILS_A_PART = 32
TICK_S = 0.5

log = logging.getLogger("gdrcheck.rendezvous")


@dataclass(frozen=True, slots=True)
class Timing:
    """The waits of the rendezvous, in seconds.

    ``silence_s``: a node of which nothing came for so long is lost; it says ``alive`` every
    ``beat_s``. ``attempt_s``: time for one attempt to reach a candidate.
    """

    rendezvous_s: float
    phase_s: float
    silence_s: float
    beat_s: float
    attempt_s: float

    @classmethod
    def of(cls, waits: Deadlines) -> Timing:
        """The waits that follow from the deadlines of a run."""
        silence_s = max(15.0, waits.rendezvous_s / 4)
        return cls(
            rendezvous_s=waits.rendezvous_s,
            phase_s=waits.phase_s,
            silence_s=silence_s,
            beat_s=silence_s / 5,
            attempt_s=2.0,
        )


class _Member:
    """One node that has reported."""

    def __init__(self, now: float) -> None:
        self.first_seen = self.last_heard = now
        self.channel: Channel | None = None
        self.ready: Ready | None = None
        self.has_list = False


class Desk:
    """Accepts reports while the ``with`` block lasts. One thread for each node that reported."""

    def __init__(
        self, identity: Identity, spec: NodeSpec, peers: Sequence[str], timing: Timing
    ) -> None:
        self._peers = tuple(peers)
        self._timing = timing
        self._node = spec.name
        listener = Listener(
            identity, spec.address, spec.port, self._peers, _only_rendezvous, timing.beat_s
        )
        self._reception = Reception(listener, "rendezvous", self._attend)
        self._changed = threading.Condition()
        self._members: dict[str, _Member] = {}
        self._follows: str | None = None
        self._decided: dict[str, NodeState] | None = None

    def __enter__(self) -> Desk:
        self._reception.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._reception.__exit__(kind, error, traceback)

    def follow(self, leader: str | None) -> None:
        """Send everyone to ``leader`` from now on; None: hold them again."""
        with self._changed:
            self._follows = leader
            channels = [m.channel for m in self._members.values() if m.channel is not None]
        if leader is not None:
            for channel in channels:
                self._tell_moved(channel, leader)

    def decide(
        self, own: tuple[RailInfo, ...], never_seen_at: float, stop: threading.Event
    ) -> dict[str, NodeState] | None:
        """Wait until every node is ready or struck off, then decide; None when stopped.

        ``never_seen_at`` (monotonic) is when nodes that never reported are absent.
        """
        with self._changed:
            while not stop.is_set():
                now = time.monotonic()
                states = {name: self._state(name, now, never_seen_at) for name in self._peers}
                settled = {name: state for name, state in states.items() if state is not None}
                if len(settled) == len(states):
                    self._decided = {self._node: NodeState(state="ready", rails=own)} | settled
                    return self._decided
                self._changed.wait(TICK_S)
        return None

    def publish(self, states: dict[str, NodeState]) -> None:
        """Give ``states`` to all ready nodes; waits for each at most ``silence_s``."""
        self._decided = states
        limit = time.monotonic() + self._timing.silence_s
        with self._changed:
            holders = [
                member
                for name, member in self._members.items()
                if states[name].state == "ready" and member.channel is not None
            ]
        for member in holders:
            if member.channel is not None:
                self._send_list(member.channel, states)
        with self._changed:
            while any(m.channel is not None and not m.has_list for m in holders):
                left_s = limit - time.monotonic()
                if left_s <= 0:
                    log.warning("not every ready node has confirmed the list")
                    return
                self._changed.wait(left_s)

    def _state(self, name: str, now: float, never_seen_at: float) -> NodeState | None:
        """What has become of a node, None while that is open."""
        timing = self._timing
        member = self._members.get(name)
        if member is None:
            if now < never_seen_at:
                return None
            reason = f"not seen within {timing.rendezvous_s:g} s"
            return NodeState(state="absent", reason=f"{reason} of {self._node} being ready")
        if member.channel is None:
            if now < member.last_heard + timing.silence_s:
                return None
            return NodeState(state="lost", reason=f"nothing heard for {timing.silence_s:g} s")
        if member.ready is not None:
            return NodeState(state="ready", rails=member.ready.rails, clock=member.ready.clock)
        if now < member.first_seen + timing.phase_s + timing.silence_s:
            return None
        return NodeState(state="lost", reason=f"alive, but not ready in {timing.phase_s:g} s")

    def _attend(self, channel: Channel) -> None:
        """Serve one report until its connection ends."""
        member = self._admit(channel)
        if member is None:
            return
        try:
            while True:
                body = channel.receive(
                    2 * self._timing.phase_s, Ready, ListTaken,
                    silence_s=self._timing.silence_s,
                )  # fmt: skip
                with self._changed:
                    if isinstance(body, Ready):
                        member.ready = body
                    else:
                        member.has_list = True
                    self._changed.notify_all()
        except PeerError as error:
            log.info("%s", error)
        with self._changed:
            if member.channel is channel:
                member.channel = None
                member.last_heard = channel.heard_at
            self._changed.notify_all()

    def _admit(self, channel: Channel) -> _Member | None:
        """The record of the node that reports; None when it has no business here any more."""
        with self._changed:
            decided, follows = self._decided, self._follows
            member = self._members.setdefault(channel.peer, _Member(time.monotonic()))
            if follows is None and (decided is None or decided[channel.peer].state == "ready"):
                if member.channel is not None:
                    member.channel.cut()
                member.channel = channel
                self._changed.notify_all()
                if decided is None:
                    return member
        if follows is not None:
            self._tell_moved(channel, follows)
            return None
        assert decided is not None
        state = decided[channel.peer]
        if state.state != "ready":
            self._tell_late(channel, state)
            return None
        self._send_list(channel, decided)
        return member

    def _tell_moved(self, channel: Channel, leader: str) -> None:
        try:
            channel.send(Moved(leader=leader))
        except ChannelLost as error:
            log.info("%s", error)

    def _tell_late(self, channel: Channel, state: NodeState) -> None:
        reason = f"the list is made: {channel.peer} is {state.state} ({state.reason})"
        try:
            channel.send(Refused(reason=reason, retry=False))
        except ChannelLost as error:
            log.info("%s", error)

    def _send_list(self, channel: Channel, states: dict[str, NodeState]) -> None:
        try:
            for part in list_parts(self._node, states):
                channel.send(part)
        except ChannelLost as error:
            log.warning("%s", error)


def _only_rendezvous(_peer: str, purpose: Purpose) -> Refused | None:
    if purpose == "rendezvous":
        return None
    return Refused(reason="the rendezvous is still running", retry=True)


def list_parts(leader: str, states: dict[str, NodeState]) -> list[ListPart]:
    """The list in parts that each fit a frame."""
    parts: list[dict[str, NodeState]] = [{}]
    rails = 0
    for name, state in states.items():
        weight = 1 + len(state.rails)
        if parts[-1] and rails + weight > RAILS_A_PART:
            parts.append({})
            rails = 0
        parts[-1][name] = state
        rails += weight
    return [
        ListPart(leader=leader, nodes=nodes, last=index == len(parts) - 1)
        for index, nodes in enumerate(parts)
    ]
