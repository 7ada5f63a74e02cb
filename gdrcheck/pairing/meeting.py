"""One owned pair, from the first call to the last ``bye``: its channel, made ahead and again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from gdrcheck import steps
from gdrcheck.outcome import PeerError
from gdrcheck.pairing.channel import Channel, ChannelLost
from gdrcheck.pairing.messages import Bye, Serving
from gdrcheck.pairing.patience import in_slices
from gdrcheck.pairing.rail import RailProcess
from gdrcheck.pairing.session import PairSession
from gdrcheck.pairing.waits import MAX_RETURNS, WalkWaits
from gdrcheck.run import Deadlines

log = logging.getLogger("gdrcheck.pair")

Dial = Callable[[float, threading.Event], Channel]


class Meeting:
    """This node's pair in round ``number``. ``begin`` calls the responder; ``close`` it."""

    def __init__(
        self,
        number: int,
        node: str,
        peer: str,
        dial: Dial,
        rails: Mapping[int, RailProcess],
        deadlines: Deadlines,
        waits: WalkWaits,
    ) -> None:
        self.number = number
        self.peer = peer
        self._node = node
        self._dial = dial
        self._rails = rails
        self._deadlines = deadlines
        self._waits = waits
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._called: Channel | PeerError | None = None
        self._session: PairSession | None = None
        self._called_once = False
        self._returns = 0
        self._dead: PeerError | None = None
        self._ended = False
        # Rails that lost a session side by side get one new one together.
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Call the responder, in the background, so that both hear whether the other lives."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._call, name=f"call-{self.peer}", daemon=True
            )
            self._thread.start()

    def session(self) -> PairSession:
        """A session on which the responder serves, for any thread.

        PeerError when there is none to be had; then at once, each time that it is asked for.
        """
        with self._lock:
            if self._dead is not None:
                raise PeerError(str(self._dead), side=self._dead.side, step=self._dead.step)
            if self._session is not None and self._session.usable:
                return self._session
            try:
                self._session = self._new_session()
            except PeerError as error:
                self._dead = error
                raise
            return self._session

    def end(self) -> None:
        """Say ``bye``, also when nothing was asked for. May be repeated."""
        if self._ended:
            return
        self._ended = True
        self.begin()
        if self._session is not None:
            self._session.end()
        elif not self._called_once:
            try:
                with self._first_channel() as channel:
                    channel.send(Bye())
            except PeerError as error:
                log.info("leaving %s: %s", self.peer, error)

    def close(self) -> None:
        """End all that is still open. May be repeated."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._session is not None:
            self._session.end()
        if isinstance(self._called, Channel):
            self._called.close()

    def _call(self) -> None:
        try:
            self._called = self._dial(self._waits.meet_s, self._stop)
        except PeerError as error:
            self._called = error

    def _first_channel(self) -> Channel:
        """What the call in the background brought, once."""
        self.begin()
        self._called_once = True
        assert self._thread is not None
        thread = self._thread

        def called(seconds: float) -> Channel | None:
            thread.join(seconds)
            if isinstance(self._called, PeerError):
                raise self._called
            return self._called

        until = time.monotonic() + self._waits.meet_s + self._waits.slice_s
        channel = in_slices(until, self._waits.slice_s, f"call {self.peer}", called)
        self._called = None
        return channel

    def _new_session(self) -> PairSession:
        """Wait until the responder serves; one that is lost may come back a few times."""
        if self._session is not None:
            self._session.end()
            self._session = None
        while True:
            try:
                first = not self._called_once
                return self._served(self._first_channel() if first else self._redial(), first=first)
            except ChannelLost as error:
                log.warning("%s", error)
                if self._returns >= MAX_RETURNS:
                    raise

    def _redial(self) -> Channel:
        self._returns += 1
        with steps.step(f"call {self.peer} again, {self._waits.return_s:g} s at most"):
            return self._dial(self._waits.return_s, self._stop)

    def _served(self, channel: Channel, *, first: bool) -> PairSession:
        """The session, once the responder has reached this round. Closes the channel otherwise."""
        try:
            in_slices(
                self._waits.begun_by(self.number) if first else self._waits.again_by(self.number),
                self._waits.slice_s,
                f"wait for {self.peer} to reach round {self.number}",
                lambda seconds: channel.receive(seconds, Serving, silence_s=self._waits.silence_s),
            )
        except PeerError:
            channel.close()
            raise
        return PairSession(channel, self._node, self._rails, self._deadlines, self._waits)
