"""Endpoint children that lie or die: ``python3 -m tests.lab.driver.bad_worker WHAT``.

The rest of them is real. Whoever dies takes its parent along, as a node does that loses power.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

from gdrcheck.memory import child, worker
from gdrcheck.pattern import Key
from gdrcheck.verbs import compat, queue_pair
from gdrcheck.verbs.endpoint import Endpoint
from gdrcheck.verbs.exchange_end import ExchangeEnd
from gdrcheck.verbs.protocol import EndpointInfo

# A send is one of greetings, credits and data: this many are the middle of an exchange.
SENDS_BEFORE_DEATH = 8


def put(owner: Any, name: str, other: Any) -> None:
    """Put something else in the place of a method or a class."""
    setattr(owner, name, other)


def die(*_: Any) -> NoReturn:
    """End this process and its parent at once."""
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL returned")


def before_connect() -> None:
    """Dies when it is told to connect."""
    put(Endpoint, "connect", die)


def between_rtr_and_rts() -> None:
    """Dies when its queue pair can receive and not yet send."""
    put(queue_pair, "QP", type("Dying", (compat.QP,), {"to_rts": die}))


def in_a_transfer() -> None:
    """Dies in the middle of an exchange."""
    post, sends = Endpoint.post, iter(range(SENDS_BEFORE_DEATH))

    def counted(self: Endpoint, *arguments: Any) -> None:
        if next(sends, None) is None:
            die()
        post(self, *arguments)

    put(Endpoint, "post", counted)


def rkey() -> None:
    """Tells other keys of its regions than they have."""
    info = Endpoint.info

    def told(self: Endpoint) -> EndpointInfo:
        true = info(self)
        regions = (one.model_copy(update={"rkey": one.rkey ^ 0xFF}) for one in true.regions)
        return true.model_copy(update={"regions": tuple(regions)})

    put(Endpoint, "info", told)


def length() -> None:
    """Tells that its regions are smaller than what is to be moved."""
    info = Endpoint.info

    def told(self: Endpoint) -> EndpointInfo:
        true = info(self)
        regions = (one.model_copy(update={"length_bytes": 64}) for one in true.regions)
        return true.model_copy(update={"regions": tuple(regions)})

    put(Endpoint, "info", told)


def pattern() -> None:
    """Sends other bytes than were agreed on."""
    key = ExchangeEnd._key

    def other(self: ExchangeEnd, *arguments: Any) -> Key:
        true = key(self, *arguments)
        if self.plan.role == "sink":
            return true
        return Key(true.run_tag ^ 1, true.iteration, true.direction, true.source)

    put(ExchangeEnd, "_key", other)


BAD = {
    one.__name__: one
    for one in (before_connect, between_rtr_and_rts, in_a_transfer, rkey, length, pattern)
}

if __name__ == "__main__":
    BAD[sys.argv[1]]()
    child.main(worker.serve)
