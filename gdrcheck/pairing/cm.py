"""The exchange by rdma_cm between the two ends of a rail: both ends driven, and what came of it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Protocol, TypeVar

from gdrcheck.outcome import NotJudged, PeerError
from gdrcheck.pairing.channel import EndFailure
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.messages import Answer, Request
from gdrcheck.pairing.pairs import RailPair
from gdrcheck.pairing.perftest import Ask
from gdrcheck.pairing.tool_context import ToolContext
from gdrcheck.pairing.tools import CmAbsent, CmDone, CmGo, CmPrepare, CmPrepared
from gdrcheck.registration import Method
from gdrcheck.run import Deadlines
from gdrcheck.transfer import Direction, Role
from gdrcheck.verbs.cm_protocol import ELEMENTS, CmMemory, CmMethod, CmReport

T = TypeVar("T")
Tell = Callable[[Request, tuple[type[Answer], ...], float], Answer]


class Near(Protocol):
    """This end. ``end_session`` ends what it is doing, from any thread."""

    @property
    def context(self) -> ToolContext: ...

    def answer(self, request: Request, deadline: Deadline) -> Answer: ...

    def end_session(self) -> None: ...


@dataclass(frozen=True, slots=True)
class CmExchange:
    """What both ends saw of one exchange. ``notes`` are what a reader must know of it, in words."""

    rail: RailPair
    direction: Direction
    memory: CmMemory
    source: CmReport
    sink: CmReport
    notes: tuple[str, ...] = ()

    @property
    def completed(self) -> bool:
        """Whether every message completed at both ends, of the memory and by the methods that were
        asked for, and the sink found every number right.
        """
        sent, arrived = self.source.messages, self.sink.messages
        whole = self.sink.elements == ELEMENTS and len(sent) == len(arrived) == self.planned
        right = all(message.immediate is not None and not message.wrong for message in arrived)
        done = self.source.completed and self.sink.completed
        return done and whole and right and self._as_asked("source") and self._as_asked("sink")

    def _as_asked(self, role: Role) -> bool:
        report = self.source if role == "source" else self.sink
        end = (
            self.rail.source(self.direction) if role == "source" else self.rail.sink(self.direction)
        )
        used = tuple(message.method for message in report.messages)
        return (report.role, report.memory) == (role, self.memory) and used == _methods(
            self.memory, end.methods, self.planned
        )

    @property
    def planned(self) -> int:
        """How many messages were to be moved."""
        return messages(self.memory, self.rail)


def messages(memory: CmMemory, rail: RailPair) -> int:
    """One for each method of registering GPU memory at the end that has more; one if pinned."""
    if memory == "pinned":
        return 1
    return max(len(rail.local.methods), len(rail.remote.methods))


def limit_s(waits: Deadlines) -> float:
    """How long connecting and moving the messages may take."""
    return waits.connect_s + waits.completion_s


def run(
    near: Near,
    ask: Ask,
    rail: RailPair,
    memory: CmMemory,
    direction: Direction,
    deadline: Deadline,
) -> CmExchange:
    """Move numbers that a kernel made from the source to the sink, by rdma_cm.

    What is wrong with the messages is in the reports. NotJudged when an end lacks what it takes,
    EndFailure when one could not do its part, PeerError when the channel broke.
    """

    def here(request: Request, *_: object) -> Answer:
        return near.answer(request, deadline)

    def there(request: Request, answers: tuple[type[Answer], ...], seconds: float) -> Answer:
        return ask(request, answers, seconds, deadline)

    waits, token = near.context.waits, secrets.token_hex(16)
    mine: Role = "source" if direction == "out" else "sink"
    other: Role = "sink" if direction == "out" else "source"
    tell: dict[Role, Tell] = {mine: here, other: there}

    def prepared(role: Role) -> Answer:
        end = rail.source(direction) if role == "source" else rail.sink(direction)
        request = CmPrepare(
            rail=rail.rail_id,
            role=role,
            memory=memory,
            methods=_methods(memory, end.methods, messages(memory, rail)),
            token=token,
        )
        answer = tell[role](request, (CmPrepared, CmAbsent), waits.check_s)
        if isinstance(answer, CmAbsent):
            raise NotJudged(f"{end.node}: {answer.reason}")
        return answer

    ready = _side_by_side(mine, other, prepared)
    go = _go(ready["sink"], rail, rail.sink(direction).node)
    seconds = limit_s(waits)
    reports = _side_by_side(
        mine,
        other,
        lambda role: _report(tell[role](go, (CmDone,), seconds)),
        # Nobody will come any more: this end need not wait for its deadline.
        spare=near.end_session,
    )
    sent, arrived = reports["source"], reports["sink"]
    return CmExchange(rail, direction, memory, sent, arrived, _notes(near.context))


def _side_by_side(
    near: Role, far: Role, part: Callable[[Role], T], spare: Callable[[], None] | None = None
) -> dict[Role, T]:
    """What ``part`` returns for both roles, done at the same time; ``spare`` is called as soon as
    the far end's has failed, to end the near one's.

    Raises, if any failed, the error that says most: of an end whose child told what it was before
    one that was only waited for. A near end that was ended for the far one's sake says nothing.
    """
    done, ended = Event(), Event()

    def there() -> T | NotJudged | PeerError:
        result = _tried(part, far)
        if spare is not None and isinstance(result, Exception) and not done.is_set():
            ended.set()
            spare()
        return result

    with ThreadPoolExecutor(1, thread_name_prefix="rdma_cm-peer") as pool:
        waited = pool.submit(there)
        here = _tried(part, near)
        done.set()
        ends = {near: here, far: waited.result()}
    failed = {role: end for role, end in ends.items() if isinstance(end, NotJudged | PeerError)}
    if ended.is_set():
        raise failed[far]
    if failed:
        raise min(failed.values(), key=_telling)
    return {role: end for role, end in ends.items() if not isinstance(end, NotJudged | PeerError)}


def _tried(part: Callable[[Role], T], role: Role) -> T | NotJudged | PeerError:
    try:
        return part(role)
    except (NotJudged, PeerError) as error:
        return error


def _telling(error: Exception) -> int:
    if isinstance(error, NotJudged):
        return 0
    if not isinstance(error, EndFailure):
        return 1
    return 2 if error.error is not None else 3


def _go(answer: Answer, rail: RailPair, node: str) -> CmGo:
    if not isinstance(answer, CmPrepared) or answer.port is None:
        raise PeerError(f"{node}: does not say where it listens", side=node, step="rdma_cm")
    return CmGo(rail=rail.rail_id, address=answer.address, port=answer.port)


def _report(answer: Answer) -> CmReport:
    if not isinstance(answer, CmDone):
        raise PeerError(f"rdma_cm: answered {answer.TYPE}", side="responder", step="rdma_cm")
    return answer.report


def _methods(memory: CmMemory, own: tuple[Method, ...], count: int) -> tuple[CmMethod, ...]:
    """An end's method for each message. PeerError when it has none."""
    if memory == "pinned":
        return tuple("host" for _ in range(count))
    if not own:
        raise PeerError("a rail without a method", side="initiator", step="plan rdma_cm")
    return tuple(own[number % len(own)] for number in range(count))


def _notes(context: ToolContext) -> tuple[str, ...]:
    wanted = context.profile.traffic_class
    if not wanted:
        return ()
    return (
        f"not with the profile's traffic class {wanted}: pyverbs has no way to set it for rdma_cm, "
        "so the packets were of the node's default",
    )
