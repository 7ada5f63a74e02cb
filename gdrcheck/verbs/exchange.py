"""One exchange: data flows one way between two payloads, and the sink judges every byte.

Messages without data carry credits in their immediate number, so nothing is ever sent that is not
awaited. The sink poisons, posts a receive, sends credit i; the source fills pattern i and posts the
data operation; the sink verifies; its next credit says that it did. SEND and SEND_WITH_IMM fill the
receive, WRITE_WITH_IMM completes it. WRITE and the atomic operations complete nothing at the sink:
a credit follows them on the same queue pair, which delivers in order, and completes it.
READ: the source fills pattern i and sends credit i; the sink, which has poisoned, reads, verifies
and sends credit i back. Instead of a credit ``STOP`` is sent when something was wrong.

Between exchanges the queue pair has one receive without data posted, for the greeting with which
each end makes sure that the other was armed with the same plan.
"""

from __future__ import annotations

import time

from gdrcheck.outcome import ProbeError
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.exchange_end import ExchangeEnd, Wrong
from gdrcheck.verbs.link import Link
from gdrcheck.verbs.messages import Message
from gdrcheck.verbs.protocol import Arm, CompletionError, ExchangeResult, VerifiedSize
from gdrcheck.verbs.waiting import Broken, Stopped, post_greeting_receive


class Exchange:
    """One end of one exchange over a link; ``run`` once.

    ``source_id`` names the sending queue pair, the same number on both ends.
    """

    def __init__(self, link: Link, plan: Arm, *, source_id: int, completion_s: float) -> None:
        self._link = link
        self._plan = plan
        self._end = ExchangeEnd(link, plan, source_id=source_id, completion_s=completion_s)
        self._done = dict.fromkeys(plan.sizes_bytes, 0)

    def run(self) -> ExchangeResult:
        """Move and judge every message of the plan. What goes wrong is in the result.

        Raises only what a GPU's payload does, after having told the other end to stop.
        """
        begun = time.monotonic()
        wrong: Wrong | None = None
        error: CompletionError | None = None
        stopped, changed = False, None
        try:
            wrong = self._walk()
            error = wrong.error if wrong else None
        except Stopped:
            stopped, changed = True, self._end.own_change()
        except Broken as problem:
            error = self._end.error(problem)
        except VerbsError as problem:
            error = self._end.error(Broken("CALL_FAILED", problem.step, str(problem)))
        at = self._end.at if wrong is not None and wrong.mismatch is not None else None
        return ExchangeResult(
            sizes=tuple(
                VerifiedSize(size_bytes=size, iterations_verified=count)
                for size, count in self._done.items()
            ),
            completed=wrong is None and error is None and not stopped,
            mismatch=wrong.mismatch if wrong else None,
            mismatch_size_bytes=at.size_bytes if at else None,
            mismatch_iteration=at.iteration if at else None,
            mismatch_variant=None if wrong is None and error is None else self._end.at.variant,
            verdicts_differ=wrong.differ if wrong else None,
            guard_broken=wrong.guard if wrong else None,
            source_changed=changed,
            completion_error=error,
            stopped_by_peer=stopped,
            duration_s=time.monotonic() - begun,
        )

    def _walk(self) -> Wrong | None:
        reading = self._plan.operation == "READ"
        try:
            if self._plan.role == "source":
                (self._be_read if reading else self._push)()
            else:
                (self._read if reading else self._take_in)()
        except Wrong as problem:
            self._end.stop()
            return problem
        except VerbsError:
            raise
        except ProbeError:
            self._end.stop()
            raise
        post_greeting_receive(self._link)
        return None

    def _push(self) -> None:
        end, before = self._end, None
        credit = end.expect_credit()
        end.greet()
        for message in end.messages():
            end.take_credit(credit, message.sequence)
            if before is not None:
                self._count(before)
            end.fill(message)
            credit = end.expect_credit()
            end.send(message)
            before = message
        end.take_credit(credit, end.total)
        self._count(end.at)

    def _take_in(self) -> None:
        end = self._end
        for message in end.messages():
            end.poison(message)
            arrival = end.expect_data(message)
            if message.sequence == 0:
                end.greet()
            end.tell(message.sequence)
            completion = end.take_data(arrival)
            end.verify(message)
            end.check_number(completion, message.sequence)
            self._count(message)
        end.tell(end.total)

    def _be_read(self) -> None:
        end = self._end
        for message in end.messages():
            end.fill(message)
            back = end.expect_credit()
            if message.sequence == 0:
                end.greet()
            end.tell(message.sequence)
            end.take_credit(back, message.sequence)
            self._count(message)

    def _read(self) -> None:
        end = self._end
        credit = end.expect_credit()
        end.greet()
        for message in end.messages():
            end.poison(message)
            end.take_credit(credit, message.sequence)
            end.read(message)
            end.verify(message)
            self._count(message)
            if message.sequence + 1 < end.total:
                credit = end.expect_credit()
            end.tell(message.sequence)

    def _count(self, message: Message) -> None:
        self._done[message.size_bytes] += 1
