"""perftest between the two ends of a rail: the figures that people compare, beside our own.

The server runs at the sink and listens on an address of that end, the client at the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gdrcheck.outcome import NotJudged, PeerError
from gdrcheck.pairing.channel import EndFailure
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.messages import Answer, Request
from gdrcheck.pairing.pairs import RailPair
from gdrcheck.pairing.tool_context import ToolContext
from gdrcheck.pairing.tools import (
    PerftestAbsent,
    PerftestNumbers,
    PerftestPlan,
    PerftestRan,
    PerftestRun,
    PerftestServe,
    PerftestServing,
    PerftestStop,
    PerftestStopped,
)
from gdrcheck.transfer import Direction


@dataclass(frozen=True, slots=True)
class PerftestReport:
    """What perftest measured of one way of a rail."""

    plan: PerftestPlan
    direction: Direction
    numbers: PerftestNumbers


class Ask(Protocol):
    """Asks the other end, and returns one of the ``answers``. EndFailure, PeerError."""

    def __call__(
        self,
        request: Request,
        answers: tuple[type[Answer], ...],
        limit_s: float,
        deadline: Deadline,
        /,
    ) -> Answer: ...


class Near(Protocol):
    """This end, as far as this module needs it."""

    @property
    def context(self) -> ToolContext: ...

    def answer(self, request: Request, deadline: Deadline) -> Answer: ...


def run(
    near: Near,
    ask: Ask,
    rail: RailPair,
    plan: PerftestPlan,
    direction: Direction,
    deadline: Deadline,
) -> PerftestReport:
    """Measure the way ``direction`` by perftest.

    NotJudged when an end has no perftest for it, EndFailure when one could not do its part,
    PeerError when the channel broke.
    """

    def here(request: Request, *_: object) -> Answer:
        return near.answer(request, deadline)

    def there(request: Request, answers: tuple[type[Answer], ...], limit_s: float) -> Answer:
        return ask(request, answers, limit_s, deadline)

    waits = near.context.waits
    source, sink = (here, there) if direction == "out" else (there, here)
    number = rail.rail_id
    serving = sink(
        PerftestServe(rail=number, plan=plan), (PerftestServing, PerftestAbsent), waits.connect_s
    )
    if not isinstance(serving, PerftestServing):
        raise _absent(serving, rail.sink(direction).node)
    order = PerftestRun(rail=number, plan=plan, address=serving.address, port=serving.port)
    stop = PerftestStop(rail=number)
    try:
        ran = source(order, (PerftestRan, PerftestAbsent), waits.check_s)
    except EndFailure as failure:
        stopped = sink(stop, (PerftestStopped,), waits.connect_s)
        complaint = stopped.complaint if isinstance(stopped, PerftestStopped) else ""
        text = (
            f"{failure}; the server on {rail.sink(direction).node}: {complaint or 'no complaint'}"
        )
        raise EndFailure(text, side=failure.side, step=failure.step) from failure
    sink(stop, (PerftestStopped,), waits.connect_s)
    if not isinstance(ran, PerftestRan):
        raise _absent(ran, rail.source(direction).node)
    if not _fits(ran.numbers, plan):
        node = rail.source(direction).node
        text = f"{node}: perftest measured something else than it was asked for: {ran.numbers}"
        raise EndFailure(text, side=node, step="read perftest's JSON")
    return PerftestReport(plan, direction, ran.numbers)


def _fits(numbers: PerftestNumbers, plan: PerftestPlan) -> bool:
    figure = numbers.gbps if plan.kind == "bandwidth" else numbers.typical_us
    return figure is not None and numbers.size_bytes == plan.size_bytes


def _absent(answer: Answer, node: str) -> NotJudged | PeerError:
    if isinstance(answer, PerftestAbsent):
        return NotJudged(f"{node}: {answer.reason}")
    return PeerError(f"{node}: answered {answer.TYPE}", side=node, step="perftest")
