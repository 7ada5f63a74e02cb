"""What is judged of speeds: each against the least of what bounds it, by the profile's factor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.outcome import NotJudged
from gdrcheck.profile import Factors
from gdrcheck.rules.alike import Readings
from gdrcheck.transfer import EndLimits, Mode, Role, memory_of

# From here on the fixed cost of a message is small beside its bytes.
LARGE_BYTES = 1 << 20
# Two instruments on one path: our loop and perftest's differ by less when both are well.
INSTRUMENT_SHARE = 0.10
NO_MORE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Expected:
    """The least rate that passes, in Gb/s (bits): ``limit_gbps`` of ``limited_by`` x ``factor``.

    ``limited_by``: ``NIC rate at the source, 400 Gb/s``. ``causes``: what the facts know that can
    make the way to GPU memory slow.
    """

    gbps: float
    limited_by: str
    factor: float
    limit_gbps: float
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ways:
    """One size moved twice: by copies through host memory, and directly."""

    size_bytes: int
    staged_gbps: float
    direct_gbps: float


def expected(mode: Mode, source: EndLimits, sink: EndLimits, factors: Factors) -> Expected:
    """What a transfer of ``mode`` must reach: the least of what each element bounds, each times its
    factor, since a PCIe link carries less of its rate than a port does.

    NotJudged with the reason when an end may not be judged, or an element's rate is unknown: what
    is bounded by less than is known would be a false alarm.
    """
    _require_judged(mode, source, sink)
    found = [
        one for role in ROLES for one in _elements(mode, role, _end(role, source, sink), factors)
    ]
    least = min(found, key=lambda one: one.gbps)
    return Expected(
        gbps=least.gbps,
        limited_by=least.limited_by,
        factor=least.factor,
        limit_gbps=least.limit_gbps,
        causes=_causes(mode, source, sink),
    )


def low_bandwidth(
    where: Where, measured_gbps: float, wanted: Expected, evidence: Mapping[str, str] = NO_MORE
) -> Finding | None:
    """PAIR-BANDWIDTH-LOW when ``measured_gbps`` does not reach ``wanted``."""
    if measured_gbps >= wanted.gbps:
        return None
    told = {"limited by": wanted.limited_by, "factor": f"{wanted.factor:g}", **evidence}
    if wanted.causes:
        told["may be slowed by"] = "; ".join(wanted.causes)
    return Finding(
        code="PAIR-BANDWIDTH-LOW",
        where=where,
        observed=f"{measured_gbps:.1f}",
        expected=f"at least {wanted.gbps:.1f} ({wanted.factor:g} of {wanted.limited_by})",
        unit="Gb/s",
        evidence=told,
    )


def slow_peer_path(
    where: Where, ways: Sequence[Ways], source: EndLimits, sink: EndLimits
) -> Finding | None:
    """PAIR-PEER-PATH-SLOW when the largest size of 1 MiB or more is no faster directly than by
    copies through host memory.

    NotJudged, with the numbers, when an end may not be judged or no size is large enough.
    """
    numbers = "; ".join(
        f"{one.size_bytes} bytes: direct {one.direct_gbps:.2f} Gb/s, "
        f"staged {one.staged_gbps:.2f} Gb/s"
        for one in ways
    )
    _require_judged("gpu-gpu", source, sink, numbers)
    large = [one for one in ways if one.size_bytes >= LARGE_BYTES]
    if not large:
        raise NotJudged(f"no size of {LARGE_BYTES} bytes or more was compared; {numbers}")
    largest = max(large, key=lambda one: one.size_bytes)
    if largest.direct_gbps > largest.staged_gbps:
        return None
    causes = _causes("gpu-gpu", source, sink)
    return Finding(
        code="PAIR-PEER-PATH-SLOW",
        where=where,
        observed=f"{largest.direct_gbps:.1f} directly, with messages of {largest.size_bytes} bytes",
        expected=f"more than {largest.staged_gbps:.1f} by copies through host memory",
        unit="Gb/s",
        evidence={
            "all sizes": numbers,
            "may be slowed by": "; ".join(causes) or "nothing that the facts know of",
            "distance": f"source {source.distance or 'unknown'}, sink {sink.distance or 'unknown'}",
        },
    )


def high_latency(
    where: Where, median_us: float, limit_us: float | None, evidence: Mapping[str, str] = NO_MORE
) -> Finding | None:
    """PAIR-LATENCY-HIGH above the profile's ``latency_limit_us``. NotJudged when it has none."""
    if limit_us is None:
        raise NotJudged(
            f"median {median_us:.2f} us; the profile promises no latency (latency_limit_us)"
        )
    if median_us <= limit_us:
        return None
    return Finding(
        code="PAIR-LATENCY-HIGH",
        where=where,
        observed=f"{median_us:.2f}",
        expected=f"at most {limit_us:g}",
        unit="us",
        evidence=dict(evidence),
    )


