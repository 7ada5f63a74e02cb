"""What an exchange needs of a connected queue pair. Pure: tests put a simulated pair behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from gdrcheck.pattern import Bytes

# CREDIT is a SEND without data but with an immediate number.
Verb = Literal["CREDIT", "SEND", "WRITE", "WRITE_WITH_IMM", "READ"]


@dataclass(frozen=True, slots=True)
class Completion:
    """One work completion. ``status`` is a name as in ``errors.status_name``."""

    work_id: int
    status: str
    vendor_error: int
    immediate: int


class Link(Protocol):
    """A connected queue pair over one payload; places are byte offsets in it.

    The remote payload has the same layout, and one-sided verbs use the same offset on both ends.
    Posting raises VerbsError if the device refuses the work request.
    """

    @property
    def payload(self) -> Bytes:
        """The memory that the NIC reads and writes."""

    def post_receive(self, work_id: int, start: int, length: int) -> None:
        """Post a receive for a message; length 0 is for one without data."""

    def post(self, work_id: int, verb: Verb, start: int, length: int, immediate: int) -> None:
        """Post an operation, signaled."""

    def poll(self, wait_s: float = 0) -> Completion | None:
        """The next completion, None if there is none.

        With ``wait_s`` blocks that long at the most; may also return None earlier.
        """

    def guard_damage(self) -> str | None:
        """What happened to the guards around the payload; None if nothing."""
