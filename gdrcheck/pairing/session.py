"""The initiator's session with one responder: what it asks, of all rails at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TypeVar

from gdrcheck.outcome import PeerError
from gdrcheck.pairing.calls import Call, Calls
from gdrcheck.pairing.channel import Channel, ChannelLost, EndFailure, PeerTimeout
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.messages import Answer, Request
from gdrcheck.pairing.rail import RailError, RailProcess
from gdrcheck.pairing.session_messages import Close, Closed
from gdrcheck.pairing.waits import WalkWaits
from gdrcheck.run import Deadlines

A = TypeVar("A", bound=Answer)
T = TypeVar("T")
# What an answer may take beyond the work itself: two small frames and two busy processes.
SLACK_SHARE = 0.5

log = logging.getLogger("gdrcheck.pair")


class PairSession:
    """Owns a channel on which the responder is serving. ``end`` it, or use with.

    Calls for different rails may come from different threads at once; those of one rail from one.
    After a ChannelLost the session is of no more use; every other failure concerns its rail alone.
    """

    def __init__(
        self,
        channel: Channel,
        node: str,
        rails: Mapping[int, RailProcess],
        deadlines: Deadlines,
        waits: WalkWaits,
    ) -> None:
        self.node = node
        self.peer = channel.peer
        self.rails = rails
        self.deadlines = deadlines
        self._calls = Calls(channel, waits.silence_s)
        self._asked: set[int] = set()
        self._ended = False

    @property
    def usable(self) -> bool:
        """Whether anything more can be asked for."""
        return self._calls.usable and not self._ended

    def ask(
        self, request: Request, answers: tuple[type[A], ...], limit_s: float, deadline: Deadline
    ) -> A:
        """The answer to ``request``, for which the peer itself has ``limit_s``.

        RemoteFailure when it could not do it, PeerTimeout when it does not say so, ChannelLost.
        """
        return self._answer(self._begin(request, limit_s, deadline), answers)

    def both(
        self,
        request: Request,
        answer: type[A],
        local: Callable[[], T],
        limit_s: float,
        deadline: Deadline,
    ) -> tuple[T | RailError, A | EndFailure]:
        """What this end's ``local`` and the peer's part, done at the same time, came to.

        The peer's answer is taken in any case. One that did not come in time is its failure.
        ChannelLost when there is no peer any more.
        """
        call = self._begin(request, limit_s, deadline)
        near: T | RailError
        try:
            near = local()
        except RailError as failure:
            near = failure
        try:
            return near, self._answer(call, (answer,))
        except EndFailure as failure:
            return near, failure
        except PeerTimeout as late:
            return near, EndFailure(str(late), side=late.side, step=late.step)

    def together(
        self,
        request: Request,
        answer: type[A],
        local: Callable[[], T],
        limit_s: float,
        deadline: Deadline,
    ) -> tuple[T, A]:
        """As ``both``; EndFailure of the end that could not do its part, this one's first."""
        near, far = self.both(request, answer, local, limit_s, deadline)
        if isinstance(near, RailError):
            raise near
        if isinstance(far, EndFailure):
            raise far
        return near, far

    def cut(self) -> None:
        """End the connection, and what the endpoint children do, from any thread.

        For who wants to leave at once: all that waits goes on with an error. ``end`` is still
        needed.
        """
        self._calls.cut()
        for rail in self.rails.values():
            rail.interrupt()

    def end(self) -> None:
        """Give up the queue pairs, say ``bye``, close the channel. May be repeated."""
        if self.usable:
            self._ended = True
            try:
                self._leave()
            except PeerError as error:
                log.info("leaving %s: %s", self.peer, error)
        self._calls.close()

    def __enter__(self) -> PairSession:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self.cut()
        self.end()

    def _leave(self) -> None:
        deadline = Deadline.after(self.deadlines.check_s)
        for number in sorted(self._asked):
            rail = self.rails[number]
            ends = self.both(
                Close(rail=number),
                Closed,
                lambda rail=rail: rail.close_qp(deadline),  # type: ignore[misc]
                self.deadlines.connect_s,
                deadline,
            )
            for failure in ends:
                if isinstance(failure, EndFailure):
                    log.warning("%s", failure)
        self._calls.leave(deadline.within(self.deadlines.connect_s))

    def _begin(self, request: Request, limit_s: float, deadline: Deadline) -> Call:
        """Send. The peer keeps ``limit_s`` itself, so it gets a little more to say so."""
        self._asked.add(request.rail)
        patience_s = deadline.within(limit_s).remaining_s + SLACK_SHARE * self.deadlines.connect_s
        return self._calls.begin(request, Deadline.after(patience_s))

    def _answer(self, call: Call, answers: tuple[type[A], ...]) -> A:
        answer = self._calls.end(call)
        if isinstance(answer, answers):
            return answer
        self._calls.cut()
        awaited = " or ".join(kind.TYPE for kind in answers)
        raise ChannelLost(
            f"{self.peer}: {answer.TYPE} came in place of {awaited}",
            side=self.peer,
            step=f"await {awaited}",
        )
