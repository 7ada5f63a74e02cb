"""What the checks of pairs make of what the walk measured: outcome, finding, properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from checks.pair import check_perftest, check_pingpong, check_rdma_cm, check_speed
from checks.pair.measuring import Measuring
from gdrcheck.findings.model import Finding
from gdrcheck.outcome import (
    Blocked,
    CheckFailure,
    NotJudged,
    NotPromised,
    PeerError,
    ProbeError,
)
from gdrcheck.pairing import plan
from gdrcheck.pairing.binding import NO_CORE
from gdrcheck.pairing.cases import PairCase, pair_cases, plan_text
from gdrcheck.pairing.cm import CmExchange
from gdrcheck.pairing.pairs import EndReport, ExchangeResult, OwnedPair, RailEnd, RailPair
from gdrcheck.pairing.perftest import PerftestReport
from gdrcheck.pairing.reports import End, StagedPlan, StagedReport, TimedPlan, TimedReport
from gdrcheck.pairing.table import Cell, CellKey, RailTable
from gdrcheck.pairing.tools import PerftestNumbers, PerftestPlan
from gdrcheck.pairing.truth import Ruling
from gdrcheck.profile import Profile
from gdrcheck.transfer import DIRECTIONS, Direction, EndLimits, variants
from gdrcheck.verbs import protocol
from gdrcheck.verbs.cm_protocol import CmMemory, CmMessage, CmMethod, CmReport
from tests.node.support import profile, run_spec

LIMITS = EndLimits(nic_rate_gbps=400, nic_link_gbps=504.1, gpu_link_gbps=504.1, distance="PIX")
SOFT = LIMITS.model_copy(update={"not_judged": "rxe0 is a software device"})
GPUS = {"count": 1, "model": "NVIDIA H200"}


class Walk:
    """Answers as the walk would; ``asked`` keeps the plans."""

    def __init__(self, rail: RailPair) -> None:
        self.rail = rail
        self.cells: dict[CellKey, Cell] = {}
        self.told: dict[CellKey, Ruling] = {}
        self.gbps: Callable[[TimedPlan, str], float | None] = lambda _plan, _end: 380.0
        self.median_us = 5.0
        self.error = ""
        self.staged_gbps, self.direct_gbps = 100.0, 300.0
        self.left_out, self.blocked_by = False, ""
        self.perftest_gbps: float | None = 380.0
        self.immediate, self.cm_absent = 0x1234, ""
        self.asked: list[object] = []

    def correctness(self, _pair: OwnedPair) -> Mapping[int, RailTable]:
        return {self.rail.rail_id: RailTable(self.rail, self.cells)}

    def rulings(self, _pair: OwnedPair, _rail: int) -> Mapping[CellKey, Ruling]:
        return self.told

    def far(self, _pair: OwnedPair, _rail: RailPair, direction: Direction) -> Cell:
        return cell(direction)

    def timed(
        self, _pair: OwnedPair, rail: RailPair, asked: TimedPlan, direction: Direction
    ) -> TimedReport:
        self.asked.append(asked)
        if self.blocked_by:
            raise Blocked(self.blocked_by)
        source, sink = rail.source(direction), rail.sink(direction)
        return TimedReport(
            asked,
            direction,
            End(source.node, None if self.error else self._numbers(asked, "source"), self.error),
            End(sink.node, self._numbers(asked, "sink" if asked.both_ways else "")),
        )

    def timed_on_all(self, pair: OwnedPair, asked: TimedPlan) -> Mapping[int, TimedReport]:
        return {} if self.left_out else {0: self.timed(pair, self.rail, asked, "out")}

    def staged(
        self, _pair: OwnedPair, rail: RailPair, asked: StagedPlan, direction: Direction
    ) -> StagedReport:
        ways = {
            name: protocol.StagedWay(median_us=10, gbps=gbps, address="0x1000")
            for name, gbps in (("staged", self.staged_gbps), ("direct", self.direct_gbps))
        }
        result = protocol.StagedResult(
            completed=True, staged_address="host 0x1", direct_address="offset 0x0", **ways
        )
        source, sink = rail.source(direction), rail.sink(direction)
        return StagedReport(asked, direction, End(source.node, result), End(sink.node, result))

    def perftest(
        self, _pair: OwnedPair, _rail: RailPair, asked: PerftestPlan, direction: Direction
    ) -> PerftestReport:
        self.asked.append(asked)
        numbers = PerftestNumbers(
            command="ib_write_bw",
            size_bytes=asked.size_bytes,
            iterations=asked.iterations,
            gbps=self.perftest_gbps,
            typical_us=2.0,
        )
        return PerftestReport(asked, direction, numbers)

    def rdma_cm(
        self, _pair: OwnedPair, rail: RailPair, memory: CmMemory, direction: Direction
    ) -> CmExchange:
        self.asked.append(memory)
        if self.cm_absent:
            raise NotJudged(self.cm_absent)
        method: CmMethod = "host" if memory == "pinned" else "dmabuf"
        message = CmMessage(method=method, address=0x7000, first=(0, 2, 4, 6, 8))
        arrived = message.model_copy(update={"immediate": self.immediate, "flushed": "by read"})
        ends = {
            role: CmReport(role=role, memory=memory, completed=True, messages=(one,))
            for role, one in (("source", message), ("sink", arrived))
        }
        return CmExchange(rail, direction, memory, ends["source"], ends["sink"], ("a note",))

    def _numbers(self, asked: TimedPlan, end: str) -> protocol.TimedResult:
        return protocol.TimedResult(
            kind=asked.kind,
            size_bytes=asked.size_bytes,
            iterations=asked.iterations,
            completed=True,
            median_us=self.median_us if asked.kind == "latency" else None,
            gbps=self.gbps(asked, end) if asked.kind == "bandwidth" and end else None,
        )


def cell(direction: Direction, *, verified: int | None = None) -> Cell:
    """An exchange in which every message was right, unless fewer were verified."""
    asked = protocol.ExchangePlan(
        sizes_bytes=(8,), iterations=3, variants=variants("host-host", (), ())
    )
    done = asked.iterations * len(asked.variants) if verified is None else verified
    report = protocol.ExchangeResult(
        sizes=(protocol.VerifiedSize(size_bytes=8, iterations_verified=done),),
        completed=True,
        duration_s=1,
    )
    ends = [EndReport(node, report, binding="cores 0-3") for node in ("node1", "node2")]
    return Cell(ExchangeResult("host-host", "SEND", direction, asked, 4096, *ends))


class Case:
    """One case of a rail between node1 and node2, the walk behind it, and what became of it."""

    def __init__(
        self, check: str, mode: str, direction: Direction = "out", **promises: Any
    ) -> None:
        limits = promises.pop("limits", LIMITS)
        self.profile: Profile = profile(gpus=GPUS, **promises)
        ends = [RailEnd(node, "gpu0", "mlx5_0", ("dmabuf",), limits) for node in ("node1", "node2")]
        rail = RailPair(0, *ends, has_gpus=True)
        pair = OwnedPair(0, "node2", (rail,))
        self.spec = run_spec("node1", "node2", profiles={"soft": self.profile})
        self.walk = Walk(rail)
        self.measuring = Measuring(self.walk, self.spec)  # type: ignore[arg-type]
        self.every = pair_cases(self.spec, "node1", (pair,))
        self.case = self.other(check, mode, direction)
        self.properties: list[tuple[str, object]] = []

    def other(self, check: str, mode: str, direction: Direction = "out") -> PairCase:
        """Another case of the same rail."""
        return next(
            one
            for one in self.every
            if (one.item.check, one.mode, one.direction) == (check, mode, direction)
        )

    def run(self, check: Callable[..., None]) -> dict[str, str]:
        """Run the check; what it raises goes through. Returns the properties."""
        request = SimpleNamespace(node=SimpleNamespace(user_properties=self.properties))
        check(self.case, self.measuring, request)
        return self.told

    def finds(self, check: Callable[..., None]) -> Finding:
        """The finding of a check that fails."""
        with pytest.raises(CheckFailure) as caught:
            self.run(check)
        return caught.value.finding

    @property
    def told(self) -> dict[str, str]:
        """The properties so far."""
        return {name: str(value) for name, value in self.properties}


A_FINDING = Finding(
    code="PAIR-GPU-READ",
    where=RailEnd("node2", "gpu0", "mlx5_0").where,
    observed="refused",
    expected="read",
)

# --- data -----------------------------------------------------------------------------------------


def test_an_exchange_that_passed_tells_what_was_moved() -> None:
    case = Case("pingpong", "host-host")
    case.walk.cells[case.case.cell], case.walk.told[case.case.cell] = cell("out"), Ruling()
    told = case.run(check_pingpong.check_pingpong)
    assert told["messages verified"] == "6 of 8 to 8 bytes"
    assert told["path MTU"] == "4096"
    assert told["cores of the source"] == "node1: cores 0-3"


@pytest.mark.parametrize(
    ("ruling", "error"),
    [
        (Ruling(finding=A_FINDING), CheckFailure),
        (Ruling(blocked_by="PAIR-GPU-READ at node2"), Blocked),
        (Ruling(error="node2: no answer"), ProbeError),
    ],
)
def test_an_exchange_reports_its_ruling(ruling: Ruling, error: type[Exception]) -> None:
    case = Case("pingpong", "gpu-gpu", "in")
    case.walk.cells[case.case.cell], case.walk.told[case.case.cell] = Cell(), ruling
    with pytest.raises(error):
        case.run(check_pingpong.check_pingpong)


def test_an_exchange_that_nobody_measured_does_not_pass() -> None:
    case = Case("pingpong", "host-host")
    with pytest.raises(ProbeError, match="not measured"):
        case.run(check_pingpong.check_pingpong)
    case.walk.cells[case.case.cell] = cell("out")
    with pytest.raises(ProbeError, match="not measured"):
        case.run(check_pingpong.check_pingpong)
    # No ruling against it, and yet a message is missing.
    case.walk.cells[case.case.cell] = cell("out", verified=5)
    case.walk.told[case.case.cell] = Ruling()
    with pytest.raises(ProbeError, match="not every message was verified"):
        case.run(check_pingpong.check_pingpong)


def test_what_lies_beyond_2_gib_is_skipped_when_the_profile_says_so() -> None:
    near = Case("pingpong_far", "gpu-gpu", transfers={"beyond_2gib": False})
    with pytest.raises(NotPromised, match="beyond_2gib"):
        near.run(check_pingpong.check_pingpong_far)


# --- numbers --------------------------------------------------------------------------------------


def test_a_latency_without_a_limit_is_shown() -> None:
    case = Case("latency", "host-host")
    with pytest.raises(NotJudged, match=r"5\.00 us"):
        case.run(check_speed.check_latency)
    assert case.told["p50"] == "5.00 us"
    assert "loop" in case.told


def test_the_lower_limit_of_both_ends_counts_and_the_gpu_is_compared_with_the_host() -> None:
    case = Case("latency", "gpu-gpu", latency_limit_us=6.0)
    case.measuring.latency(case.other("latency", "host-host"))
    case.walk.median_us = 5.5
    assert case.run(check_speed.check_latency)["the GPU adds"] == "+0.50 us"
    case.walk.median_us = 6.5
    assert case.finds(check_speed.check_latency).code == "PAIR-LATENCY-HIGH"


def test_a_rate_is_judged_by_the_largest_size() -> None:
    case = Case("bandwidth", "host-host")
    sizes = plan.BANDWIDTH_SIZES_BYTES
    case.walk.gbps = lambda asked, _: 380.0 if asked.size_bytes == sizes[-1] else 50.0
    told = case.run(check_speed.check_bandwidth)
    assert (told["64 KiB"], told["4 MiB"]) == ("50 Gb/s", "380 Gb/s")
    assert told["expected"].startswith("360 Gb/s, 0.9 of NIC rate")
    case.walk.gbps = lambda asked, _: 50.0 if asked.size_bytes == sizes[-1] else 380.0
    assert case.finds(check_speed.check_bandwidth).code == "PAIR-BANDWIDTH-LOW"


@pytest.mark.parametrize("far", ["node1", "node2"])
def test_what_was_slow_far_from_its_nic_is_no_fault_of_the_rail(far: str) -> None:
    case = Case("bandwidth", "host-host")
    healthy = cell("out").result
    assert healthy is not None
    ends = [
        replace(end, binding=f"{NO_CORE}mlx5_0 (0-3) is among those allowed" if at_far else "")
        for end in (healthy.source_report, healthy.sink_report)
        for at_far in [end.node == far]
    ]
    known = replace(healthy, source_report=ends[0], sink_report=ends[1])
    case.walk.cells[CellKey("host-host", "WRITE", "out")] = Cell(known)
    assert case.run(check_speed.check_bandwidth)["4 MiB"] == "380 Gb/s"
    case.walk.gbps = lambda _plan, _end: 50.0
    with pytest.raises(ProbeError, match=f"PAIR-BANDWIDTH-LOW.*but {far}: not bound: no core"):
        case.run(check_speed.check_bandwidth)


def test_the_factors_of_the_profile_count() -> None:
    case = Case("bandwidth", "host-host", factors={"nic_limited": 0.97})
    assert case.finds(check_speed.check_bandwidth).expected.startswith("at least 388")


def test_the_gpu_rate_is_shown_beside_that_of_host_memory() -> None:
    case = Case("bandwidth", "gpu-gpu")
    case.measuring.bandwidth(case.other("bandwidth", "host-host"))
    case.walk.gbps = lambda _asked, _end: 190.0
    case.finds(check_speed.check_bandwidth)
    assert case.told["4 MiB of host memory"] == "380 Gb/s (50 %)"


def test_a_rate_that_nobody_can_judge_is_shown() -> None:
    case = Case("bandwidth", "host-host", limits=SOFT)
    with pytest.raises(NotJudged, match=r"380 Gb/s; .*software device"):
        case.run(check_speed.check_bandwidth)


def test_an_end_that_could_not_measure_is_an_error_that_names_it() -> None:
    case = Case("bandwidth", "host-host", "in")
    case.walk.error = "the child died"
    with pytest.raises((ProbeError, PeerError), match="node2"):
        case.run(check_speed.check_bandwidth)


def test_both_ways_must_reach_what_one_must() -> None:
    case = Case("bandwidth_both_ways", "host-host")
    assert case.run(check_speed.check_bandwidth_both_ways)["out, from node1"] == "380 Gb/s"
    case.walk.gbps = lambda _, end: 380.0 if end == "source" else 100.0
    assert case.finds(check_speed.check_bandwidth_both_ways).observed == "100.0"


@pytest.mark.parametrize(("direction", "slow"), [("out", "source"), ("in", "sink")])
def test_all_rails_at_once_are_measured_once_and_judged_each_way(
    direction: Direction, slow: str
) -> None:
    case = Case("bandwidth_all_rails", "host-host", direction)
    case.walk.gbps = lambda _, end: 100.0 if end == slow else 380.0
    finding = case.finds(check_speed.check_bandwidth_all_rails)
    assert finding.where.node == case.case.source.node
    case.case = case.other(
        "bandwidth_all_rails", "host-host", "in" if direction == "out" else "out"
    )
    case.run(check_speed.check_bandwidth_all_rails)
    assert len(case.walk.asked) == 1


def test_the_way_back_is_judged_by_the_factors_of_its_own_ends() -> None:
    factors = {"pcie_limited_source": 0.5, "pcie_limited_sink": 0.78}
    case = Case("bandwidth_both_ways", "gpu-gpu", factors=factors)
    case.walk.gbps = lambda _, end: 260.0 if end == "source" else 240.0
    finding = case.finds(check_speed.check_bandwidth_both_ways)
    assert (finding.where.node, finding.observed) == ("node2", "240.0")


@pytest.mark.parametrize(
    ("mode", "shared"), [("host-host", {"shared": "a link"}), ("gpu-gpu", {"gpu_shared": "a link"})]
)
def test_rails_that_share_a_link_are_not_judged_while_all_run(
    mode: str, shared: dict[str, str]
) -> None:
    case = Case("bandwidth_all_rails", mode, limits=LIMITS.model_copy(update=shared))
    case.walk.gbps = lambda _plan, _end: 100.0
    with pytest.raises(NotJudged, match="100 Gb/s; node1: a link"):
        case.run(check_speed.check_bandwidth_all_rails)
    other = "gpu-gpu" if mode == "host-host" else "host-host"
    case.case = case.other("bandwidth_all_rails", other)
    case.finds(check_speed.check_bandwidth_all_rails)


@pytest.mark.parametrize(
    ("ruling", "error"),
    [
        (Ruling(finding=A_FINDING), Blocked),
        (Ruling(blocked_by="that"), Blocked),
        (Ruling(error="no answer"), ProbeError),
        (Ruling(), ProbeError),
    ],
)
def test_a_rail_that_was_left_out_says_why(ruling: Ruling, error: type[Exception]) -> None:
    """Also when it is the other direction that is in the way."""
    case = Case("bandwidth_all_rails", "host-host", "out")
    case.walk.left_out = True
    case.walk.told[CellKey("host-host", "WRITE", "in")] = ruling
    with pytest.raises(error):
        case.run(check_speed.check_bandwidth_all_rails)


def test_a_rail_that_is_left_out_for_something_new_is_asked_alone() -> None:
    case = Case("bandwidth_all_rails", "host-host", "in")
    case.walk.left_out, case.walk.blocked_by = True, "PORT-NOT-ACTIVE at node2/mlx5_0"
    for direction in DIRECTIONS:
        case.walk.told[CellKey("host-host", "WRITE", direction)] = Ruling()
    with pytest.raises(Blocked, match="PORT-NOT-ACTIVE at node2"):
        case.run(check_speed.check_bandwidth_all_rails)


def test_a_direct_way_that_is_no_faster_is_found() -> None:
    case = Case("staged_against_direct", "gpu-gpu")
    told = case.run(check_speed.check_staged_against_direct)
    assert told["source's NIC, direct"] == "offset 0x0"
    case.walk.direct_gbps = 90.0
    assert case.finds(check_speed.check_staged_against_direct).code == "PAIR-PEER-PATH-SLOW"


# --- perftest -------------------------------------------------------------------------------------


def test_perftest_is_asked_for_as_much_as_we_moved_and_compared() -> None:
    case = Case("perftest_bandwidth", "host-host")
    case.measuring.bandwidth(case.other("bandwidth", "host-host"))
    told = case.run(check_perftest.check_perftest_bandwidth)
    assert (told["perftest"], told["ours"]) == ("380 Gb/s", "380 Gb/s")
    asked = case.walk.asked[-1]
    assert isinstance(asked, PerftestPlan)
    assert asked == plan.perftest_bandwidth_plan(380.0)
    case.walk.perftest_gbps = 300.0
    finding = case.finds(check_perftest.check_perftest_bandwidth)
    assert finding.code == "PAIR-INSTRUMENT-DIFFERS"


def test_without_our_own_number_nothing_is_compared() -> None:
    case = Case("perftest_bandwidth", "host-host")
    with pytest.raises(NotJudged, match="ours was not measured"):
        case.run(check_perftest.check_perftest_bandwidth)


def test_instruments_are_not_compared_over_software() -> None:
    case = Case("perftest_bandwidth", "host-host", limits=SOFT)
    case.measuring.bandwidth(case.other("bandwidth", "host-host"))
    case.walk.perftest_gbps = 1.0
    with pytest.raises(NotJudged, match="software device"):
        case.run(check_perftest.check_perftest_bandwidth)


def test_latencies_stand_side_by_side() -> None:
    case = Case("perftest_latency", "host-host")
    case.measuring.latency(case.other("latency", "host-host"))
    with pytest.raises(NotJudged, match=r"perftest 2\.0 us, ours 5\.00 us"):
        case.run(check_perftest.check_perftest_latency)
    assert case.told["ours"] == "5.00 us"


# --- rdma_cm --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "memory", "method"),
    [("pinned-pinned", "pinned", "host"), ("gpu-gpu", "gpu", "dmabuf")],
)
def test_a_connection_tells_what_arrived(mode: str, memory: str, method: str) -> None:
    case = Case("rdma_cm", mode)
    told = case.run(check_rdma_cm.check_rdma_cm)
    assert case.walk.asked == [memory]
    assert "begins with 0, 2, 4, 6, 8, immediate 0x1234" in told[f"sink, by {method}"]
    assert "0x7000 given to the source's NIC" in told[f"source, by {method}"]
    assert told["notes"] == "a note"


def test_a_wrong_immediate_is_found_at_the_sink() -> None:
    case = Case("rdma_cm", "pinned-pinned")
    case.walk.immediate = 0x1235
    finding = case.finds(check_rdma_cm.check_rdma_cm)
    assert (finding.code, finding.where.node) == ("PAIR-DATA-CORRUPT", "node2")


def test_a_port_without_an_address_is_not_judged() -> None:
    case = Case("rdma_cm", "gpu-gpu")
    case.walk.cm_absent = "node2/mlx5_0 has no IP address"
    with pytest.raises(NotJudged, match="no IP address"):
        case.run(check_rdma_cm.check_rdma_cm)


# --- the plan -------------------------------------------------------------------------------------


def test_the_planned_time_leaves_out_what_is_blocked() -> None:
    case = Case("latency", "host-host")
    pair = case.case.pair

    def seconds(**changes: object) -> float:
        rail = replace(pair.rails[0], **changes)  # type: ignore[arg-type]
        text = plan_text(case.spec, "node1", (replace(pair, rails=(rail,)),))
        assert text.startswith("node2 ")
        return float(text.split()[1])

    assert seconds() > seconds(gpu_blocked_by="GPU-MISSING") > seconds(blocked_by="down") == 0
    assert plan_text(case.spec, "node1", ()) == ""
