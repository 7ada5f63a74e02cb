"""Latency and bandwidth of the ways whose data was right, and what is judged of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gdrcheck import gates
from gdrcheck.commands.pingpong.report import Number, Transfer
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, NotJudged, Outcome, PeerError, ProbeError
from gdrcheck.pairing.judge import judge_timed
from gdrcheck.pairing.pairs import RailEnd, RailPair
from gdrcheck.pairing.plan import bandwidth_plan, latency_plan
from gdrcheck.pairing.program import PairProgram
from gdrcheck.pairing.reports import TimedPlan, TimedReport
from gdrcheck.profile import Factors
from gdrcheck.rules import numbers
from gdrcheck.transfer import DIRECTIONS, Direction, Mode, Operation

OPERATION_OF: dict[str, Operation] = {"latency": "SEND", "bandwidth": "WRITE"}


@dataclass(frozen=True, slots=True)
class SpeedPlans:
    """What is measured of each mode and direction: one latency, and a bandwidth of each size."""

    modes: tuple[Mode, ...]
    latency_bytes: int
    sizes_bytes: tuple[int, ...]
    queue_pairs: int

    def of(self, mode: Mode) -> Iterator[TimedPlan]:
        """The measurements of a mode, in one direction."""
        yield replace(latency_plan(mode), size_bytes=self.latency_bytes)
        for size in self.sizes_bytes:
            yield replace(bandwidth_plan(mode, size), queue_pairs=self.queue_pairs)


class Speeds:
    """Measures one rail of a program."""

    def __init__(self, program: PairProgram, rail: RailPair, plans: SpeedPlans) -> None:
        self._program, self._rail, self._plans = program, rail, plans
        self._findings: list[Finding] = []

    def taken(self, passed: Sequence[Transfer]) -> tuple[tuple[Number, ...], list[Finding]]:
        """The numbers of every way of ``passed``, and what was found by them."""
        right = {(one.mode, one.direction) for one in passed}
        return tuple(
            self._number(plan, direction)
            for mode in self._plans.modes
            for direction in DIRECTIONS
            if (mode, direction) in right
            for plan in self._plans.of(mode)
        ), self._findings

    def _number(self, plan: TimedPlan, direction: Direction) -> Number:
        source, sink = self._rail.source(direction), self._rail.sink(direction)
        number = Number(
            source=source.where.text(),
            sink=sink.where.text(),
            direction=direction,
            mode=plan.mode,
            kind=plan.kind,
            operation=OPERATION_OF[plan.kind],
            size_bytes=plan.size_bytes,
            queue_pairs=plan.queue_pairs,
            outcome=Outcome.ERROR,
        )
        try:
            report = self._program.timed(self._rail, plan, direction)
            finding = judge_timed(report, self._rail)
        except Blocked as blocked:
            return _changed(number, outcome=Outcome.BLOCKED, reason=blocked.by)
        except (ProbeError, PeerError) as error:
            return _changed(number, reason=str(error))
        if finding is not None:
            return self._failed(number, finding)
        return self._judged(_with_values(number, report), source, sink)

    def _failed(self, number: Number, finding: Finding) -> Number:
        self._findings.append(finding)
        return _changed(number, outcome=Outcome.FAILED, reason=gates.named(finding))

    def _judged(self, number: Number, source: RailEnd, sink: RailEnd) -> Number:
        """``number``; the bandwidth of the largest size against the least of what bounds it."""
        gbps = number.gbps
        if gbps is None or number.size_bytes < max(self._plans.sizes_bytes):
            return number
        try:
            wanted = numbers.expected(number.mode, source.limits, sink.limits, Factors())
        except NotJudged as reason:
            return _changed(number, reason=str(reason))
        number = _changed(number, expected_gbps=wanted.gbps, limited_by=wanted.limited_by)
        where = Where(node=source.node, gpu=source.gpu, nic=source.nic, peer=sink.node)
        finding = numbers.low_bandwidth(where, gbps, wanted)
        if finding is not None:
            return self._failed(number, finding)
        return _changed(number, outcome=Outcome.PASSED)


def _with_values(number: Number, report: TimedReport) -> Number:
    """What was measured; of a latency, and of all sizes but the largest, no more is asked.

    A source that has no number, whatever it says, measured nothing.
    """
    result = report.source.report
    value = result and (result.median_us if number.kind == "latency" else result.gbps)
    if result is None or value is None:
        return _changed(number, reason=f"{report.source.node} told no number")
    return _changed(
        number,
        outcome=Outcome.NOT_JUDGED,
        median_us=result.median_us,
        p99_us=result.p99_us,
        max_us=result.max_us,
        gbps=result.gbps,
    )


def _changed(number: Number, **values: object) -> Number:
    return number.model_copy(update=values)
