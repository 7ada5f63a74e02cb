"""Serving everybody who comes for one purpose, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from gdrcheck.pairing.channel import Channel
from gdrcheck.pairing.listener import Listener
from gdrcheck.pairing.messages import Purpose

TICK_S = 0.5


class Reception:
    """Accepts channels while the ``with`` block lasts, and closes ``listener`` at its end.

    ``attend`` serves one, and raises nothing; the channel is closed when it returns. Those that are
    served when the block ends are cut, so ``attend`` must end with its channel.
    """

    def __init__(
        self, listener: Listener, purpose: Purpose, attend: Callable[[Channel], None]
    ) -> None:
        self._listener = listener
        self._purpose = purpose
        self._attend = attend
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._channels: set[Channel] = set()
        self._accepting = threading.Thread(target=self._accept, name=purpose, daemon=True)
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Reception:
        self._listener.__enter__()
        self._accepting.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._closing.set()
            channels = list(self._channels)
        self._listener.close()
        for channel in channels:
            channel.cut()
        self._accepting.join()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while not self._closing.is_set():
            channel = self._listener.accept(None, self._purpose, TICK_S)
            if channel is None:
                continue
            with self._lock:
                if self._closing.is_set():
                    channel.close()
                    return
                self._channels.add(channel)
                self._threads = [thread for thread in self._threads if thread.is_alive()]
                thread = threading.Thread(
                    target=self._serve,
                    args=(channel,),
                    name=f"{self._purpose}-{channel.peer}",
                    daemon=True,
                )
                self._threads.append(thread)
                thread.start()

    def _serve(self, channel: Channel) -> None:
        try:
            with channel:
                self._attend(channel)
        finally:
            with self._lock:
                self._channels.discard(channel)
