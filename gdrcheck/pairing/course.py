"""One rail's way through the measurements of a pair: its time, its failures, its cells."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gdrcheck import gates
from gdrcheck.outcome import Blocked, PeerError
from gdrcheck.pairing.channel import EndFailure
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.pairs import RailPair
from gdrcheck.pairing.session import PairSession
from gdrcheck.pairing.table import Cell, CellKey, Failure
from gdrcheck.pairing.transfers import Messages, RailTransfers
from gdrcheck.pairing.tries import STATE
from gdrcheck.verbs import protocol

Sessions = Callable[[], PairSession]
# Nothing came back for as long as a transport or a deadline allows.
SLOW_STATUS = frozenset({"RETRY_EXC_ERR", protocol.DEADLINE})


class Course:
    """A rail of a pair, over all sessions with the peer. Used by one thread at a time.

    ``sessions`` gives a usable session, a new one after a loss; PeerError when there is none.
    The rail has ``limit_s`` of time under way in all.
    """

    def __init__(self, pair: RailPair, sessions: Sessions, limit_s: float, name: str) -> None:
        self.pair = pair
        self._sessions = sessions
        self._limit_s = limit_s
        self._name = name
        self._spent_s = 0.0
        self._count = 0
        self._transfers: RailTransfers | None = None
        # After a failure the ports are looked at before anything else is waited for.
        self._doubtful = False

    @contextmanager
    def use(self) -> Iterator[tuple[RailTransfers, Deadline]]:
        """The rail's transfers and the time that is left. PeerError; Blocked by a port now down."""
        session = self._sessions()
        transfers = self._transfers
        if transfers is None or transfers.session is not session:
            transfers = self._transfers = RailTransfers(session, self.pair)
        begin = time.monotonic()
        try:
            deadline = self._time_left()
            if self._doubtful:
                self._look_at_ports(transfers, deadline)
            yield transfers, deadline
        except PeerError:
            self._doubtful = True
            raise
        finally:
            self._spent_s += time.monotonic() - begin

    def doubt(self) -> None:
        """What was just measured failed: look at the ports before the next time."""
        self._doubtful = True

    def cut(self) -> None:
        """Make what is under way end soon, from any thread; the session is lost."""
        if self._transfers is not None:
            self._transfers.session.cut()

    def retry_gpus(self) -> None:
        """Try GPUs again that did not open."""
        if self._transfers is not None:
            self._transfers.link.retry_gpus()

    def cell(self, key: CellKey, messages: Messages) -> Cell:
        """What becomes of one exchange, whatever that is."""
        try:
            with self.use() as (transfers, deadline):
                result = transfers.exchange(key, messages, self.tag(key), deadline)
        except Blocked as blocked:
            return Cell(blocked_by=blocked.by)
        except EndFailure as failure:
            return Cell(failure=self._failure(failure, failure.error))
        except PeerError as lost:
            return Cell(failure=self._failure(lost, None))
        if not result.completed:
            self.doubt()
        return Cell(result=result)

    def tag(self, what: object) -> int:
        """A number that no other transfer has: data of an earlier one is not taken for new."""
        self._count += 1
        parts = (self._name, self.pair, what, self._count, time.time_ns())
        return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big")

    def _time_left(self) -> Deadline:
        left_s = self._limit_s - self._spent_s
        if left_s <= 0:
            peer = self.pair.remote.node
            raise PeerError(
                f"rail {self.pair.rail_id} with {peer}: its {self._limit_s:g} s are used up",
                side=peer,
                step="time of the rail",
            )
        return Deadline.after(left_s)

    def _look_at_ports(self, transfers: RailTransfers, deadline: Deadline) -> None:
        for node, state in transfers.link.port_states(deadline).items():
            if not STATE.match(state):
                continue  # It could not be read.
            finding = gates.port_went_down(self.pair.end(node).port, state)
            if finding is not None:
                raise Blocked(f"{finding.code} at {finding.where.text()}")
        self._doubtful = False

    def _failure(self, problem: PeerError, error: protocol.ErrorInfo | None) -> Failure:
        endpoints = self._transfers.link.endpoints if self._transfers is not None else {}
        return Failure(problem.side, problem.step, str(problem), error, dict(endpoints))


def slow(cell: Cell) -> bool:
    """Whether the failure of a cell is one that costs as much time as it may each time."""
    if cell.failure is not None:
        return cell.failure.error is None
    if cell.result is None:
        return False
    reports = (cell.result.source_report.report, cell.result.sink_report.report)
    errors = (report.completion_error for report in reports if report is not None)
    return any(error is not None and error.status in SLOW_STATUS for error in errors)
