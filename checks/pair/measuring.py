"""Measures what a case owes, once, and says what the promises make of it."""

from __future__ import annotations

from collections.abc import Mapping

from gdrcheck import gates
from gdrcheck.findings.model import Finding
from gdrcheck.outcome import Blocked, NotJudged, ProbeError
from gdrcheck.pairing import plan, truth
from gdrcheck.pairing.binding import NO_CORE
from gdrcheck.pairing.cases import PairCase
from gdrcheck.pairing.cm import CmExchange
from gdrcheck.pairing.pairs import RailEnd
from gdrcheck.pairing.perftest import PerftestReport
from gdrcheck.pairing.reports import StagedReport, TimedReport
from gdrcheck.pairing.table import Cell, CellKey, RailTable
from gdrcheck.pairing.truth import Ruling
from gdrcheck.pairing.walk import PairWalk
from gdrcheck.profile import Factors
from gdrcheck.rules import numbers
from gdrcheck.run import RunSpec
from gdrcheck.transfer import DIRECTIONS, Mode, Role, memory_of
from gdrcheck.verbs.cm_protocol import CmMemory
from gdrcheck.verbs.protocol import TimedResult

Key = tuple[int, int, str, str]


class Measuring:
    """Measures on the walk through the rounds; what a later case compares with is kept."""

    def __init__(self, walk: PairWalk, spec: RunSpec) -> None:
        self.walk = walk
        self._spec = spec
        self._latency: dict[Key, TimedReport] = {}
        self._bandwidth: dict[Key, tuple[TimedReport, ...]] = {}
        self._at_once: dict[tuple[int, Mode], Mapping[int, TimedReport]] = {}

    def forget(self) -> None:
        """Keep nothing of the pairs so far: no later case compares with them."""
        for kept in (self._latency, self._bandwidth, self._at_once):
            kept.clear()

    def exchange(self, case: PairCase) -> tuple[Cell, Ruling]:
        """What became of the exchange, and what it proves. ProbeError if it was left out."""
        cell = self.walk.correctness(case.pair)[case.rail.rail_id].cells.get(case.cell)
        ruling = self.walk.rulings(case.pair, case.rail.rail_id).get(case.cell)
        if cell is None or ruling is None:
            raise ProbeError("the exchange was not measured, and nothing says why", step="exchange")
        return cell, ruling

    def far(self, case: PairCase) -> tuple[Cell, Ruling]:
        """The same of the exchange beyond 2 GiB."""
        cell = self.walk.far(case.pair, case.rail, case.direction)
        return cell, truth.judge(RailTable(case.rail, {case.cell: cell}))[case.cell]

    def latency(self, case: PairCase) -> TimedReport:
        """The round trips of the smallest message, as many as a first few say are enough."""
        asked = plan.latency_plan(case.mode, plan.FIRST_ROUNDS)
        report = self.walk.timed(case.pair, case.rail, asked, case.direction)
        if report.completed:
            half_us = report.source.report.median_us if report.source.report else None
            asked = plan.latency_plan(case.mode, plan.latency_rounds(half_us))
            report = self.walk.timed(case.pair, case.rail, asked, case.direction)
        self._latency[_key(case, case.mode)] = report
        return report

    def host_latency(self, case: PairCase) -> TimedReport | None:
        """Those between host memories, if GPU memory is to be compared with them."""
        return self._latency.get(_key(case, "host-host")) if case.mode != "host-host" else None

    def bandwidth(self, case: PairCase) -> tuple[TimedReport, ...]:
        """The rate of every size."""
        reports = tuple(
            self.walk.timed(
                case.pair, case.rail, plan.bandwidth_plan(case.mode, size), case.direction
            )
            for size in plan.BANDWIDTH_SIZES_BYTES
        )
        self._bandwidth[_key(case, case.mode)] = reports
        return reports

    def host_bandwidth(self, case: PairCase) -> tuple[TimedReport, ...]:
        """Those between host memories, if GPU memory is to be compared with them."""
        host = _key(case, "host-host")
        return self._bandwidth.get(host, ()) if case.mode != "host-host" else ()

    def both_ways(self, case: PairCase) -> TimedReport:
        """The rates of both ways at once, on this rail alone."""
        asked = plan.bandwidth_plan(case.mode, plan.ONE_SIZE_BYTES, both_ways=True)
        return self.walk.timed(case.pair, case.rail, asked, case.direction)

    def at_once(self, case: PairCase) -> TimedReport:
        """The rates of both ways at once, on all rails at once; measured for all of them together.

        Blocked by what is wrong with the exchange that it stands on.
        """
        key = (case.pair.round, case.mode)
        if key not in self._at_once:
            self._at_once[key] = self.walk.timed_on_all(case.pair, plan.at_once_plan(case.mode))
        report = self._at_once[key].get(case.rail.rail_id)
        if report is None:
            raise self._left_out(case)
        return report

    def staged(self, case: PairCase) -> tuple[StagedReport, ...]:
        """Each size by copies through host memory, and directly."""
        return tuple(
            self.walk.staged(case.pair, case.rail, asked, case.direction)
            for asked in plan.staged_plans()
        )

    def perftest_bandwidth(self, case: PairCase) -> PerftestReport:
        """What ib_write_bw measures of the same."""
        asked = plan.perftest_bandwidth_plan(self.our_rate_gbps(case) or 1)
        return self.walk.perftest(case.pair, case.rail, asked, case.direction)

    def rdma_cm(self, case: PairCase) -> CmExchange:
        """What came over a connection by address and port."""
        memory: CmMemory = "pinned" if case.item.mode == "pinned-pinned" else "gpu"
        return self.walk.rdma_cm(case.pair, case.rail, memory, case.direction)

    def perftest_latency(self, case: PairCase) -> PerftestReport:
        """What ib_send_lat measures of the same."""
        asked = plan.perftest_latency_plan(self.our_latency_us(case))
        return self.walk.perftest(case.pair, case.rail, asked, case.direction)

    def our_rate_gbps(self, case: PairCase) -> float | None:
        """Our own rate of the size and queue pairs that perftest is asked for."""
        for report in self._bandwidth.get(_key(case, case.mode), ()):
            if report.plan.size_bytes == plan.ONE_SIZE_BYTES and report.source.report is not None:
                return report.source.report.gbps
        return None

    def our_latency_us(self, case: PairCase) -> float | None:
        """Our own half round trip of the size that perftest is asked for."""
        report = self._latency.get(_key(case, case.mode))
        return report.source.report.median_us if report and report.source.report else None

    def latency_limit_us(self, case: PairCase) -> float | None:
        """The lower of both ends' limits; None when neither profile has one."""
        profiles = (self._spec.profile_of(end.node) for end in (case.source, case.sink))
        limits = [one.latency_limit_us for one in profiles if one.latency_limit_us is not None]
        return min(limits, default=None)

    def judge_rate(
        self, case: PairCase, gbps: float, properties: list[tuple[str, object]]
    ) -> Finding | None:
        """The finding of a rate that is too low; what it must reach is added to ``properties``.

        NotJudged with the rate when nobody can say.
        """
        source, sink = case.source, case.sink
        try:
            wanted = numbers.expected(case.mode, source.limits, sink.limits, self._factors(case))
        except NotJudged as why:
            raise NotJudged(f"{gbps:.3g} Gb/s; {why}") from why
        share = f"{wanted.factor:g} of {wanted.limited_by}"
        properties.append(("expected", f"{wanted.gbps:.3g} Gb/s, {share}"))
        return self.on_near_cores(case, numbers.low_bandwidth(case.where, gbps, wanted))

    def on_near_cores(self, case: PairCase, slow: Finding | None) -> Finding | None:
        """``slow``, if both ends ran near their NICs; ProbeError if one was not allowed to: a speed
        measured from afar is no fault of the rail.
        """
        cells = self.walk.correctness(case.pair)[case.rail.rail_id].cells
        for direction in DIRECTIONS:
            cell = cells.get(CellKey(case.mode, "WRITE", direction))
            if slow is None or cell is None or cell.result is None:
                continue
            for end in (cell.result.source_report, cell.result.sink_report):
                if end.binding.startswith(NO_CORE):
                    text = f"{slow.text()}, but {end.node}: {end.binding}"
                    raise ProbeError(text, step="run on the cores next to the NIC")
        return slow

    def _factors(self, case: PairCase) -> Factors:
        """Each end's own; of the network between them the higher, which one of them promises."""
        source = self._spec.profile_of(case.source.node).factors
        sink = self._spec.profile_of(case.sink.node).factors
        return Factors(
            nic_limited=max(source.nic_limited, sink.nic_limited),
            pcie_limited_source=source.pcie_limited_source,
            pcie_limited_sink=sink.pcie_limited_sink,
        )

    def _left_out(self, case: PairCase) -> Exception:
        """Why nothing was measured: the exchanges of the same operation tell, or the rail alone.

        Blocked when that is so.
        """
        rulings = self.walk.rulings(case.pair, case.rail.rail_id)
        keys = [CellKey(case.mode, "WRITE", direction) for direction in DIRECTIONS]
        found = [ruling for key in keys if (ruling := rulings.get(key)) and not ruling.passed]
        for ruling in found:
            if ruling.finding is not None:
                return Blocked(gates.named(ruling.finding))
        for ruling in found:
            if ruling.blocked_by is not None:
                return Blocked(ruling.blocked_by)
        if why := next((one.error for one in found if one.error), None):
            return ProbeError(f"the rail was left out: {why}", step="all rails at once")
        # Both passed, so the reason is newer, as of a port that went down: asked alone, it is told.
        self.both_ways(case)
        return ProbeError("the rail was left out; alone it works", step="all rails at once")