def instrument_differs(
    where: Where, ours_gbps: float, perftest_gbps: float, evidence: Mapping[str, str] = NO_MORE
) -> Finding | None:
    """PAIR-INSTRUMENT-DIFFERS, a warning, when our bandwidth is not within a tenth of perftest's.

    A fault of the measurement, not of the pair: one of the two does not fill the path.
    """
    if abs(ours_gbps - perftest_gbps) <= INSTRUMENT_SHARE * perftest_gbps:
        return None
    return Finding(
        code="PAIR-INSTRUMENT-DIFFERS",
        where=where,
        observed=f"{ours_gbps:.2f} by our loop, {perftest_gbps:.2f} by perftest",
        expected=f"within {INSTRUMENT_SHARE:.0%} of each other",
        unit="Gb/s",
        severity=Severity.WARN,
        evidence=dict(evidence),
    )


def mtu_differs(first: Where, first_bytes: int, other: Where, other_bytes: int) -> Finding | None:
    """PORT-MTU-DIFFERS when the active MTUs of the two ports of a rail are not the same.

    In the words of ``differences.rail_mtu`` for two nodes, so that a report shows it once.
    """
    if first_bytes == other_bytes:
        return None
    readings = Readings()
    for where, value in ((first, first_bytes), (other, other_bytes)):
        readings.add(where.model_copy(update={"peer": None}), str(value))
    return Finding(
        code="PORT-MTU-DIFFERS",
        where=first.model_copy(update={"peer": other.node}),
        observed=readings.told(),
        expected="the same at all ends",
    )


ROLES: tuple[Role, ...] = ("source", "sink")


def _end(role: Role, source: EndLimits, sink: EndLimits) -> EndLimits:
    return source if role == "source" else sink


def _require_judged(mode: Mode, source: EndLimits, sink: EndLimits, numbers: str = "") -> None:
    for role in ROLES:
        end = _end(role, source, sink)
        with_gpu = memory_of(mode, role) == "gpu"
        reason = end.not_judged or (end.gpu_not_judged if with_gpu else "")
        if reason:
            raise NotJudged("; ".join(filter(None, (f"{role}: {reason}", numbers))))


def _elements(mode: Mode, role: Role, end: EndLimits, factors: Factors) -> Iterator[Expected]:
    """What bounds the speed at one end; NotJudged for a rate that is unknown."""
    pcie = factors.pcie_limited_source if role == "source" else factors.pcie_limited_sink
    elements = [
        ("NIC rate", end.nic_rate_gbps, factors.nic_limited),
        ("PCIe link of the NIC", end.nic_link_gbps, pcie),
    ]
    if memory_of(mode, role) == "gpu":
        elements.append(("PCIe link of the GPU", end.gpu_link_gbps, pcie))
    for name, limit_gbps, factor in elements:
        if limit_gbps is None:
            raise NotJudged(f"{name} at the {role} is unknown")
        words = f"{name} at the {role}, {limit_gbps:g} Gb/s"
        yield Expected(limit_gbps * factor, words, factor, limit_gbps)


def _causes(mode: Mode, source: EndLimits, sink: EndLimits) -> tuple[str, ...]:
    return tuple(
        f"{role}: {cause}"
        for role in ROLES
        if memory_of(mode, role) == "gpu"
        for cause in _end(role, source, sink).slow_causes
    )
