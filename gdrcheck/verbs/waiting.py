"""Posting to a link and waiting for what was posted, never longer than the deadline."""

from __future__ import annotations

import time
import zlib

from gdrcheck.transfer import Role
from gdrcheck.verbs.link import Completion, Link, Place, Target, Verb
from gdrcheck.verbs.protocol import DEADLINE, CompletionError

# The receive that every queue pair has posted at rest, for the other end's greeting.
GREETING_ID = 0
# The immediate number of a greeting has this bit, the role in the next, a plan's checksum below.
_GREETING = 1 << 31
_SINK = 1 << 30
# A flushed work request can complete before the one whose failure flushed it (seen with rxe).
_CAUSE_S = 0.2
# Instead of a credit: the sink has ended the exchange, since something was wrong.
STOP = 0xFFFF_FFFF


class Broken(Exception):
    """The queue pair cannot go on. ``what`` is the operation that failed or was awaited."""

    def __init__(self, status: str, what: str, text: str, vendor_error: int = 0) -> None:
        self.status = status
        self.what = what
        self.text = text
        self.vendor_error = vendor_error
        super().__init__(text)

    def result(self, size_bytes: int, iteration: int) -> CompletionError:
        """The same for a result, with the message that was being moved."""
        return CompletionError(
            status=self.status,
            vendor_error=self.vendor_error,
            operation=self.what,
            iteration=iteration,
            size_bytes=size_bytes,
            text=self.text,
        )


class Stopped(Broken):
    """The other end has ended it; it has the reason."""

    def __init__(self, what: str) -> None:
        super().__init__("STOPPED", what, f"{what}: the other end has stopped")


def post_greeting_receive(link: Link) -> None:
    """Post the receive that every queue pair has at rest."""
    link.post_receive(GREETING_ID, None)


class Waiter:
    """Gives every posted operation a number and hands out its completion.

    Starts with the greeting's receive in flight, as it is at rest.
    """

    def __init__(self, link: Link, completion_s: float) -> None:
        self._link = link
        self._completion_s = completion_s
        self._last_id = GREETING_ID
        self._in_flight = {GREETING_ID: "the other end's greeting"}
        self._completed: dict[int, Completion] = {}

    def receive(self, place: Place | None, what: str) -> int:
        """Post a receive, None for one without data; the number to wait for."""
        number = self._number(f"receive {what}")
        self._link.post_receive(number, place)
        return number

    def post(
        self, verb: Verb, place: Place | None, target: Target | None, immediate: int, what: str
    ) -> int:
        """Post an operation; the number to wait for."""
        number = self._number(f"{verb} {what}")
        self._link.post(number, verb, place, target, immediate)
        return number

    def credit(self, immediate: int, what: str) -> int:
        """Post a SEND without data; the number to wait for."""
        return self.post("CREDIT", None, None, immediate, what)

    def greet(self, role: Role, agreed: object) -> None:
        """Tell the other end what is agreed and hear the same from it, with the other role.

        Broken if the other end was told otherwise, Stopped if it could not even begin.
        """
        checksum = zlib.crc32(repr(agreed).encode()) % _SINK | _GREETING
        mine, theirs = (0, _SINK) if role == "source" else (_SINK, 0)
        self.wait(self.credit(checksum | mine, "greeting"))
        heard = self.wait(GREETING_ID).immediate
        if heard == STOP:
            raise Stopped("greeting")
        if heard != checksum | theirs:
            raise Broken("PROTOCOL", "greeting", "the other end was told to do something else")

    def wait(self, number: int, seconds: float | None = None) -> Completion:
        """The completion of a posted operation, within ``seconds`` (default: the deadline).

        Broken if it, or anything else that was posted, fails, or if it takes too long.
        """
        limit_s = self._completion_s if seconds is None else seconds
        deadline = time.monotonic() + limit_s
        while number not in self._completed:
            wait_s = deadline - time.monotonic()
            if wait_s <= 0:
                self._expire(number, limit_s)
            completion = self._link.poll(wait_s)
            if completion is not None:
                self.take(completion)
        del self._in_flight[number]
        return self._completed.pop(number)

    def came_early(self, number: int) -> bool:
        """Whether a completion that no one has waited for has come meanwhile; forgets it."""
        return self._completed.pop(number, None) is not None

    def _number(self, what: str) -> int:
        self._last_id += 1
        self._in_flight[self._last_id] = what
        return self._last_id

    def take(self, completion: Completion) -> None:
        """Keep a completion for whoever waits for its number. Broken if it has failed."""
        if completion.status != "SUCCESS":
            self._fail(completion)
        self._completed[completion.work_id] = completion

    def _fail(self, first: Completion) -> None:
        """Raise for the completion that says most: a flushed one only repeats another's fault."""
        worst = first
        deadline = time.monotonic() + _CAUSE_S
        while worst.status == "WR_FLUSH_ERR" and (left := deadline - time.monotonic()) > 0:
            more = self._link.poll(left)
            if more is not None and more.status != "SUCCESS":
                worst = more
        what = self._in_flight.get(worst.work_id, f"work request {worst.work_id}")
        text = f"{what}: completed with {worst.status}, vendor error {worst.vendor_error:#x}"
        raise Broken(worst.status, what, text, worst.vendor_error)

    def _expire(self, number: int, limit_s: float) -> None:
        what = self._in_flight[number]
        raise Broken(DEADLINE, what, f"{what}: not completed within {limit_s:g} s")