def prove(cell: Cell, ruling: Ruling) -> None:
    """Nothing when every byte was right; else what the ruling says."""
    gates.fail(ruling.finding)
    if ruling.blocked_by is not None:
        raise Blocked(ruling.blocked_by)
    if ruling.error is not None:
        raise ProbeError(ruling.error, step="exchange")
    if not cell.passed:
        raise ProbeError("not every message was verified, and nothing says why", step="exchange")


def rate_gbps(end: TimedResult | None) -> float:
    """The rate that an end measured. ProbeError when it has none."""
    if end is None or end.gbps is None:
        raise ProbeError("completed without a rate", step="measure bandwidth")
    return end.gbps


def require_own_links(case: PairCase, gbps: float) -> None:
    """NotJudged with the rate when an end of the rail shares a link with another rail."""
    ends: tuple[tuple[RailEnd, Role], ...] = ((case.source, "source"), (case.sink, "sink"))
    for end, role in ends:
        of_gpu = memory_of(case.mode, role) == "gpu"
        if shared := end.limits.gpu_shared if of_gpu else end.limits.shared:
            raise NotJudged(f"{gbps:.3g} Gb/s; {end.node}: {shared}")


def median_us(report: TimedReport) -> float:
    """The median that the source measured. ProbeError when it has none."""
    numbers = report.source.report
    if numbers is None or numbers.median_us is None:
        raise ProbeError("completed without a latency", step="measure latency")
    return numbers.median_us


