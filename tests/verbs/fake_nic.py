"""The one device of the simulated pyverbs: what it does, what was done with it, and its errors."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.verbs.fake_pyverbs import MR
    from tests.verbs.fake_queue_pair import QP


# enum ibv_access_flags
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC = 1, 2, 4, 8


@dataclass
class Nic:
    """What the one device of the fake does, and what was done with it."""

    # errno by call: reg_mr, reg_dmabuf_mr, dereg_mr, create_qp, to_rtr, post_send, poll.
    refuses: dict[str, int] = field(default_factory=dict)
    # So many calls of each work before.
    after: dict[str, int] = field(default_factory=dict)
    # So many calls of each fail, and those after them work.
    times: dict[str, int] = field(default_factory=dict)
    # Completion status (and vendor error) of transfers; None: no completion at all, ever.
    status: int | None = 0
    vendor_error: int = 0
    # Called with sink, source and length of each transfer, instead of copying.
    copy: Callable[[int, int, int], None] = ctypes.memmove
    alive: list[str] = field(default_factory=list)
    transfers: list[tuple[str, int]] = field(default_factory=list)
    regions: dict[int, MR] = field(default_factory=dict)
    pairs: dict[int, QP] = field(default_factory=dict)
    numbers: int = 0
    # What a sink sees of the messages that arrive in it: spoils its memory, given address and size.
    spoil: Callable[[int, int], None] | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def call(self, name: str) -> None:
        """PyverbsRDMAError when the call is to fail."""
        if name not in self.refuses:
            return
        left = self.after.get(name, 0)
        self.after[name] = left - 1
        if left <= 0 and -left < self.times.get(name, 1 - left):
            raise PyverbsRDMAError(f"{name} failed", self.refuses[name])

    def find(self, key: int, address: int, length: int, access: int = 0) -> int | None:
        """Where the CPU finds a piece of the region with this key; None if it is not inside, or
        may not be used so.
        """
        region = self.regions.get(key)
        if region is None or region.access & access != access:
            return None
        offset = address - region.iova
        inside = offset >= 0 and offset + length <= region.length
        return region.alias + offset if inside else None


nic = Nic()


def reset() -> None:
    """A healthy device of which nothing is open."""
    nic.__init__()  # type: ignore[misc]


class PyverbsError(Exception):
    pass


class PyverbsRDMAError(PyverbsError):
    def __init__(self, message: str, error_code: int = -1) -> None:
        self.error_code = error_code
        super().__init__(message)


class Closable:
    what = ""

    def __init__(self) -> None:
        self.open = True
        nic.alive.append(self.what)

    def close(self) -> None:
        assert self.open, f"{self.what} closed twice"
        self.open = False
        nic.alive.remove(self.what)
