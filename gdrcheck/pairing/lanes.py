"""A thread for each rail of a session: what one rail has to do never waits for another one."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from types import TracebackType

from gdrcheck.outcome import PeerError
from gdrcheck.pairing.messages import Request

# An initiator has one request of a rail under way, and what it no longer waits for.
MAX_WAITING = 8

log = logging.getLogger("gdrcheck.pair")


class Lanes:
    """Calls ``work`` with the requests of each rail, in their order, in a thread of that rail.

    A PeerError of ``work`` is logged and ends nothing: whoever receives meets the same. Use with
    ``with``: at the end nothing new is begun; what is under way may take ``grace_s``, then
    ``interrupt`` is called with the rail, and it is waited for.
    """

    def __init__(
        self, work: Callable[[Request], None], interrupt: Callable[[int], None], grace_s: float
    ) -> None:
        self._work = work
        self._interrupt = interrupt
        self._grace_s = grace_s
        self._over = threading.Event()
        self._lanes: dict[int, tuple[queue.Queue[Request | None], threading.Thread]] = {}

    def put(self, rail: int, request: Request) -> bool:
        """Give ``request`` to its rail. False when too many wait there already."""
        if rail not in self._lanes:
            waiting: queue.Queue[Request | None] = queue.Queue(MAX_WAITING)
            thread = threading.Thread(
                target=self._run, args=(waiting,), name=f"rail-{rail}", daemon=True
            )
            thread.start()
            self._lanes[rail] = (waiting, thread)
        try:
            self._lanes[rail][0].put_nowait(request)
        except queue.Full:
            return False
        return True

    def __enter__(self) -> Lanes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        for waiting, _ in self._lanes.values():
            _wake(waiting)
        # An interpreter that is being left by its user does not wait for anybody.
        patient = kind is None or issubclass(kind, Exception)
        for rail, (_, thread) in self._lanes.items():
            if patient:
                thread.join(self._grace_s)
            if thread.is_alive():
                log.warning("rail %d is still busy for a session that is over", rail)
                self._interrupt(rail)
                thread.join()

    def _run(self, waiting: queue.Queue[Request | None]) -> None:
        while (request := waiting.get()) is not None and not self._over.is_set():
            try:
                self._work(request)
            except PeerError as error:
                log.info("%s", error)


def _wake(waiting: queue.Queue[Request | None]) -> None:
    """A full queue wakes its thread by itself."""
    try:
        waiting.put_nowait(None)
    except queue.Full:
        return
