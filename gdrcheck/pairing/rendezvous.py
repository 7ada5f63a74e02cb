"""The rendezvous: all nodes learn, from one list, who takes part in the pair phase.

The first nodes of the run that are present are the candidates for the lead. Everyone reports to
the earliest candidate that it reaches and says ``alive`` until its node phase is over, then
``ready``. A candidate that reaches none before it within ``rendezvous_s`` of being ready leads.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from pydantic import BaseModel, ConfigDict

from gdrcheck.outcome import GdrcheckError, InputError, PeerError
from gdrcheck.pairing.channel import Channel, ChannelLost, PeerRefused, connect
from gdrcheck.pairing.desk import Desk, Timing
from gdrcheck.pairing.handshake import Identity
from gdrcheck.pairing.messages import (
    ListPart,
    ListTaken,
    Moved,
    NodeName,
    NodeState,
    RailInfo,
    Ready,
    Refused,
)
from gdrcheck.run import RunSpec

MAX_CANDIDATES = 4
PAUSE_S = 0.5

log = logging.getLogger("gdrcheck.rendezvous")


class RendezvousResult(BaseModel):
    """The list. ``nodes`` has every node of the run, in its order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    leader: NodeName
    nodes: dict[NodeName, NodeState]

    def is_ready(self, node: str) -> bool:
        """Whether ``node`` takes part."""
        return self.nodes[node].state == "ready"

    def write(self, path: Path) -> None:
        """Write the list to ``path``, whole or not at all, readable by all."""
        partial = path.with_name(f"{path.name}.partial")
        partial.write_text(self.model_dump_json(indent=1))
        partial.chmod(0o644)
        os.replace(partial, path)

    @classmethod
    def load(cls, path: Path) -> RendezvousResult:
        """The list at ``path``. pydantic.ValidationError if it is not one."""
        return cls.model_validate_json(path.read_bytes())


