"""The initiator's requests that are under way on one channel, of all its rails at once."""

from __future__ import annotations

import logging
import queue
import threading
from dataclasses import dataclass, field

from gdrcheck.outcome import PeerError
from gdrcheck.pairing.channel import Channel, ChannelLost, PeerTimeout, RemoteFailure
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.messages import Answer, Body, Bye, Failure, Request
from gdrcheck.pairing.session_messages import ANSWERS
from gdrcheck.pairing.tools import ANSWERS as TOOL_ANSWERS

KINDS: tuple[type[Body], ...] = (*ANSWERS, *TOOL_ANSWERS, Failure, Bye)
# A receive that only waits is repeated: what ends it is silence, a loss, or ``close``.
WAIT_S = 3600.0

log = logging.getLogger("gdrcheck.pair")


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was sent, or the ``bye``. ``answered`` gets the answer, or why none comes."""

    request: Body
    deadline: Deadline
    answered: queue.SimpleQueue[Body | PeerError] = field(default_factory=queue.SimpleQueue)


class Calls:
    """Owns ``channel``, and the thread that alone receives from it. ``close`` it.

    ``begin`` and ``end`` may be called by any thread. An answer that comes after its time was up
    is dropped; one that was never asked for ends the connection.
    """

    def __init__(self, channel: Channel, silence_s: float) -> None:
        self._channel = channel
        self._silence_s = silence_s
        self._lock = threading.Lock()
        # The socket is not to be closed under a thread that sends.
        self._sending = threading.Lock()
        self._open: dict[int, Call] = {}
        self._number = 0
        self._lost: PeerError | None = None
        self._thread = threading.Thread(
            target=self._receive, name=f"answers-{channel.peer}", daemon=True
        )
        self._thread.start()

    @property
    def usable(self) -> bool:
        """Whether another request can be made."""
        return self._lost is None

    def begin(self, request: Request, deadline: Deadline) -> Call:
        """Send ``request`` under a number of its own. PeerError when the channel is lost."""
        with self._lock:
            self._number += 1
            number = self._number
        call = Call(request.model_copy(update={"number": number}), deadline)
        self._send(number, call)
        return call

    def leave(self, deadline: Deadline) -> None:
        """Say ``bye`` and wait for the same. PeerError when that does not come."""
        call = Call(Bye(), deadline)
        self._send(0, call)
        self.end(call)

    def end(self, call: Call) -> Body:
        """The answer to ``call``.

        RemoteFailure when the peer could not do it, PeerTimeout when nothing came by the call's
        deadline, ChannelLost when nothing can come any more.
        """
        try:
            answer = call.answered.get(timeout=call.deadline.remaining_s)
        except queue.Empty:
            self._forget(call)
            raise PeerTimeout(
                f"{self._channel.peer}: no answer to {call.request.TYPE} within "
                f"{call.deadline.seconds:g} s",
                side=self._channel.peer,
                step=call.request.TYPE,
            ) from None
        if isinstance(answer, PeerError):
            raise self._lost_during(call.request, answer)
        if isinstance(answer, Failure):
            raise RemoteFailure(
                f"{self._channel.peer}: {answer.step}: {answer.text}",
                side=self._channel.peer,
                step=answer.step,
                error=answer.error,
            )
        return answer

    def cut(self) -> None:
        """End the connection from any thread; who waits for an answer gets ChannelLost."""
        self._channel.cut()

    def close(self) -> None:
        """End the connection and the thread. May be repeated."""
        self._channel.cut()
        self._thread.join()
        with self._sending:
            self._channel.close()

    def _send(self, number: int, call: Call) -> None:
        with self._sending:
            with self._lock:
                if self._lost is not None:
                    raise self._lost_during(call.request, self._lost)
                self._open[number] = call
            try:
                self._channel.send(call.request)
            except PeerError as error:
                self._lose(error)
                raise

    def _forget(self, call: Call) -> None:
        with self._lock:
            self._open = {
                number: other for number, other in self._open.items() if other is not call
            }

    def _receive(self) -> None:
        try:
            while True:
                try:
                    body = self._channel.receive(
                        WAIT_S, *KINDS, silence_s=self._silence_s, awaited="an answer"
                    )
                except PeerTimeout:
                    continue
                self._take(body)
        except PeerError as error:
            self._lose(error)

    def _take(self, body: Body) -> None:
        """Hand an answer to who waits for it. ChannelLost when it is nobody's."""
        number = body.number if isinstance(body, Answer) else 0
        with self._lock:
            call = self._open.get(number)
            fits = call is not None and _fits(call.request, body)
            if fits:
                del self._open[number]
            asked = 0 < number <= self._number
        if call is None and asked:
            log.info("%s: a late answer: %s", self._channel.peer, body.TYPE)
            return
        if call is None or not fits:
            self._channel.cut()
            raise ChannelLost(
                f"{self._channel.peer}: {body.TYPE} came that nobody asked for",
                side=self._channel.peer,
                step="await an answer",
            )
        call.answered.put(body)

    def _lost_during(self, request: Body, reason: PeerError) -> ChannelLost:
        """For each who waits an exception of its own, which names what it asked for."""
        return ChannelLost(
            f"{request.TYPE}: the channel is lost: {reason}", side=reason.side, step=request.TYPE
        )

    def _lose(self, error: PeerError) -> None:
        with self._lock:
            self._lost = self._lost or error
            waiting, self._open = list(self._open.values()), {}
        for call in waiting:
            call.answered.put(self._lost)


def _fits(request: Body, answer: Body) -> bool:
    if isinstance(request, Request) and isinstance(answer, Answer):
        return request.rail == answer.rail
    return isinstance(request, Bye) and isinstance(answer, Bye)
