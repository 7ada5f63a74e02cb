"""Latency and bandwidth over a connected endpoint, in loops that do as little as Python can.

Work requests are built before the clock starts and used again; most sends are unsignaled; the
garbage collector rests. The data is verified at the end. What it costs that this is Python, and
not C: 2 to 3 us an operation on a fast processor.
"""

from __future__ import annotations

import time

from gdrcheck.verbs.compat import verbs_step
from gdrcheck.verbs.endpoint import Endpoint
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.protocol import CompletionError, Timed, TimedResult
from gdrcheck.verbs.timed_end import TimedEnd
from gdrcheck.verbs.timed_latency import Latency
from gdrcheck.verbs.timed_stream import OtherEnd, Stream
from gdrcheck.verbs.waiting import Broken, post_greeting_receive


class TimedRun:
    """One end of one measurement; ``run`` once.

    VerbsError if the message does not fit into the payloads, a region is missing at either end, or
    there are too few queue pairs: nothing was posted then.
    """

    def __init__(self, endpoint: Endpoint, request: Timed, *, completion_s: float) -> None:
        self._end = TimedEnd(endpoint, request, completion_s)
        self._loop = (Latency if request.kind == "latency" else Stream)(self._end)

    def run(self) -> TimedResult:
        """Measure or serve. What goes wrong on the way is in the result, without numbers; only what
        the driver of a GPU refuses is raised, as CudaError.
        """
        end, request = self._end, self._end.request
        numbers: dict[str, float] = {}
        error: CompletionError | None = None
        right = True
        begun = time.monotonic()
        try:
            with verbs_step(f"{request.kind} of {request.size_bytes} B as {request.role}"):
                numbers = self._loop.run()
                post_greeting_receive(end.endpoint)
        except OtherEnd:
            right = False
        except Broken as problem:
            error = problem.result(request.size_bytes, 0)
        except VerbsError as problem:
            broken = Broken("CALL_FAILED", problem.step, str(problem))
            error = broken.result(request.size_bytes, 0)
        right = right and not (error or end.mismatch or end.guard)
        measured = request.role == "source" or request.both_ways
        return TimedResult(
            kind=request.kind,
            size_bytes=request.size_bytes,
            iterations=self._loop.count,
            completed=right,
            duration_s=time.monotonic() - begun,
            mismatch=end.mismatch,
            guard_broken=end.guard,
            completion_error=error,
            **(numbers if right and measured else {}),
        )
