"""Speeds: the element that bounds them, what is too low, and when nobody can say."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.findings.model import Severity, Where
from gdrcheck.outcome import NotJudged
from gdrcheck.profile import Factors
from gdrcheck.rules import numbers
from gdrcheck.rules.numbers import Expected, Ways
from gdrcheck.transfer import MODES, EndLimits, Mode, has_gpu, memory_of

WHERE = Where(node="a", gpu="gpu0", nic="mlx5_0", peer="b")
FACTORS = Factors()
MIB = 1 << 20


def limits(**changes: Any) -> EndLimits:
    """A 400 Gb/s NIC and a GPU, each on 16 lanes of 32 GT/s."""
    values = {"nic_rate_gbps": 400, "nic_link_gbps": 504, "gpu_link_gbps": 504, "distance": "PIX"}
    return EndLimits(**{**values, **changes})


GOOD = limits()


@pytest.mark.parametrize("mode", MODES)
def test_a_rail_whose_links_carry_more_is_bounded_by_its_nic(mode: Mode) -> None:
    wanted = numbers.expected(mode, GOOD, GOOD, FACTORS)
    assert (wanted.gbps, wanted.factor, wanted.limit_gbps) == (360, 0.90, 400)
    assert wanted.limited_by == "NIC rate at the source, 400 Gb/s"


@pytest.mark.parametrize(
    ("mode", "source", "sink", "gbps", "limited_by"),
    [
        ("host-host", GOOD, limits(nic_rate_gbps=200), 180, "NIC rate at the sink"),
        ("host-host", GOOD, limits(nic_link_gbps=252), 126, "PCIe link of the NIC at the sink"),
        ("gpu-host", limits(gpu_link_gbps=100), GOOD, 70, "PCIe link of the GPU at the source"),
        ("gpu-gpu", GOOD, limits(gpu_link_gbps=252), 126, "PCIe link of the GPU at the sink"),
        # Host memory does not pass the GPU's link.
        ("host-gpu", limits(gpu_link_gbps=8), GOOD, 252, "PCIe link of the NIC at the sink"),
    ],
)  # fmt: skip
def test_the_least_of_what_bounds_either_end_is_named(
    mode: Mode, source: EndLimits, sink: EndLimits, gbps: float, limited_by: str
) -> None:
    factors = Factors(nic_limited=0.9, pcie_limited_source=0.7, pcie_limited_sink=0.5)
    wanted = numbers.expected(mode, source, sink, factors)
    assert wanted.gbps == pytest.approx(gbps)
    assert wanted.limited_by.startswith(limited_by)


@pytest.mark.parametrize("name", ["nic_rate_gbps", "nic_link_gbps", "gpu_link_gbps"])
@pytest.mark.parametrize("mode", MODES)
def test_a_rate_that_is_unknown_is_not_judged(mode: Mode, name: str) -> None:
    source = limits(**{name: None})
    if name == "gpu_link_gbps" and memory_of(mode, "source") == "host":
        assert numbers.expected(mode, source, GOOD, FACTORS).gbps == 360
        return
    with pytest.raises(NotJudged, match="at the source is unknown"):
        numbers.expected(mode, source, GOOD, FACTORS)


@pytest.mark.parametrize("mode", MODES)
def test_an_end_that_may_not_be_judged_says_why(mode: Mode) -> None:
    with pytest.raises(NotJudged, match="sink: a software device"):
        numbers.expected(mode, GOOD, limits(not_judged="a software device"), FACTORS)
    emulated = limits(gpu_not_judged="EMULATED")
    if not has_gpu(mode):
        assert numbers.expected(mode, emulated, emulated, FACTORS)
        return
    with pytest.raises(NotJudged, match="EMULATED"):
        numbers.expected(mode, emulated, emulated, FACTORS)


RATES = st.floats(min_value=1, max_value=1000)


@given(RATES, RATES, RATES, RATES, RATES, RATES, st.sampled_from(MODES))
def test_nothing_is_expected_that_an_element_cannot_carry(
    one: float, two: float, three: float, four: float, five: float, six: float, mode: Mode
) -> None:
    source = limits(nic_rate_gbps=one, nic_link_gbps=two, gpu_link_gbps=three)
    sink = limits(nic_rate_gbps=four, nic_link_gbps=five, gpu_link_gbps=six)
    wanted = numbers.expected(mode, source, sink, FACTORS)
    assert 0 < wanted.gbps < min(one, two, four, five)
    assert wanted.gbps == pytest.approx(wanted.limit_gbps * wanted.factor)


WANTED = Expected(360, "NIC rate at the source, 400 Gb/s", 0.9, 400, ("sink: ACS redirect on x",))


@pytest.mark.parametrize("gbps", [360, 361.5, 400])
def test_a_rate_that_reaches_what_is_expected_has_no_finding(gbps: float) -> None:
    assert numbers.low_bandwidth(WHERE, gbps, WANTED) is None


@pytest.mark.parametrize("gbps", [359.9, 11, 0, math.nan])
def test_a_low_rate_names_the_element_and_what_may_slow_it(gbps: float) -> None:
    finding = numbers.low_bandwidth(WHERE, gbps, WANTED, {"host memory": "380 Gb/s"})
    assert finding is not None
    assert (finding.code, finding.unit) == ("PAIR-BANDWIDTH-LOW", "Gb/s")
    assert finding.evidence == {
        "limited by": "NIC rate at the source, 400 Gb/s",
        "factor": "0.9",
        "host memory": "380 Gb/s",
        "may be slowed by": "sink: ACS redirect on x",
    }


SLOW = limits(slow_causes=("ACS redirect on 0000:01:00.0",), distance="SYS")


def test_causes_are_those_of_ends_whose_gpu_takes_part() -> None:
    assert numbers.expected("gpu-host", SLOW, SLOW, FACTORS).causes == (
        "source: ACS redirect on 0000:01:00.0",
    )
    assert numbers.expected("host-host", SLOW, SLOW, FACTORS).causes == ()


def test_a_direct_way_that_is_faster_for_the_largest_size_has_no_finding() -> None:
    ways = (Ways(MIB, 90, 80), Ways(4 * MIB, 90, 350))
    assert numbers.slow_peer_path(WHERE, ways, GOOD, GOOD) is None


@pytest.mark.parametrize("direct", [90.0, 89.0, 0.0, math.nan])
def test_a_direct_way_that_is_no_faster_is_found_with_what_the_facts_know(direct: float) -> None:
    ways = (Ways(4 * MIB, 90, direct), Ways(65536, 1, 100))
    finding = numbers.slow_peer_path(WHERE, ways, SLOW, GOOD)
    assert finding is not None
    assert finding.code == "PAIR-PEER-PATH-SLOW"
    assert "source: ACS redirect" in finding.evidence["may be slowed by"]
    assert finding.evidence["distance"] == "source SYS, sink PIX"
    assert "65536 bytes" in finding.evidence["all sizes"]


@pytest.mark.parametrize(
    ("ways", "source"),
    [
        ((Ways(MIB, 90, 80),), limits(gpu_not_judged="EMULATED")),
        ((Ways(MIB, 90, 80),), limits(not_judged="a software device")),
        ((Ways(MIB - 1, 90, 80),), GOOD),
        ((), GOOD),
    ],
)
def test_ways_that_may_not_be_judged_are_shown(ways: tuple[Ways, ...], source: EndLimits) -> None:
    with pytest.raises(NotJudged) as raised:
        numbers.slow_peer_path(WHERE, ways, source, GOOD)
    assert all(f"{way.size_bytes} bytes: direct 80.00 Gb/s" in str(raised.value) for way in ways)


def test_latency_is_judged_by_the_profile_alone() -> None:
    assert numbers.high_latency(WHERE, 5.0, 5.0) is None
    with pytest.raises(NotJudged, match=r"5\.00 us"):
        numbers.high_latency(WHERE, 5.0, None)
    for median_us in (5.01, math.nan):
        finding = numbers.high_latency(WHERE, median_us, 5.0, {"p99": "9 us"})
        assert finding is not None
        assert (finding.code, finding.unit) == ("PAIR-LATENCY-HIGH", "us")
        assert finding.evidence == {"p99": "9 us"}


@pytest.mark.parametrize(("ours", "theirs"), [(90, 100), (110, 100), (100, 100)])
def test_instruments_that_agree_within_a_tenth(ours: float, theirs: float) -> None:
    assert numbers.instrument_differs(WHERE, ours, theirs) is None


@pytest.mark.parametrize(("ours", "theirs"), [(89, 100), (111, 100), (1, 0), (math.nan, 100)])
def test_instruments_that_do_not_agree_are_a_warning(ours: float, theirs: float) -> None:
    finding = numbers.instrument_differs(WHERE, ours, theirs)
    assert finding is not None
    assert finding.code == "PAIR-INSTRUMENT-DIFFERS"
    assert finding.severity is Severity.WARN


def test_two_mtus_of_a_rail() -> None:
    one, other = Where(node="a", nic="rxe0"), Where(node="b", nic="rxe0", peer="a")
    assert numbers.mtu_differs(one, 4096, other, 4096) is None
    finding = numbers.mtu_differs(one, 4096, other, 1024)
    assert finding is not None
    assert finding.where.text() == "a/rxe0 (with b)"
    assert finding.observed == "4096 at a/rxe0; 1024 at b/rxe0"
    assert finding.severity is Severity.FAIL
