"""The authenticated connection between two nodes, after the handshake. See docs/channel.md."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TypeVar, overload

from gdrcheck.outcome import GdrcheckError, PeerError
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.frames import ConnectionLost, FrameError, FrameSocket, pack, unpack
from gdrcheck.pairing.handshake import HANDSHAKE_S, Identity, Proven, connect_handshake
from gdrcheck.pairing.messages import Alive, Body, Failure, Purpose, Refused
from gdrcheck.verbs.protocol import ErrorInfo

SEND_S = 10.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.0
ATTEMPT_S = 5.0
# Unacknowledged data or missed probes for about this long end a connection to a dead machine.
KEEPALIVE_S = 15

B = TypeVar("B", bound=Body)
C = TypeVar("C", bound=Body)
D = TypeVar("D", bound=Body)


class ChannelLost(PeerError):
    """The connection to the peer ended, broke, or fell silent; a new one may work."""


class PeerRefused(PeerError):
    """The peer, or its way of being set up, rules this connection out; trying again is useless."""


class PeerTimeout(PeerError):
    """Nothing was wrong with the connection, but what was awaited did not come in time."""


class EndFailure(PeerError):
    """One end could not do its part. ``error`` is its endpoint child's report, if it made one."""

    def __init__(
        self, message: str, *, side: str, step: str, error: ErrorInfo | None = None
    ) -> None:
        self.error = error
        super().__init__(message, side=side, step=step)


class RemoteFailure(EndFailure):
    """The peer answered that it could not do its part."""


class Channel:
    """A proven connection to ``peer``. One thread receives; any may send. Close it, or use with.

    ``heard_at`` is when the last frame came, on the monotonic clock. ``clock`` is the peer's clock
    against ours, None on the accepting end.
    """

    def __init__(self, wire: FrameSocket, proven: Proven, *, connector: bool) -> None:
        self.peer = proven.peer
        self.purpose = proven.purpose
        self.clock = proven.clock
        self._wire = wire
        keys = proven.keys
        self._send_key = keys.connector if connector else keys.acceptor
        self._receive_key = keys.acceptor if connector else keys.connector
        self._sent = self._received = 0
        self.heard_at = time.monotonic()
        self._sending = threading.Lock()
        self._stopping = threading.Event()
        self._beat: threading.Thread | None = None

    def send(self, body: Body, deadline_s: float = SEND_S) -> None:
        """Send ``body``. ChannelLost when the connection does not take it within ``deadline_s``."""
        with self._sending:
            self._sent += 1
            try:
                frame = pack(self._send_key, self._sent, body)
                self._wire.send(frame, Deadline.after(deadline_s))
            except (ConnectionLost, FrameError) as error:
                raise self._lost(f"send {body.TYPE}", str(error)) from error

    @overload
    def receive(
        self, deadline_s: float, one: type[B], /, *, silence_s: float | None = ...
    ) -> B: ...
    @overload
    def receive(
        self, deadline_s: float, one: type[B], two: type[C], /, *, silence_s: float | None = ...
    ) -> B | C: ...
    @overload
    def receive(
        self,
        deadline_s: float,
        one: type[B],
        two: type[C],
        three: type[D],
        /,
        *,
        silence_s: float | None = ...,
    ) -> B | C | D: ...
    @overload
    def receive(
        self,
        deadline_s: float,
        /,
        *kinds: type[Body],
        silence_s: float | None = ...,
        awaited: str = ...,
    ) -> Body: ...
    def receive(
        self,
        deadline_s: float,
        /,
        *kinds: type[Body],
        silence_s: float | None = None,
        awaited: str = "",
    ) -> Body:
        """The next message, which must be one of ``kinds``; ``alive`` is skipped.

        ``awaited`` are the kinds in words. ``deadline_s`` bounds the whole wait. With ``silence_s``
        a peer of which nothing at all, not even ``alive``, comes for that long is lost. PeerTimeout
        when only the time is up, ChannelLost when the connection is of no more use, RemoteFailure
        when the peer reports one.
        """
        awaited = awaited or " or ".join(kind.TYPE for kind in kinds)
        step = f"await {awaited}"
        deadline = Deadline.after(deadline_s)
        while True:
            limit = deadline if silence_s is None else deadline.within(silence_s)
            body = self._next(limit, step)
            if body is None and limit is not deadline:
                raise self._lost(step, f"silent for {limit.seconds:g} s")
            if body is None:
                raise PeerTimeout(
                    f"{self.peer}: no {awaited} within {deadline_s:g} s", side=self.peer, step=step
                )
            if isinstance(body, kinds):
                return body
            if isinstance(body, Failure):
                raise RemoteFailure(
                    f"{self.peer}: {body.step}: {body.text}",
                    side=self.peer,
                    step=body.step,
                    error=body.error,
                )
            if not isinstance(body, Alive):
                self._wire.cut()
                raise self._lost(step, f"{body.TYPE} came in place of {awaited}")

    def start_heartbeats(self, interval_s: float) -> None:
        """Tell the peer every ``interval_s`` that this process lives, until ``close``."""
        if self._beat is None:
            self._beat = threading.Thread(
                target=self._beats, args=(interval_s,), name=f"alive-{self.peer}", daemon=True
            )
            self._beat.start()

    def cut(self) -> None:
        """End the connection, waking a thread that waits on it; ``close`` is still needed."""
        self._stopping.set()
        self._wire.cut()

    def close(self) -> None:
        """End the connection and its heartbeats. May be repeated."""
        self.cut()
        if self._beat is not None and self._beat is not threading.current_thread():
            self._beat.join()
        self._wire.close()

    def __enter__(self) -> Channel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _next(self, deadline: Deadline, step: str) -> Body | None:
        try:
            frame = self._wire.receive(deadline)
            if frame is None:
                return None
            self._received += 1
            self.heard_at = time.monotonic()
            return unpack(self._receive_key, self._received, frame)
        except (ConnectionLost, FrameError) as error:
            self._wire.cut()
            raise self._lost(step, str(error)) from error

    def _lost(self, step: str, reason: str) -> ChannelLost:
        return ChannelLost(f"{self.peer}: {step}: {reason}", side=self.peer, step=step)

    def _beats(self, interval_s: float) -> None:
        while not self._stopping.wait(interval_s):
            try:
                self.send(Alive())
            except ChannelLost:
                return  # The receiving thread meets the same and reports it.


