"""A call in a thread of its own, so that the caller keeps its deadlines."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from gdrcheck.node.clock import Elapsed, Stop
from gdrcheck.outcome import GdrcheckError

LOG = logging.getLogger(__name__)
T = TypeVar("T")
POLL_S = 0.1


class NotDone(GdrcheckError):
    """The call did not end in time, or the run was stopped meanwhile."""


class CallFailed(GdrcheckError):
    """The call raised something that nobody raises on purpose; that is the cause."""


class Background(Generic[T]):
    """Runs ``call`` at once. The thread is a daemon: one that hangs does not keep us alive."""

    def __init__(self, name: str, call: Callable[[], T]) -> None:
        self._name = name
        self._call = call
        self._result: list[T] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result.append(self._call())
        # The outermost hook of this thread: ``result`` raises it again where it is awaited.
        except Exception as error:
            LOG.exception("%s failed", self._name)
            self._error = error

    def result(self, seconds: float, stop: Stop) -> T:
        """What the call returned. NotDone after ``seconds`` or at a stop.

        A GdrcheckError of the call comes as it is, any other exception as a CallFailed.
        """
        elapsed = Elapsed()
        while self._thread.is_alive():
            self._thread.join(POLL_S)
            if not self._thread.is_alive():
                break
            if stop.reason:
                raise NotDone(f"{self._name}: {stop.reason}")
            if elapsed.seconds > seconds:
                raise NotDone(f"{self._name}: not done after {seconds:g} s")
        if isinstance(self._error, GdrcheckError):
            raise self._error
        if self._error is not None:
            kind = type(self._error).__name__
            raise CallFailed(f"{self._name}: {kind}: {self._error}") from self._error
        return self._result[0]
