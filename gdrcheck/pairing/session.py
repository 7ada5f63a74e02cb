"""The initiator's session with one responder: drives both ends of every exchange."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import TypeVar

from gdrcheck.outcome import PeerError
from gdrcheck.pairing.channel import Channel, EndFailure, RemoteFailure
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.messages import (
    Arm,
    Armed,
    Body,
    Bye,
    Close,
    Closed,
    Connect,
    Connected,
    Endpoint,
    EndpointMade,
    Go,
    Open,
    Opened,
    Result,
)
from gdrcheck.pairing.pairs import Direction, EndReport, ExchangeResult, RailPair
from gdrcheck.pairing.rail import RailError, RailProcess
from gdrcheck.pairing.serve import worker_arm
from gdrcheck.pairing.waits import WalkWaits
from gdrcheck.run import Deadlines
from gdrcheck.verbs import protocol

B = TypeVar("B", bound=Body)
# What an answer may take beyond the work itself: two small frames and two busy processes.
SLACK_SHARE = 0.5

log = logging.getLogger("gdrcheck.pair")


class PairSession:
    """Owns a channel on which the responder is serving. ``end`` it, or use with.

    After a PeerError other than EndFailure the channel is closed and the session of no more use.
    """

    def __init__(
        self,
        channel: Channel,
        rails: Mapping[int, RailProcess],
        deadlines: Deadlines,
        waits: WalkWaits,
    ) -> None:
        self._channel = channel
        self._rails = rails
        self._deadlines = deadlines
        self._waits = waits
        self._usable = True
        self._path_mtu: dict[int, int] = {}
        self._bindings: dict[int, str] = {}

    @property
    def usable(self) -> bool:
        """Whether another exchange can be asked for."""
        return self._usable

    def exchange(
        self,
        pair: RailPair,
        operation: protocol.Operation,
        direction: Direction,
        plan: protocol.ExchangePlan,
        run_tag: int,
        deadline: Deadline,
    ) -> ExchangeResult:
        """Run one exchange on a rail, on new queue pairs if the last ones are used up.

        EndFailure names the end that could not do its part; PeerError when the channel broke.
        """
        rail = pair.rail_id
        if rail not in self._path_mtu:
            self._connect(rail, deadline)
        path_mtu = self._path_mtu.pop(rail)
        arm = Arm(
            rail=rail,
            operation=operation,
            role="source" if direction == "out" else "sink",
            sizes_bytes=plan.sizes_bytes,
            iterations=plan.iterations,
            run_tag=run_tag,
            direction=0 if direction == "out" else 1,
            flip=plan.flip,
        )
        other = arm.model_copy(update={"role": "sink" if direction == "out" else "source"})
        self._call(other, Armed, self._deadlines.connect_s, deadline)
        self._rails[rail].arm(worker_arm(arm), deadline)
        near, far = self._go(pair, deadline)
        source, sink = (near, far) if direction == "out" else (far, near)
        result = ExchangeResult(operation, direction, plan, path_mtu, source, sink)
        if near.completed and far.completed:
            self._path_mtu[rail] = path_mtu
        return result

    def end(self) -> None:
        """Give up the queue pairs, say ``bye``, close the channel. May be repeated."""
        if self._usable:
            self._usable = False
            try:
                self._leave()
            except PeerError as error:
                log.info("leaving %s: %s", self._channel.peer, error)
        self._channel.close()

    def __enter__(self) -> PairSession:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()

    def _connect(self, rail: int, deadline: Deadline) -> None:
        """New queue pairs on both ends, connected to each other."""
        local = self._rails[rail]
        local.open(deadline)
        limit_s = self._deadlines.connect_s
        opened = self._call(Open(rail=rail), Opened, self._deadlines.check_s, deadline)
        self._bindings[rail] = opened.binding
        near = local.new_qp(deadline)
        far = self._call(Endpoint(rail=rail), EndpointMade, 2 * limit_s, deadline).info
        mtu = local.connect(far, deadline).path_mtu
        remote = Connect(rail=rail, remote=near)
        other_mtu = self._call(remote, Connected, limit_s, deadline).info.path_mtu
        if mtu != other_mtu:
            raise EndFailure(
                f"{self._channel.peer}: path MTU {other_mtu} there, {mtu} here",
                side=self._channel.peer,
                step="connect",
            )
        self._path_mtu[rail] = mtu

    def _go(self, pair: RailPair, deadline: Deadline) -> tuple[EndReport, EndReport]:
        """Both ends' reports, this end's first. The peer's answer is taken in any case."""
        local = self._rails[pair.rail_id]
        self._send(Go(rail=pair.rail_id))
        failed: RailError | None = None
        try:
            near = EndReport(pair.local.node, local.go(deadline), binding=local.binding)
        except RailError as failure:
            failed = failure
            near = EndReport(pair.local.node, None, failure.error, local.binding)
        binding = self._bindings[pair.rail_id]
        try:
            answer = self._receive(Result, self._deadlines.check_s, deadline)
            far = EndReport(pair.remote.node, answer.report, binding=binding)
        except RemoteFailure as failure:
            if failure.error is None:
                raise failed or failure from failure
            far = EndReport(pair.remote.node, None, failure.error, binding)
        if failed is not None and failed.error is None:
            raise failed
        return near, far

    def _leave(self) -> None:
        deadline = Deadline.after(self._deadlines.check_s)
        for rail in self._bindings:
            try:
                self._rails[rail].close_qp(deadline)
                self._call(Close(rail=rail), Closed, self._deadlines.connect_s, deadline)
            except EndFailure as error:
                log.warning("%s", error)
        self._call(Bye(), Bye, self._deadlines.connect_s, deadline)

    def _call(self, request: Body, answer: type[B], limit_s: float, deadline: Deadline) -> B:
        self._send(request)
        return self._receive(answer, limit_s, deadline)

    def _send(self, request: Body) -> None:
        try:
            self._channel.send(request)
        except PeerError:
            self._abandon()
            raise

    def _receive(self, answer: type[B], limit_s: float, deadline: Deadline) -> B:
        """The answer. The peer keeps ``limit_s`` itself, so it gets a little more to say so."""
        patience = deadline.within(limit_s).remaining_s + SLACK_SHARE * self._deadlines.connect_s
        try:
            return self._channel.receive(patience, answer, silence_s=self._waits.silence_s)
        except RemoteFailure:
            raise
        except PeerError:
            # An answer that may come later would be taken for that to the next request.
            self._abandon()
            raise

    def _abandon(self) -> None:
        self._usable = False
        self._channel.close()
