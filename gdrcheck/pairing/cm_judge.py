"""What an exchange by rdma_cm shows. Pure."""

from __future__ import annotations

from gdrcheck.findings.model import Finding
from gdrcheck.mismatch import Mismatch
from gdrcheck.outcome import ProbeError
from gdrcheck.pairing.cm import CmExchange
from gdrcheck.pairing.judge import at, completion_finding
from gdrcheck.pairing.pairs import RailEnd
from gdrcheck.transfer import Memory
from gdrcheck.verbs.cm_protocol import IMMEDIATE, CmMessage, CmReport


def judge_cm(exchange: CmExchange) -> Finding | None:
    """The finding of an exchange, None when all was right.

    Wrong data comes first, nothing excuses it; then a completion with an error. ProbeError when
    neither was seen and it did not complete all the same.
    """
    rail, direction = exchange.rail, exchange.direction
    source, sink = rail.source(direction), rail.sink(direction)
    for message in exchange.sink.messages:
        if found := _wrong(exchange, message, sink, source):
            return found
    for report, end, other in (
        (exchange.source, source, sink),
        (exchange.sink, sink, source),
    ):
        if report.completion_error is not None:
            where = at(end, other, _memory(report))
            return completion_finding(report.completion_error, where, _told(exchange))
    if exchange.completed:
        return None
    raise ProbeError(
        f"{source.node} sent {len(exchange.source.messages)} of {exchange.planned} messages, "
        f"{sink.node} verified {len(exchange.sink.messages)}: the rest was not measured",
        step="rdma_cm",
    )


def _wrong(
    exchange: CmExchange, message: CmMessage, sink: RailEnd, source: RailEnd
) -> Finding | None:
    if not message.wrong:
        return None
    code, expected = "PAIR-DATA-CORRUPT", "the numbers 0, 2, 4, ... and the immediate 0x1234"
    seen = message.by_cpu or message.by_gpu
    # Of pinned memory the CPU sees what the GPU does not, if one of them has an old copy.
    if message.by_gpu != message.by_cpu:
        code, expected = "PAIR-VERDICTS-DIFFER", "GPU and CPU find the same in the same bytes"
    return Finding(
        code=code,
        where=at(sink, source, _memory(exchange.sink)),
        observed=message.wrong,
        expected=expected,
        evidence={
            **_told(exchange),
            "method": message.method,
            "immediate": f"{message.immediate:#x}" if message.immediate is not None else "none",
            "first numbers": ", ".join(str(number) for number in message.first),
            **(_bytes(seen) if seen else {}),
        },
    )


def _bytes(wrong: Mismatch) -> dict[str, str]:
    return {
        "first wrong offset": str(wrong.first_bad_offset),
        "wrong bytes": str(wrong.bad_bytes),
        "expected": wrong.expected_hex,
        "received": wrong.got_hex,
        "looks like": wrong.looks_like,
    }


def _told(exchange: CmExchange) -> dict[str, str]:
    return {
        "path": "rdma_cm, SEND_WITH_IMM",
        "memory": f"{exchange.memory} memory at both ends",
        "sent": ", ".join(_sent(message) for message in exchange.source.messages) or "nothing",
    }


def _sent(message: CmMessage) -> str:
    return f"{IMMEDIATE:#x} by {message.method} from {message.address:#x}"


def _memory(report: CmReport) -> Memory:
    return "gpu" if report.memory == "gpu" else "host"
