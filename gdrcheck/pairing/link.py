"""One rail of a session: its two endpoints, made, connected, and made again after a failure."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from gdrcheck.pairing.channel import EndFailure
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.pairs import RailPair
from gdrcheck.pairing.rail import RailError
from gdrcheck.pairing.session import PairSession
from gdrcheck.pairing.session_messages import (
    Connect,
    Connected,
    Endpoint,
    EndpointMade,
    GpuOpened,
    Open,
    Opened,
    OpenGpu,
    PortState,
    PortStateIs,
)
from gdrcheck.transfer import Mode, Role, memory_of
from gdrcheck.verbs import protocol

log = logging.getLogger("gdrcheck.pair")


@dataclass(frozen=True, slots=True)
class Link:
    """Connected queue pairs: the path MTU, and what this end (near) and the other told."""

    path_mtu: int
    near: protocol.EndpointInfo
    far: protocol.EndpointInfo


class RailLink:
    """The endpoints of ``pair`` in ``session``.

    The GPUs of a rail that has usable ones are opened before the queue pairs are made. An end whose
    GPU does not open is remembered, so that its host memory can be measured; see ``need_gpus``.
    """

    def __init__(self, session: PairSession, pair: RailPair) -> None:
        self._session = session
        self._pair = pair
        self._rail = session.rails[pair.rail_id]
        self._link: Link | None = None
        self._gpus: dict[str, protocol.GpuOpened | EndFailure] = {}
        # Also of queue pairs that are used up: what a failure is judged by.
        self.endpoints: dict[str, protocol.EndpointInfo] = {}
        self.bindings: dict[str, str] = {}
        self.opened: protocol.Opened | None = None

    def take(self, deadline: Deadline) -> Link:
        """The connected queue pairs, made if need be. Whose use succeeds, gives them ``back``.

        EndFailure of the end that could not do its part, ChannelLost.
        """
        link = self._link or self._connect(deadline)
        self._link = None
        return link

    def back(self, link: Link) -> None:
        """The queue pairs are as good as new."""
        self._link = link

    def retry_gpus(self) -> None:
        """Try GPUs that did not open once more, at the next ``take``."""
        failed = [node for node, state in self._gpus.items() if isinstance(state, EndFailure)]
        for node in failed:
            del self._gpus[node]
            self._link = None

    def need_gpus(self, mode: Mode, *, out: bool) -> None:
        """EndFailure of an end whose GPU memory takes part in ``mode``, and does not open."""
        ends = (self._pair.local.node, self._pair.remote.node)
        source, sink = ends if out else ends[::-1]
        roles: tuple[tuple[str, Role], ...] = ((source, "source"), (sink, "sink"))
        for node, role in roles:
            state = self._gpus.get(node)
            if memory_of(mode, role) == "gpu" and isinstance(state, EndFailure):
                raise EndFailure(str(state), side=state.side, step=state.step, error=state.error)

    def far_refused(self) -> str:
        """Why the GPU memory of an end does not reach beyond 2 GiB, "" when both do."""
        return "; ".join(
            f"{node}: {state.far_refused}"
            for node, state in self._gpus.items()
            if isinstance(state, protocol.GpuOpened) and state.far_refused
        )

    def port_states(self, deadline: Deadline) -> dict[str, str]:
        """The state of each end's port by node, without an end that could not say. ChannelLost."""
        near, far = self._session.both(
            PortState(rail=self._pair.rail_id),
            PortStateIs,
            lambda: self._rail.port_state(deadline),
            self._session.deadlines.check_s,
            deadline,
        )
        states = {}
        if not isinstance(near, RailError):
            states[self._pair.local.node] = near.state
        if not isinstance(far, EndFailure):
            states[self._pair.remote.node] = far.info.state
        return states

    def _connect(self, deadline: Deadline) -> Link:
        """New queue pairs on both ends, connected to each other."""
        rail, session = self._pair.rail_id, self._session
        limit_s = session.deadlines.connect_s
        self._open(deadline)
        near, made = session.together(
            Endpoint(rail=rail),
            EndpointMade,
            lambda: self._rail.new_qp(deadline),
            # The earlier ones are closed first.
            2 * limit_s,
            deadline,
        )
        far = made.info
        self.endpoints = {self._pair.local.node: near, self._pair.remote.node: far}
        here, there = session.together(
            Connect(rail=rail, remote=near),
            Connected,
            lambda: self._rail.connect(far, deadline),
            limit_s,
            deadline,
        )
        if here.path_mtu != there.info.path_mtu:
            raise EndFailure(
                f"{session.peer}: path MTU {there.info.path_mtu} there, {here.path_mtu} here",
                side=session.peer,
                step="connect",
            )
        return Link(here.path_mtu, near, far)

    def _open(self, deadline: Deadline) -> None:
        rail, session = self._pair.rail_id, self._session
        limit_s = session.deadlines.check_s
        near, far = session.together(
            Open(rail=rail), Opened, lambda: self._rail.open(deadline), limit_s, deadline
        )
        self.opened = near
        self.bindings = {
            self._pair.local.node: self._rail.binding,
            self._pair.remote.node: far.binding,
        }
        if self._pair.has_gpus and self._pair.gpu_blocked_by is None:
            self._open_gpus(deadline)

    def _open_gpus(self, deadline: Deadline) -> None:
        """Open them where that has not failed; a child that was replaced has lost its own."""
        local, remote = self._pair.local.node, self._pair.remote.node
        wanted = [
            node for node in (local, remote) if not isinstance(self._gpus.get(node), EndFailure)
        ]
        limit_s = self._session.deadlines.check_s
        request = OpenGpu(rail=self._pair.rail_id)
        if wanted == [local, remote]:
            near, far = self._session.both(
                request, GpuOpened, lambda: self._rail.open_gpu(deadline), limit_s, deadline
            )
            self._gpus[local] = near
            self._gpus[remote] = far if isinstance(far, EndFailure) else far.info
        elif wanted == [local]:
            try:
                self._gpus[local] = self._rail.open_gpu(deadline)
            except RailError as failure:
                self._gpus[local] = failure
        elif wanted == [remote]:
            try:
                answer = self._session.ask(request, (GpuOpened,), limit_s, deadline)
                self._gpus[remote] = answer.info
            except EndFailure as failure:
                self._gpus[remote] = failure
        for node in wanted:
            if isinstance(state := self._gpus[node], EndFailure):
                log.warning("%s", state)