def connect(
    address: str,
    port: int,
    identity: Identity,
    peer: str,
    purpose: Purpose,
    deadline_s: float,
    stop: threading.Event | None = None,
) -> Channel:
    """A channel to ``peer``, tried again until ``deadline_s`` is over or ``stop`` is set.

    PeerRefused when the proven peer says that trying again is useless, else PeerError with the
    last reason, whose cause is what the last attempt met. The caller closes the channel.
    """
    deadline = Deadline.after(deadline_s)
    stop = stop or threading.Event()
    pause_s = FIRST_PAUSE_S
    reason = "no attempt was made"
    met: Exception | None = None
    while not deadline.expired and not stop.is_set():
        try:
            return _attempt(address, port, identity, peer, purpose, deadline.within(ATTEMPT_S))
        except PeerRefused:
            raise
        except OSError as error:
            reason, met = error.strerror or str(error), error
        except GdrcheckError as error:
            reason, met = str(error), error
        stop.wait(min(pause_s, deadline.remaining_s))
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    raise PeerError(
        f"{peer}: no channel to {address} port {port} within {deadline_s:g} s; last: {reason}",
        side=peer,
        step="connect",
    ) from met


def _attempt(
    address: str, port: int, identity: Identity, peer: str, purpose: Purpose, deadline: Deadline
) -> Channel:
    sock = socket.create_connection((address, port), timeout=max(0.01, deadline.remaining_s))
    with _closed_on_failure(sock):
        tune(sock)
        wire = FrameSocket(sock)
        proven = connect_handshake(
            wire, identity, peer, purpose, Deadline.after(HANDSHAKE_S).within(deadline.remaining_s)
        )
    if isinstance(proven, Refused):
        wire.close()
        error = PeerError if proven.retry else PeerRefused
        raise error(f"{peer} refused: {proven.reason}", side=peer, step="handshake")
    return Channel(wire, proven, connector=True)


@contextmanager
def _closed_on_failure(sock: socket.socket) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        stack.callback(sock.close)
        yield
        stack.pop_all()


def tune(sock: socket.socket) -> None:
    """No delay for small frames; a machine that died is noticed within ``KEEPALIVE_S`` or so."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S // 3)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_S // 3)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, KEEPALIVE_S * 1000)