def ways(reports: tuple[StagedReport, ...]) -> tuple[numbers.Ways, ...]:
    """The rates of both ways of each size. ProbeError when one is missing."""
    found = []
    for report in reports:
        source = report.source.report
        if source is None or source.staged is None or source.direct is None:
            raise ProbeError("completed without both rates", step="compare staged with direct")
        found.append(numbers.Ways(report.plan.size_bytes, source.staged.gbps, source.direct.gbps))
    return tuple(found)


def compare(case: PairCase, ours_gbps: float | None, perftest_gbps: float | None) -> Finding | None:
    """PAIR-INSTRUMENT-DIFFERS when both can be told apart. NotJudged where nothing is compared."""
    if perftest_gbps is None:
        raise ProbeError("perftest measured no bandwidth", step="perftest")
    text = f"perftest {perftest_gbps:.3g} Gb/s"
    if ours_gbps is None:
        raise NotJudged(f"{text}; ours was not measured")
    if reason := case.source.limits.not_judged or case.sink.limits.not_judged:
        raise NotJudged(f"{text}, ours {ours_gbps:.3g} Gb/s; {reason}")
    return numbers.instrument_differs(case.where, ours_gbps, perftest_gbps)


def _key(case: PairCase, mode: str) -> Key:
    return case.pair.round, case.rail.rail_id, mode, case.direction
