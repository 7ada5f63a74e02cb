"""What an exchange needs: payloads, and a connected queue pair over them.

Pure: tests put a simulated pair behind it, and the memory may be the host's or a GPU's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from gdrcheck.mismatch import Verdict
from gdrcheck.pattern import Key
from gdrcheck.transfer import RegionKey

# CREDIT is a SEND without data but with an immediate number.
Verb = Literal[
    "CREDIT", "SEND", "SEND_WITH_IMM", "WRITE", "WRITE_WITH_IMM", "READ", "FETCH_ADD", "CMP_SWAP"
]
# Those that name memory of the other end.
ONE_SIDED: frozenset[Verb] = frozenset(("WRITE", "WRITE_WITH_IMM", "READ", "FETCH_ADD", "CMP_SWAP"))


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a message: the verdict on it, and what changed beside it, None if nothing."""

    verdict: Verdict
    beside: str | None

    @property
    def right(self) -> bool:
        """Whether every byte is as it should be."""
        return self.verdict.right and self.beside is None


class Payload(Protocol):
    """Memory that NICs read and write, of the host or of a GPU, between guards of its own.

    ``offset`` is a place in the payload, ``start`` the position in the key's stream of the range's
    first byte; ranges are not empty. Every call returns when the memory is as it says. GPU memory
    raises CudaError when the driver refuses, ProbeError when a kernel did not do its work.
    """

    @property
    def is_gpu(self) -> bool:
        """Whether the NIC reaches a GPU here."""

    @property
    def length_bytes(self) -> int:
        """How many bytes there are."""

    def fill(self, key: Key, offset: int, length: int, start: int) -> None:
        """Write the key's stream into the range."""

    def poison(self, key: Key, offset: int, length: int, start: int) -> None:
        """Write what must not remain once the key's message has arrived."""

    def flip(self, offset: int) -> None:
        """Spoil the lowest bit of one byte."""

    def flush(self, offset: int) -> str:
        """Make what a NIC has written visible, before ``verify`` or ``judge``; how, in words.

        ``offset`` is a place that it wrote. VerbsError if that takes a READ which fails.
        """

    def verify(self, key: Key, offset: int, length: int, start: int) -> Verdict:
        """Whether the range holds the key's stream: by the CPU, and in GPU memory by the GPU."""

    def judge(self, key: Key, offset: int, length: int, start: int, beside: int) -> Judged:
        """``verify``, and whether so many bytes before and behind the range are still as
        ``poison`` of the whole left them.
        """

    def read(self, offset: int, length: int) -> bytes:
        """The bytes as they are now, for a few of them."""

    def guard_damage(self) -> str | None:
        """What happened to the guards around the payload; None if nothing. Mends them."""


@dataclass(frozen=True, slots=True)
class Place:
    """A piece of the payload of a region of this end."""

    key: RegionKey
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Target:
    """Where a one-sided operation goes: a region of the other end, and the place in its payload.

    FETCH_ADD adds ``operand``; CMP_SWAP writes ``operand`` if it finds ``compare``.
    """

    key: RegionKey
    offset: int
    operand: int = 0
    compare: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """One work completion. ``status`` is a name as in ``errors.status_name``."""

    work_id: int
    status: str
    vendor_error: int
    immediate: int


class Link(Protocol):
    """A connected queue pair over the registered payloads of this end.

    Posting raises VerbsError if the device refuses the work request, or a region is not there.
    """

    def payload(self, key: RegionKey) -> Payload:
        """The memory of a region of this end. VerbsError if there is no such region."""

    def post_receive(self, work_id: int, place: Place | None) -> None:
        """Post a receive for a message; None is for one without data."""

    def post(
        self, work_id: int, verb: Verb, place: Place | None, target: Target | None, immediate: int
    ) -> None:
        """Post an operation, signaled. CREDIT has no place; one-sided verbs have a target."""

    def poll(self, wait_s: float = 0) -> Completion | None:
        """The next completion, None if there is none.

        With ``wait_s`` blocks that long at the most; may also return None earlier.
        """
