"""The result in plain words: what reaches what, what is wrong and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdrcheck.commands.pingpong.report import Number, Report, ReportEnd, Transfer
from gdrcheck.commands.pingpong.trial import METHOD_WORDS
from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.results.console import EMULATED, SOFT_ROCE
from gdrcheck.show.finding import finding_lines
from gdrcheck.show.words import wrapped
from gdrcheck.sizes import size_text
from gdrcheck.transfer import DIRECTIONS, MODES, OPERATIONS, Direction, Memory, Mode, memory_of

MEMORY_WORDS: dict[Memory, str] = {"host": "host memory", "gpu": "GPU memory"}
BROKEN = (Outcome.FAILED, Outcome.ERROR, Outcome.BLOCKED)


def report_lines(report: Report) -> list[str]:
    """The lines of standard output."""
    return list(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    if report.emulated:
        yield EMULATED
    if report.software_rdma:
        yield SOFT_ROCE
    for end in (report.caller, report.listener):
        if end is not None:
            yield from wrapped(f"{end.node}: {end.about}", "")
    if report.path_mtu is not None:
        yield f"path MTU {report.path_mtu}"
    yield from _sentences(report)
    if report.numbers:
        yield from _numbers(report.numbers)
    if report.findings:
        yield "findings:"
        for finding in report.findings:
            yield from (f"  {line}" for line in finding_lines(finding))
    if report.not_measured:
        yield "not measured:"
        for sentence in report.not_measured:
            yield from wrapped(sentence)
    yield from report.notes
    yield _verdict(report)


def _verdict(report: Report) -> str:
    took = f"{report.duration_s:.0f} s"
    if report.verdict is Verdict.PASS:
        total = sum(one.messages for one in report.transfers)
        return f"PASS: {total:,} messages, every byte right, in {took}"
    if report.verdict is Verdict.FAIL:
        wrong = sum(one.outcome is Outcome.FAILED for one in report.transfers)
        count = len(report.findings)
        findings = f"{count} finding" if count == 1 else f"{count} findings"
        return f"FAIL: {findings}, {wrong} of {len(report.transfers)} transfers, in {took}"
    return f"INCOMPLETE: not everything was measured, and that is no pass, in {took}"


def _sentences(report: Report) -> Iterator[str]:
    """One for each mode and direction that was to be measured."""
    for mode in MODES:
        for direction in DIRECTIONS:
            found = [
                one for one in report.transfers if (one.mode, one.direction) == (mode, direction)
            ]
            if found and report.listener is not None:
                ends = _in_order(report.caller, report.listener, direction)
                yield from wrapped(_sentence(mode, *ends, found), "")


def _in_order(
    caller: ReportEnd, listener: ReportEnd, direction: Direction
) -> tuple[ReportEnd, ReportEnd]:
    return (caller, listener) if direction == "out" else (listener, caller)


def _sentence(mode: Mode, source: ReportEnd, sink: ReportEnd, found: Sequence[Transfer]) -> str:
    """``GPU memory of node1 reaches GPU memory of node2 by dma-buf: 690 messages, ...``."""
    here = f"{MEMORY_WORDS[memory_of(mode, 'source')]} of {source.node}"
    there = f"{MEMORY_WORDS[memory_of(mode, 'sink')]} of {sink.node}"
    by = _by(mode, source, sink)
    right = [one for one in found if one.outcome is Outcome.PASSED]
    total = sum(one.messages for one in right)
    names = [one.operation for one in right]
    only = f" ({', '.join(names)} only)" if len(right) < len(OPERATIONS) else ""
    if len(right) == len(found):
        return f"{here} reaches {there}{by}: {total:,} messages, every byte right{only}"
    if all(one.outcome in (Outcome.ERROR, Outcome.BLOCKED) for one in found):
        return f"{here} to {there}{by}: not measured: {_reasons(found)}"
    verb = "does not reach" if not right else "does not always reach"
    good = f"; right: {', '.join(names)}" if right else ""
    return f"{here} {verb} {there}{by}: {_reasons(found)}{good}"


def _reasons(found: Sequence[Transfer]) -> str:
    """``PAIR-GPU-READ at node1/gpu0/mlx5_0 (SEND, WRITE); ...``."""
    operations: dict[str, list[str]] = {}
    for one in found:
        if one.outcome in BROKEN:
            by = "blocked by " if one.outcome is Outcome.BLOCKED else ""
            operations.setdefault(f"{by}{one.reason}", []).append(one.operation)
    if len(operations) == 1 and all(one.outcome in BROKEN for one in found):
        return next(iter(operations))
    return "; ".join(f"{reason} ({', '.join(names)})" for reason, names in operations.items())


def _by(mode: Mode, source: ReportEnd, sink: ReportEnd) -> str:
    """By which methods the GPU memory of the mode was registered; one word when all are alike.

    Nothing when that of an end was not registered at all.
    """
    ends = ((source, memory_of(mode, "source")), (sink, memory_of(mode, "sink")))
    ways = [
        " and ".join(METHOD_WORDS[method] for method in end.methods)
        for end, memory in ends
        if memory == "gpu"
    ]
    return f" by {' to '.join(dict.fromkeys(ways))}" if ways and all(ways) else ""


def _numbers(numbers: Sequence[Number]) -> Iterator[str]:
    yield (
        "numbers: latency is half of a round trip of SEND in our loop, in Python; bandwidth is of "
        "WRITE"
    )
    for one in numbers:
        way = f"{one.mode:<9} {_node(one.source)} -> {_node(one.sink)}"
        yield f"  {way}  {size_text(one.size_bytes):>8}  {_measured(one)}"
    reasons = dict.fromkeys(
        one.reason
        for one in numbers
        if one.kind == "bandwidth" and one.outcome is Outcome.NOT_JUDGED and one.reason
    )
    yield from (line for reason in reasons for line in wrapped(f"not judged: {reason}"))


def _node(place: str) -> str:
    return place.partition("/")[0]


def _measured(one: Number) -> str:
    if one.median_us is not None and one.kind == "latency":
        p99, most = (
            f"{value:.1f}" if value is not None else "?" for value in (one.p99_us, one.max_us)
        )
        return f"latency p50 {one.median_us:.1f} us, p99 {p99} us, max {most} us"
    if one.gbps is None:
        return f"{one.kind}: {one.outcome}: {one.reason}"
    plural = "queue pair" if one.queue_pairs == 1 else "queue pairs"
    text = f"bandwidth {one.gbps:.2f} Gb/s, {one.queue_pairs} {plural}"
    if one.expected_gbps is not None:
        text += f"; expected {one.expected_gbps:.1f} ({one.limited_by})"
    return text