class Rendezvous:
    """This node's part in the rendezvous, in a thread of its own. Use with ``with``.

    ``present``: the nodes that were started, any order; those of the run that are not among them
    are absent from the outset. ``path``: where to write the result as JSON, if anywhere.
    """

    def __init__(
        self,
        run: RunSpec,
        node: str,
        secret: bytes,
        present: Sequence[str],
        *,
        path: Path | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._run = run
        self._node = node
        self._present = tuple(spec.name for spec in run.nodes if spec.name in set(present))
        if node not in self._present:
            raise InputError(f"node {node} is not among those present: {', '.join(present)}")
        self._candidates = self._present[:MAX_CANDIDATES]
        self._identity = Identity.of(run, node, secret)
        self._timing = timing or Timing.of(run.waits)
        self._path = path
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._is_ready = threading.Event()
        self._rails: tuple[RailInfo, ...] = ()
        self._ready_at = self._lost_at = 0.0
        self._channel: Channel | None = None
        self._notes: dict[str, str] = {}
        self._outcome: RendezvousResult | GdrcheckError | None = None
        self._thread = threading.Thread(target=self._main, name="rendezvous", daemon=True)

    def __enter__(self) -> Rendezvous:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._is_ready.set()
        with self._lock:
            if self._channel is not None:
                self._channel.cut()
        if self._thread.is_alive():
            self._thread.join()

    def start(self) -> None:
        """Report from now on that this node is alive."""
        self._thread.start()

    def ready(self, rails: Sequence[RailInfo]) -> RendezvousResult:
        """Report this node ready and wait for the list; the channel's port is free afterwards.

        PeerError when no list can be had: no candidate reached, or this node came too late.
        ProbeError when this node cannot listen on its address and port.
        """
        with self._lock:
            self._rails = tuple(rails)
            self._ready_at = time.monotonic()
            self._is_ready.set()
            if self._channel is not None:
                self._send_ready(self._channel)
        timing = self._timing
        limit_s = timing.phase_s + MAX_CANDIDATES * (timing.rendezvous_s + 2 * timing.silence_s)
        self._thread.join(limit_s)
        if self._outcome is None:
            raise PeerError(
                f"{self._node}: no list within {limit_s:g} s", side=self._node, step="rendezvous"
            )
        if isinstance(self._outcome, GdrcheckError):
            raise self._outcome
        if self._path is not None:
            self._outcome.write(self._path)
        return self._outcome

    def _main(self) -> None:
        try:
            self._outcome = self._result(*self._take_part())
        except GdrcheckError as error:
            log.warning("rendezvous: %s", error)
            self._outcome = error

    def _take_part(self) -> tuple[str, dict[str, NodeState]]:
        """The leader's name and what it decided."""
        if len(self._present) == 1:
            self._is_ready.wait()
            return self._node, {self._node: NodeState(state="ready", rails=self._rails)}
        if self._node not in self._candidates:
            return self._follow_someone(None)
        peers = [name for name in self._present if name != self._node]
        spec = self._run.node(self._node)
        with ExitStack() as stack:
            desk = stack.enter_context(Desk(self._identity, spec, peers, self._timing))
            if self._node != self._candidates[0]:
                try:
                    return self._follow_someone(desk)
                except PeerRefused:
                    raise
                except PeerError as error:
                    log.warning("%s leads: %s", self._node, error)
            return self._node, self._lead(desk)

    def _lead(self, desk: Desk) -> dict[str, NodeState]:
        began = time.monotonic()
        self._is_ready.wait()
        timing = self._timing
        never_seen_at = max(self._ready_at + timing.rendezvous_s, began + timing.silence_s)
        states = desk.decide(self._rails, never_seen_at, self._stop)
        if states is None:
            raise self._error("stopped")
        desk.publish(states)
        return states

    def _follow_someone(self, desk: Desk | None) -> tuple[str, dict[str, NodeState]]:
        """Report to the earliest candidate that can be reached until one gives the list."""
        while True:
            with self._seek() as channel:
                if desk is not None:
                    desk.follow(channel.peer)
                try:
                    states = self._follow(channel)
                except ChannelLost as error:
                    self._notes[channel.peer] = str(error)
                    self._lost_at = time.monotonic()
                    states = None
                finally:
                    with self._lock:
                        self._channel = None
            if states is not None:
                return channel.peer, states
            if desk is not None:
                desk.follow(None)
            self._stop.wait(PAUSE_S)

    def _seek(self) -> Channel:
        """A channel to a candidate before this node, tried until this node has waited enough."""
        ahead = self._candidates
        if self._node in ahead:
            ahead = ahead[: ahead.index(self._node)]
        while not self._stop.is_set():
            for name in ahead:
                spec = self._run.node(name)
                try:
                    return connect(
                        spec.address, spec.port, self._identity, name, "rendezvous",
                        self._timing.attempt_s, self._stop,
                    )  # fmt: skip
                except PeerRefused:
                    raise
                except PeerError as error:
                    self._notes[name] = str(error)
            waited_from = max(self._ready_at, self._lost_at)
            if self._is_ready.is_set() and (
                time.monotonic() >= waited_from + self._timing.rendezvous_s
            ):
                reasons = "; ".join(self._notes.values())
                raise self._error(
                    f"no candidate for the lead within {self._timing.rendezvous_s:g} s: {reasons}"
                )
            self._stop.wait(PAUSE_S)
        raise self._error("stopped")

    def _follow(self, channel: Channel) -> dict[str, NodeState] | None:
        """Report over ``channel`` until the list has come; None when its end does not lead."""
        channel.start_heartbeats(self._timing.beat_s)
        with self._lock:
            self._channel = channel
            if self._is_ready.is_set():
                self._send_ready(channel)
        states: dict[str, NodeState] = {}
        while True:
            body = channel.receive(
                2 * self._timing.phase_s + self._timing.rendezvous_s, ListPart, Moved, Refused,
                silence_s=self._timing.silence_s,
            )  # fmt: skip
            if isinstance(body, Moved):
                self._notes[channel.peer] = f"{channel.peer} follows {body.leader}"
                return None
            if isinstance(body, Refused):
                raise PeerRefused(
                    f"{channel.peer} refused: {body.reason}", side=channel.peer, step="rendezvous"
                )
            states.update(body.nodes)
            if body.last:
                channel.send(ListTaken())
                return states

    def _send_ready(self, channel: Channel) -> None:
        try:
            channel.send(Ready(rails=self._rails, clock=channel.clock))
        except ChannelLost as error:
            log.info("%s; the thread that receives will meet the same", error)

    def _result(self, leader: str, states: dict[str, NodeState]) -> RendezvousResult:
        """The list for the whole run. PeerError when the leader's does not fit it."""
        if set(states) != set(self._present):
            raise PeerError(
                f"{leader}: its list has other nodes than those present here",
                side=leader,
                step="rendezvous",
            )
        own = states[self._node]
        if own.state == "ready" and own.rails != self._rails:
            raise PeerError(
                f"{leader}: its list has other rails of {self._node} than this node reported",
                side=leader,
                step="rendezvous",
            )
        not_started = NodeState(state="absent", reason="not started: preflight did not pass")
        return RendezvousResult(
            leader=leader,
            nodes={spec.name: states.get(spec.name, not_started) for spec in self._run.nodes},
        )

    def _error(self, text: str) -> PeerError:
        return PeerError(f"{self._node}: {text}", side=self._node, step="rendezvous")
