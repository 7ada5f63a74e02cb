"""Everything that is measured between two nodes, in the order in which it makes sense.

Knows nothing of rounds and rendezvous: a run of a playbook and two ends started by hand use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from gdrcheck.outcome import Blocked, NotJudged, PeerError
from gdrcheck.pairing import cm, perftest, truth
from gdrcheck.pairing.course import Course, Sessions
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.pairs import RailPair
from gdrcheck.pairing.plan import ProgramPlan
from gdrcheck.pairing.proof import NO_METHOD, OnCell, Proof, blocker_text, ways_of
from gdrcheck.pairing.reports import End, StagedPlan, StagedReport, TimedPlan, TimedReport
from gdrcheck.pairing.serve import Tools
from gdrcheck.pairing.side_by_side import side_by_side
from gdrcheck.pairing.table import Cell, CellKey, RailTable
from gdrcheck.pairing.tools import PerftestPlan
from gdrcheck.pairing.transfers import RailTransfers
from gdrcheck.run import Deadlines
from gdrcheck.transfer import (
    DIRECTIONS,
    MODES,
    Direction,
    Mode,
    Operation,
    Variant,
    has_gpu,
    memory_of,
)
from gdrcheck.verbs import protocol
from gdrcheck.verbs.cm_protocol import CmMemory

T = TypeVar("T")


class NearTools(Tools, perftest.Near, Protocol):
    """The tools of this end of a rail."""


class PairProgram:
    """What this node, the initiator, measures with one peer.

    ``sessions`` gives a usable session: see ``course.Course``. ``name`` is of this run and pair.
    ``on_cell`` is told of each cell, and again of one that was repeated, by any thread.

    All but ``correctness`` raise Blocked for a rail that cannot be used, or when the exchange that
    a number stands on did not pass; PeerError (EndFailure, where an end could not do its part) when
    nothing could be measured. What went wrong with data and completions is in what they return.
    """

    def __init__(
        self,
        sessions: Sessions,
        rails: Sequence[RailPair],
        plan: ProgramPlan,
        deadlines: Deadlines,
        name: str,
        *,
        tools: Mapping[int, NearTools] | None = None,
        on_cell: OnCell | None = None,
    ) -> None:
        self._sessions = sessions
        self._plan = plan
        self._tools = tools or {}
        self._on_cell = on_cell
        self._courses = {
            pair.rail_id: Course(pair, sessions, deadlines.rail_s, name) for pair in rails
        }
        self._tables: Mapping[int, RailTable] | None = None
        self._rulings: dict[int, Mapping[CellKey, truth.Ruling]] = {}

    def correctness(self) -> Mapping[int, RailTable]:
        """The proof of all rails, measured when first asked for. See ``proof.Proof``.

        Raises for nothing that a peer, an end or a port does: that is in the cells.
        """
        if self._tables is None:
            proof = Proof(self._courses, self._plan, self._on_cell, self._cancel)
            self._tables = proof.tables()
        return self._tables

    def rulings(self, rail_id: int) -> Mapping[CellKey, truth.Ruling]:
        """What the cells of a rail prove together."""
        if rail_id not in self._rulings:
            self._rulings[rail_id] = truth.judge(self.correctness()[rail_id])
        return self._rulings[rail_id]

    def far(self, rail: RailPair, direction: Direction) -> Cell:
        """WRITE_WITH_IMM from GPU to GPU beyond 2 GiB, measured twice if it fails.

        NotJudged when the GPU memory of an end does not reach so far.
        """
        key = CellKey("gpu-gpu", "WRITE_WITH_IMM", direction)
        self._require(rail, key.mode, key.operation, (direction,))
        course, ways = self._courses[rail.rail_id], ways_of(rail, key.mode, direction)
        if not ways:
            raise Blocked(NO_METHOD)
        plan = protocol.ExchangePlan(
            sizes_bytes=self._plan.far_sizes_bytes,
            iterations=self._plan.far_iterations,
            variants=ways,
            far=True,
        )
        # The GPUs are open when this answers.
        with course.use() as (transfers, deadline):
            transfers.link.back(transfers.link.take(deadline))
            if refused := transfers.link.far_refused():
                raise NotJudged(refused)
        cell = course.cell(key, lambda _: plan)
        if truth.suspects(RailTable(rail, {key: cell})):
            cell = replace(cell, repeat=course.cell(key, lambda _: plan))
        return cell

    def timed(self, rail: RailPair, plan: TimedPlan, direction: Direction) -> TimedReport:
        """One measurement, while no other rail is used."""
        self._require(rail, plan.mode, *_stands_on(plan, direction))
        return self._timed(rail, plan, direction)

    def timed_on_all(self, plan: TimedPlan) -> Mapping[int, TimedReport]:
        """The same measurement on all rails at once; rails that are blocked are not among them.

        What a rail could not do is in its report: it must not stop the others.
        """
        # Not by several threads at once.
        self.correctness()
        pairs = {number: course.pair for number, course in self._courses.items()}
        outcomes: dict[int, TimedReport | PeerError | Blocked | None] = dict(
            self._side_by_side(
                {
                    number: partial(_outcome, partial(self._warm, pair, plan))
                    for number, pair in pairs.items()
                }
            )
        )
        outcomes |= self._side_by_side(
            {
                number: partial(_outcome, partial(self._timed, pairs[number], plan, "out"))
                for number, outcome in outcomes.items()
                if outcome is None
            }
        )
        return {
            number: outcome
            if isinstance(outcome, TimedReport)
            else _unmeasured(pairs[number], plan, outcome)
            for number, outcome in outcomes.items()
            if isinstance(outcome, TimedReport | PeerError)
        }

    def staged(self, rail: RailPair, plan: StagedPlan, direction: Direction) -> StagedReport:
        """The way through host memory against the direct one, GPU to GPU."""
        self._require(rail, "gpu-gpu", "WRITE", (direction,))
        course = self._courses[rail.rail_id]
        variant = self._variant(rail, "gpu-gpu", direction)
        with course.use() as (transfers, deadline):
            report = transfers.staged(plan, direction, variant, course.tag(plan), deadline)
        if not report.completed:
            course.doubt()
        return report

    def perftest(
        self, rail: RailPair, plan: PerftestPlan, direction: Direction
    ) -> perftest.PerftestReport:
        """What perftest measures. NotJudged when an end has none that can do it."""
        mode = next(
            mode
            for mode in MODES
            if (memory_of(mode, "source"), memory_of(mode, "sink")) == (plan.source, plan.sink)
        )
        self._require(rail, mode, plan.operation, (direction,))
        with self._with_tools(rail) as (near, transfers, deadline):
            return perftest.run(near, transfers.session.ask, rail, plan, direction, deadline)

    def rdma_cm(self, rail: RailPair, memory: CmMemory, direction: Direction) -> cm.CmExchange:
        """What a kernel made, sent by rdma_cm. NotJudged when a port has no IP address."""
        # A kernel makes the numbers in pinned memory as well.
        mode: Mode = "gpu-gpu" if memory == "gpu" else "host-host"
        self._require(rail, mode, "SEND_WITH_IMM", (direction,), gpus=True)
        with self._with_tools(rail) as (near, transfers, deadline):
            return cm.run(near, transfers.session.ask, rail, memory, direction, deadline)

    def _timed(self, rail: RailPair, plan: TimedPlan, direction: Direction) -> TimedReport:
        course = self._courses[rail.rail_id]
        variant = self._variant(rail, plan.mode, direction)
        with course.use() as (transfers, deadline):
            report = transfers.timed(plan, direction, variant, deadline)
        if not report.completed:
            course.doubt()
        return report

    def _warm(self, rail: RailPair, plan: TimedPlan) -> None:
        """Connect ahead, so that nothing but the measurement is left."""
        self._require(rail, plan.mode, *_stands_on(plan, "out"))
        with self._courses[rail.rail_id].use() as (transfers, deadline):
            transfers.link.back(transfers.link.take(deadline))

    @contextmanager
    def _with_tools(self, rail: RailPair) -> Iterator[tuple[NearTools, RailTransfers, Deadline]]:
        if rail.rail_id not in self._tools:
            raise NotJudged("no tools beside the endpoints on this end")
        near = self._tools[rail.rail_id]
        with self._courses[rail.rail_id].use() as (transfers, deadline):
            if transfers.link.opened is None:
                transfers.link.back(transfers.link.take(deadline))
            near.opened = transfers.link.opened
            try:
                yield near, transfers, deadline
            except PeerError:
                near.end_session()
                raise

    def _require(
        self,
        rail: RailPair,
        mode: Mode,
        operation: Operation,
        directions: tuple[Direction, ...],
        *,
        gpus: bool = False,
    ) -> None:
        """Blocked unless the rail can be used, and what a measurement stands on has passed."""
        if rail.blocked_by is not None:
            raise Blocked(rail.blocked_by)
        if has_gpu(mode) or gpus:
            if not rail.has_gpus:
                raise Blocked("no GPU at both ends of the rail")
            if rail.gpu_blocked_by is not None:
                raise Blocked(rail.gpu_blocked_by)
        rulings = self.rulings(rail.rail_id)
        for direction in directions:
            key = CellKey(mode, operation, direction)
            if key in rulings and not rulings[key].passed:
                raise Blocked(blocker_text(rail, key, rulings[key]))

    def _variant(self, rail: RailPair, mode: Mode, direction: Direction) -> Variant:
        """The registrations by which numbers are measured: the preferred ones, relaxed ordering."""
        ways = ways_of(rail, mode, direction)
        if not ways:
            raise Blocked(NO_METHOD)
        return next(way for way in ways if way.source.relaxed and way.sink.relaxed)

    def _side_by_side(self, tasks: Mapping[int, Callable[[], T]]) -> dict[int, T]:
        return side_by_side(tasks, self._cancel)

    def _cancel(self) -> None:
        """Make everything that is under way end soon."""
        for course in self._courses.values():
            course.cut()


def _stands_on(plan: TimedPlan, direction: Direction) -> tuple[Operation, tuple[Direction, ...]]:
    """The operation that a measurement consists of, and the directions in which it is done."""
    operation: Operation = "SEND" if plan.kind == "latency" else "WRITE"
    return operation, DIRECTIONS if plan.both_ways else (direction,)


def _outcome(task: Callable[[], T]) -> T | PeerError | Blocked:
    """What ``task`` returned, or the reason that it raised."""
    try:
        return task()
    except (PeerError, Blocked) as reason:
        return reason


def _unmeasured(rail: RailPair, plan: TimedPlan, problem: PeerError) -> TimedReport:
    def end(node: str) -> End[protocol.TimedResult]:
        return End(node, None, str(problem) if node == problem.side else "")

    return TimedReport(plan, "out", end(rail.local.node), end(rail.remote.node))
