"""What was measured between two nodes, in words: the properties of a case. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdrcheck.pairing.cm import CmExchange
from gdrcheck.pairing.pairs import ExchangeResult
from gdrcheck.pairing.reports import LOOP, StagedReport, TimedReport
from gdrcheck.pairing.table import Cell
from gdrcheck.pairing.tools import PerftestNumbers
from gdrcheck.sizes import size_text
from gdrcheck.verbs.cm_protocol import CmMessage
from gdrcheck.verbs.protocol import StagedWay, TimedResult

Properties = list[tuple[str, str]]


def of_cell(cell: Cell) -> Properties:
    """What was moved, by which registrations, over which path, and on which cores."""
    return list(_of_exchange(cell.result)) if cell.result is not None else []


def _of_exchange(result: ExchangeResult) -> Iterator[tuple[str, str]]:
    sink = result.sink_report.report
    if sink is not None:
        verified = sum(size.iterations_verified for size in sink.sizes)
        sizes = [size.size_bytes for size in sink.sizes if size.iterations_verified]
        reach = f" of {min(sizes)} to {max(sizes)} bytes" if sizes else ""
        yield "messages verified", f"{verified}{reach}"
    yield "memory", "; ".join(dict.fromkeys(one.text() for one in result.plan.variants))
    yield "path MTU", str(result.path_mtu)
    for role, end in (("source", result.source_report), ("sink", result.sink_report)):
        if end.binding:
            yield f"cores of the {role}", f"{end.node}: {end.binding}"


def latency(report: TimedReport, host: TimedReport | None) -> Properties:
    """Of half the round trip; ``host`` is the same loop between host memories."""
    numbers = report.source.report
    if numbers is None:
        return []
    found = [("loop", LOOP), ("size", f"{numbers.size_bytes} bytes"), *_times(numbers)]
    base = host.source.report if host is not None else None
    if base is not None and numbers.median_us is not None and base.median_us is not None:
        found.append(("the GPU adds", f"{numbers.median_us - base.median_us:+.2f} us"))
    return found


def _times(numbers: TimedResult) -> Properties:
    values = {
        "p50": numbers.median_us,
        "p99": numbers.p99_us,
        "min": numbers.min_us,
        "max": numbers.max_us,
    }
    return [(name, f"{us:.2f} us") for name, us in values.items() if us is not None]


def bandwidth(reports: Sequence[TimedReport], host: Sequence[TimedReport] = ()) -> Properties:
    """The rate of each size; ``host`` are the same measurements between host memories."""
    bases = {report.plan.size_bytes: _rate(report.source.report) for report in host}
    found = []
    for report in reports:
        size, rate = report.plan.size_bytes, _rate(report.source.report)
        if rate is None:
            continue
        found.append((size_text(size), f"{rate:.3g} Gb/s"))
        if base := bases.get(size):
            share = 100 * rate / base
            found.append((f"{size_text(size)} of host memory", f"{base:.3g} Gb/s ({share:.0f} %)"))
    plan = reports[-1].plan if reports else None
    return [*found, ("queue pairs", str(plan.queue_pairs))] if plan is not None else []


def both_ways(report: TimedReport) -> Properties:
    """The rates of both ways at once."""
    ends = (("out", report.source), ("back", report.sink))
    return [
        (f"{way}, from {end.node}", f"{rate:.3g} Gb/s")
        for way, end in ends
        if (rate := _rate(end.report)) is not None
    ]


def _rate(numbers: TimedResult | None) -> float | None:
    return numbers.gbps if numbers is not None else None


def staged(report: StagedReport) -> Properties:
    """Both ways of one size, and what each NIC was given."""
    numbers, sink = report.source.report, report.sink.report
    if numbers is None:
        return []
    size = size_text(report.plan.size_bytes)
    found = [
        (f"{size} {name}", _way(way))
        for name, way in (("staged", numbers.staged), ("direct", numbers.direct))
        if way is not None
    ]
    ends = (("source", numbers), ("sink", sink))
    for role, end in ends:
        if end is not None:
            found.append((f"{role}'s NIC, staged", end.staged_address))
            found.append((f"{role}'s NIC, direct", end.direct_address))
    return found


def _way(way: StagedWay) -> str:
    copies = f", {way.copy_us:.1f} us of it copies" if way.copy_us else ""
    return f"{way.median_us:.1f} us, {way.gbps:.3g} Gb/s{copies}"


def perftest(numbers: PerftestNumbers) -> Properties:
    """perftest's figures, and how it was called."""
    values = {
        "perftest": (numbers.gbps, "Gb/s"),
        "perftest p50": (numbers.typical_us, "us"),
        "perftest p99": (numbers.p99_us, "us"),
        "perftest min": (numbers.min_us, "us"),
        "perftest max": (numbers.max_us, "us"),
    }
    found = [
        (name, f"{_number(value)} {unit}")
        for name, (value, unit) in values.items()
        if value is not None
    ]
    return [*found, ("perftest size", f"{numbers.size_bytes} bytes"), ("command", numbers.command)]


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def rdma_cm(exchange: CmExchange) -> Properties:
    """What each end was given, what arrived, and what a reader must know of it."""
    found = []
    for role, end in (("source", exchange.source), ("sink", exchange.sink)):
        for message in end.messages:
            place = f"address {message.address:#x} given to the {role}'s NIC"
            found.append((f"{role}, by {message.method}", f"{place}; {_elements(message)}"))
    found.append(("numbers a message", str(exchange.sink.elements)))
    found.append(("connected in", f"{exchange.source.connect_s * 1e3:.1f} ms"))
    return [*found, ("notes", "; ".join(exchange.notes) or "none")]


def _elements(message: CmMessage) -> str:
    first = f"begins with {', '.join(map(str, message.first))}"
    immediate = "" if message.immediate is None else f", immediate {message.immediate:#x}"
    flushed = f", flushed {message.flushed}" if message.flushed else ""
    return f"{first}{immediate}{flushed}"
