"""The findings of completions with an error, and of measurements that went wrong. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gdrcheck.findings.model import Finding, Where
from gdrcheck.mismatch import Mismatch
from gdrcheck.outcome import ProbeError
from gdrcheck.pairing import evidence
from gdrcheck.pairing.pairs import RailEnd, RailPair
from gdrcheck.pairing.reports import End, StagedReport, TimedReport
from gdrcheck.transfer import Direction, Memory, Mode, memory_of
from gdrcheck.verbs import protocol

FLUSHED = "WR_FLUSH_ERR"
# Statuses that tell of packets or answers that did not come, and nothing of who is at fault; those
# that say most come first. ibv_poll_cq(3); WR_FLUSH_ERR is the consequence of another error.
TRANSPORT = (
    *("RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "RESP_TIMEOUT_ERR", "BAD_RESP_ERR", "GENERAL_ERR"),
    *(FLUSHED, protocol.DEADLINE),
)
# A call of the library or of CUDA failed: that end could not do its part of the measurement.
CALL_FAILED = "CALL_FAILED"


@dataclass(frozen=True, slots=True)
class Complaint:
    """The completion that says most of those of both ends: a refusal, then exhausted retries.

    ``named``: the nodes that refusals complain of. ``end``: the one of them, if it is one; else
    where the completion was seen.
    """

    error: protocol.CompletionError
    end: RailEnd
    named: frozenset[str]

    @property
    def silent(self) -> bool:
        """Whether it tells only that packets or answers did not come."""
        return not self.named and self.error.status in TRANSPORT


def complaint(
    rail: RailPair, errors: Sequence[tuple[RailEnd, protocol.CompletionError | None]]
) -> Complaint | None:
    """What the completions of both ends come to; None when neither has an error."""
    found = [(end, error) for end, error in errors if error is not None]
    if not found:
        return None
    named = frozenset(filter(None, (_named(error.status, end, rail) for end, error in found)))
    named = named or _flushed_alone(found)
    end, error = min(found, key=lambda one: _weight(one[1].status))
    return Complaint(error, rail.end(next(iter(named))) if len(named) == 1 else end, named)


def completion_finding(
    error: protocol.CompletionError, where: Where, told: dict[str, str]
) -> Finding:
    """PAIR-RETRY-EXCEEDED or PAIR-COMPLETION for a completion with an error, or none in time."""
    code = "PAIR-RETRY-EXCEEDED" if error.status == "RETRY_EXC_ERR" else "PAIR-COMPLETION"
    return Finding(
        code=code,
        where=where,
        observed=f"{error.status} while {error.operation}: {error.text}",
        expected="successful completions",
        evidence={
            "status": error.status,
            "vendor error": f"{error.vendor_error:#x}",
            "message bytes": str(error.size_bytes),
            "iteration": str(error.iteration),
            **told,
        },
    )


def mismatch_text(wrong: Mismatch) -> str:
    """``0f (first wrong byte at offset 4095, 1 wrong, looks like nothing known)``."""
    return (
        f"{wrong.got_hex} (first wrong byte at offset {wrong.first_bad_offset}, "
        f"{wrong.bad_bytes} wrong, looks like {wrong.origin})"
    )


def at(end: RailEnd, other: RailEnd, memory: Memory = "gpu") -> Where:
    """The place of ``end``, with the other node as its peer: no GPU where host memory was used."""
    where = end.where if memory == "gpu" else end.port
    return where.model_copy(update={"peer": other.node})


def judge_timed(report: TimedReport, rail: RailPair) -> Finding | None:
    """The finding of a measurement; None when its data was right and it has its numbers.

    ProbeError, naming node and step, when it was not measured as planned.
    """
    plan = report.plan
    words = f"{plan.kind}, {plan.mode}, {plan.size_bytes} bytes"
    finding = _judged(rail, report.direction, plan.mode, words, (report.source, report.sink))
    if finding is not None:
        return finding
    _require_completed(words, report.source, report.sink)
    for end in (report.source, report.sink):
        found = end.report
        if found and (found.kind, found.size_bytes) != (plan.kind, plan.size_bytes):
            raise ProbeError(f"{end.node}: the report is of something else", step=words)
    for end in (report.source, report.sink) if plan.both_ways else (report.source,):
        found = end.report
        value = None if found is None else found.median_us if plan.kind == "latency" else found.gbps
        if found is None or not value or found.iterations < plan.iterations:
            raise ProbeError(f"{end.node}: fewer messages than planned, or no number", step=words)
    return None


def judge_staged(report: StagedReport, rail: RailPair) -> Finding | None:
    """The finding of a comparison; None when both ways' data was right and both have numbers.

    ProbeError, naming node and step, when it was not measured as planned.
    """
    words = f"staged against direct, {report.plan.size_bytes} bytes"
    finding = _judged(rail, report.direction, "gpu-gpu", words, (report.source, report.sink))
    if finding is not None:
        return finding
    _require_completed(words, report.source, report.sink)
    numbers = report.source.report
    if numbers is None or numbers.staged is None or numbers.direct is None:
        raise ProbeError(f"{report.source.node}: no numbers", step=words)
    return None


Measured = protocol.TimedResult | protocol.StagedResult
Ends = End[protocol.TimedResult] | End[protocol.StagedResult]


def _judged(
    rail: RailPair,
    direction: Direction,
    mode: Mode,
    words: str,
    ends: tuple[Ends, Ends],
) -> Finding | None:
    """Wrong data, then a completion with an error; at whichever end. Either may be a sink."""
    told = {"measurement": words}
    source, sink = rail.source(direction), rail.sink(direction)
    for said, end, other, memory in (
        (ends[1], sink, source, memory_of(mode, "sink")),
        (ends[0], source, sink, memory_of(mode, "source")),
    ):
        found = said.report
        if found is not None and (found.mismatch is not None or found.guard_broken is not None):
            return _wrong(found, at(end, other, memory), told)
    errors = [
        (end, said.report.completion_error if said.report else None)
        for said, end in zip(ends, (source, sink), strict=True)
    ]
    for end, error in errors:
        if error is not None and error.status == CALL_FAILED:
            raise ProbeError(f"{end.node}: {error.operation}: {error.text}", step=words)
    worst = complaint(rail, errors)
    if worst is None or (worst.silent and any(said.report is None for said in ends)):
        return None
    other = rail.remote if worst.end is rail.local else rail.local
    memory = memory_of(mode, "source" if worst.end is source else "sink")
    return completion_finding(worst.error, at(worst.end, other, memory), told)


def _wrong(found: Measured, where: Where, told: dict[str, str]) -> Finding:
    if isinstance(found, protocol.StagedResult) and found.wrong_way is not None:
        told = {**told, "way": found.wrong_way}
    if found.mismatch is None:
        return Finding(
            code="PAIR-GUARD-BROKEN",
            where=where,
            observed=found.guard_broken or "",
            expected="guard bytes unchanged",
            evidence=told,
        )
    return Finding(
        code="PAIR-DATA-CORRUPT",
        where=where,
        observed=mismatch_text(found.mismatch),
        expected=found.mismatch.expected_hex,
        evidence=told | evidence.of_mismatch(found.mismatch),
    )


def _require_completed(words: str, *ends: Ends) -> None:
    """ProbeError naming the end that did not complete; first one that has no report at all."""
    for end in sorted(ends, key=lambda one: one.report is not None):
        if end.report is None or not end.report.completed:
            raise ProbeError(f"{end.node}: {end.error or 'did not complete'}", step=words)


def _weight(status: str) -> int:
    return TRANSPORT.index(status) + 1 if status in TRANSPORT else 0


def _flushed_alone(
    found: Sequence[tuple[RailEnd, protocol.CompletionError]],
) -> frozenset[str]:
    """The end whose queue pair went into error while the other one only waited for it.

    Where the work request that failed is flushed with the others its own status is lost: rxe does
    that (rxe_comp.c, flush_send_queue) with what fails before a packet has left.
    """
    nodes = {error.status: end.node for end, error in found}
    if set(nodes) == {FLUSHED, protocol.DEADLINE}:
        return frozenset({nodes[FLUSHED]})
    return frozenset()


def _named(status: str, end: RailEnd, rail: RailPair) -> str | None:
    """The node that a status got at ``end`` complains of; None when it tells nothing."""
    if status in TRANSPORT or status == CALL_FAILED:
        return None
    other = rail.remote if end is rail.local else rail.local
    return other.node if status.startswith("REM_") else end.node
