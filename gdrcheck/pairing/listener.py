"""The accepting end: proves who connects, in the background, and hands out proven channels.

Whoever has not proven the secret gets ``HANDSHAKE_S`` in total, one frame, and one of
``MAX_UNPROVEN`` places; when those are taken, the oldest gives way, so silence cannot lock out
those who belong here. What is dropped is counted and logged to ``gdrcheck.channel``, and
``last_dropped`` says what was last and why.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from types import TracebackType

from gdrcheck.outcome import GdrcheckError, PeerError, ProbeError
from gdrcheck.pairing.channel import Channel, PeerRefused, tune
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.frames import FrameSocket
from gdrcheck.pairing.handshake import Identity, Proven, accept_handshake
from gdrcheck.pairing.messages import Hello, Purpose, Refused

MAX_UNPROVEN = 8
# A peer in the middle of its handshake is not pushed out by the next one in line.
EVICTION_AGE_S = 1.0
BACKLOG = 512

log = logging.getLogger("gdrcheck.channel")


class _Unproven:
    """One connection that has proven nothing yet."""

    def __init__(self, sock: socket.socket, source: str) -> None:
        self.wire = FrameSocket(sock)
        self.source = source
        self.since = time.monotonic()
        self.evicted = False


class Listener:
    """Listens on one address while the ``with`` block lasts.

    ``refuse`` gives the refusal that a proven peer gets for a purpose, None to let it in. With
    ``beat_s`` the peers hear ``alive`` from here so often, from their proof on.
    """

    def __init__(
        self,
        identity: Identity,
        address: str,
        port: int,
        allowed_peers: Collection[str],
        refuse: Callable[[str, Purpose], Refused | None] | None = None,
        beat_s: float | None = None,
    ) -> None:
        self.dropped: Counter[str] = Counter()
        self.last_dropped = ""
        self._identity = identity
        self._address, self._port = address, port
        self._allowed = frozenset(allowed_peers) - {identity.node}
        self._refuse = refuse
        self._beat_s = beat_s
        self._changed = threading.Condition()
        self._unproven: list[_Unproven] = []
        self._proven: dict[tuple[str, Purpose], Channel] = {}
        self._refused: dict[str, str] = {}
        self._closing = False
        self._socket: socket.socket | None = None
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Listener:
        self._socket = self._bind()
        thread = threading.Thread(target=self._serve, name="channel-accept", daemon=True)
        self._threads.append(thread)
        thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._port

    def accept(self, peer: str | None, purpose: Purpose, deadline_s: float) -> Channel | None:
        """A proven channel from ``peer`` (None: from anyone), None when the time is up.

        PeerRefused when that peer has proven the secret but does not fit this end (another image,
        say). The caller closes the channel.
        """
        deadline = Deadline.after(deadline_s)
        with self._changed:
            while True:
                for key in self._proven:
                    if key[1] == purpose and peer in (None, key[0]):
                        return self._proven.pop(key)
                if peer in self._refused:
                    raise PeerRefused(
                        f"{peer} was refused: {self._refused[peer]}", side=peer, step="handshake"
                    )
                if self._closing or deadline.expired:
                    return None
                self._changed.wait(deadline.remaining_s)

    def close(self) -> None:
        """Stop listening; close what was not handed out. May be repeated."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            for waiting in self._unproven:
                waiting.wire.cut()
        if self._socket is not None:
            # Wakes the thread in accept(); ENOTCONN is the kernel's word for "was listening".
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                log.debug("listening socket was already shut down")
        for thread in self._threads:
            thread.join()
        if self._socket is not None:
            self._socket.close()
        for channel in self._proven.values():
            channel.close()
        self._proven.clear()

    def _bind(self) -> socket.socket:
        place = f"{self._address} port {self._port}"
        try:
            found = socket.getaddrinfo(self._address, self._port, type=socket.SOCK_STREAM)
            family, kind, number, _, target = found[0]
            sock = socket.socket(family, kind, number)
        except OSError as error:
            raise ProbeError(
                f"cannot listen on {place}: {error.strerror}; set gdrcheck_address to an address "
                "of this node",
                step="listen",
                error_number=error.errno,
            ) from error
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(target)
            sock.listen(BACKLOG)
        except OSError as error:
            sock.close()
            raise ProbeError(
                f"cannot listen on {place}: {error.strerror}; another run or program may hold the "
                "port (set gdrcheck_port), or the address is not this node's (set "
                "gdrcheck_address)",
                step="listen",
                error_number=error.errno,
            ) from error
        self._port = sock.getsockname()[1]
        return sock

    def _serve(self) -> None:
        assert self._socket is not None
        while True:
            try:
                sock, source = self._socket.accept()
            except OSError as error:
                if self._closing:
                    return
                # A connection that ended while it was queued, or no descriptors for a moment.
                log.warning("accept: %s", error.strerror)
                with self._changed:
                    self._changed.wait(0.1)
                continue
            if not self._admit(sock, f"{source[0]} port {source[1]}"):
                sock.close()
                return

    def _admit(self, sock: socket.socket, source: str) -> bool:
        """Give the connection a place, if need be the oldest one's. False when closing."""
        with self._changed:
            while len(self._unproven) >= MAX_UNPROVEN and not self._closing:
                oldest = self._unproven[0]
                age_s = time.monotonic() - oldest.since
                if age_s >= EVICTION_AGE_S and not oldest.evicted:
                    oldest.evicted = True
                    oldest.wire.cut()
                self._changed.wait(max(0.05, EVICTION_AGE_S - age_s))
            if self._closing:
                return False
            tune(sock)
            waiting = _Unproven(sock, source)
            self._unproven.append(waiting)
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            thread = threading.Thread(
                target=self._prove, args=(waiting,), name="channel-handshake", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        return True

    def _prove(self, waiting: _Unproven) -> None:
        """One handshake: ends with a channel in store, or with the connection closed."""
        channel = None
        try:
            outcome = accept_handshake(waiting.wire, self._identity, self._allowed, self._refusal)
            if isinstance(outcome, Proven):
                channel = Channel(waiting.wire, outcome, connector=False)
            else:
                self._drop("refused", waiting, outcome.reason)
        except PeerError as error:
            self._drop("silence", waiting, str(error))
        except GdrcheckError as error:
            kind = "evicted" if waiting.evicted else type(error).__name__
            self._drop(kind, waiting, str(error))
        with self._changed:
            self._unproven.remove(waiting)
            if channel is None or self._closing:
                waiting.wire.close()
            else:
                older = self._proven.pop((channel.peer, channel.purpose), None)
                if older is not None:
                    older.close()
                self._proven[channel.peer, channel.purpose] = channel
                self._refused.pop(channel.peer, None)
                if self._beat_s is not None:
                    channel.start_heartbeats(self._beat_s)
            self._changed.notify_all()

    def _drop(self, kind: str, waiting: _Unproven, reason: str) -> None:
        with self._changed:
            self.dropped[kind] += 1
            self.last_dropped = f"from {waiting.source}: {reason}"
        log.warning("dropped a connection from %s (%s): %s", waiting.source, kind, reason)

    def _refusal(self, hello: Hello) -> Refused | None:
        difference = self._identity.difference(hello)
        if difference:
            with self._changed:
                self._refused[hello.node] = difference
                self._changed.notify_all()
            return Refused(reason=difference[:500], retry=False)
        return self._refuse(hello.node, hello.purpose) if self._refuse is not None else None
