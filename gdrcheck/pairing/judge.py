"""What an exchange proves: nothing wrong, a finding, or that it could not be measured. Pure."""

from __future__ import annotations

import errno

from gdrcheck import gates
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import ProbeError
from gdrcheck.pairing.channel import EndFailure
from gdrcheck.pairing.pairs import EndReport, ExchangeResult, RailEnd, RailPair
from gdrcheck.verbs import protocol


def judge(result: ExchangeResult, pair: RailPair) -> Finding | None:
    """The finding of an exchange, or None when every byte of every message was right.

    Wrong data, which only a sink can see, comes first: nothing excuses it. A port that went down
    explains everything else; then come completions with an error, at the end that got them.
    ProbeError when the exchange did not complete and neither end says why.
    """
    if result.completed:
        return None
    source, sink = pair.source(result.direction), pair.sink(result.direction)
    return (
        _wrong_data(result, source, sink)
        or _port_down(result.source_report, source)
        or _port_down(result.sink_report, sink)
        or _completion(result.source_report, source, sink)
        or _completion(result.sink_report, sink, source)
        or _unmeasured(result)
    )


def judge_connection(failure: EndFailure, pair: RailPair) -> Finding | None:
    """The finding of an end that could not connect; None if that was not what it failed at.

    An end whose child hangs or dies has measured nothing, so that is no finding.
    """
    error = failure.error
    ends = {pair.local.node: (pair.local, pair.remote), pair.remote.node: (pair.remote, pair.local)}
    if error is None or failure.side not in ends:
        return None
    end, other = ends[failure.side]
    if error.step == protocol.MTU_HERE:
        return _mtu(end.where, failure, error)
    if error.step == protocol.MTU_THERE:
        return _mtu(_at(other, end), failure, error)
    if error.errno is not None and error.step.startswith(protocol.MODIFY_QP):
        return Finding(
            code="PAIR-CONNECT-FAILED",
            where=_at(end, other),
            observed=error.text,
            expected="the queue pair changes its state",
            evidence={
                "said by": failure.side,
                "step": error.step,
                "errno": errno.errorcode.get(error.errno, str(error.errno)),
            },
        )
    return None


def unstable(first: Finding, where: Where) -> Finding:
    """PAIR-UNSTABLE: ``first`` was found, and the same exchange measured again was right."""
    return Finding(
        code="PAIR-UNSTABLE",
        where=where,
        observed=f"first {first.code} ({first.observed}), then right",
        expected="the same result twice",
        evidence={**first.evidence, "first finding": first.text()},
    )


def _mtu(where: Where, failure: EndFailure, error: protocol.ErrorInfo) -> Finding:
    return Finding(
        code="PAIR-MTU",
        where=where,
        observed=error.text,
        expected="a port that can do the path MTU of the profile",
        evidence={"said by": failure.side},
    )


def _port_down(report: EndReport, end: RailEnd) -> Finding | None:
    state = report.report.port_state if report.report else None
    return None if state is None else gates.port_went_down(end.port, state)


def _wrong_data(result: ExchangeResult, source: RailEnd, sink: RailEnd) -> Finding | None:
    report = result.sink_report.report
    if report is None:
        return None
    evidence = {"operation": result.operation, "path MTU": str(result.path_mtu)}
    if report.mismatch is not None:
        wrong = report.mismatch
        evidence |= {
            "message bytes": str(report.mismatch_size_bytes),
            "iteration": str(report.mismatch_iteration),
            "wrong bytes": str(wrong.bad_bytes),
            "excerpt offset": str(wrong.excerpt_offset),
            "looks like": wrong.looks_like,
        }
        return Finding(
            code="PAIR-DATA-CORRUPT",
            where=_at(sink, source),
            observed=f"{wrong.got_hex} (first wrong byte at offset {wrong.first_bad_offset})",
            expected=wrong.expected_hex,
            evidence=evidence,
        )
    if report.guard_broken is not None:
        return Finding(
            code="PAIR-GUARD-BROKEN",
            where=_at(sink, source),
            observed=report.guard_broken,
            expected="guard bytes unchanged",
            evidence=evidence,
        )
    return None


def _completion(report: EndReport, end: RailEnd, other: RailEnd) -> Finding | None:
    error = report.report.completion_error if report.report else None
    if error is None:
        return None
    code = "PAIR-RETRY-EXCEEDED" if error.status == "RETRY_EXC_ERR" else "PAIR-COMPLETION"
    return Finding(
        code=code,
        where=_at(end, other),
        observed=f"{error.status} while {error.operation}: {error.text}",
        expected="successful completions",
        evidence={
            "vendor error": f"{error.vendor_error:#x}",
            "message bytes": str(error.size_bytes),
            "iteration": str(error.iteration),
        },
    )


def _unmeasured(result: ExchangeResult) -> Finding | None:
    said = [
        f"{report.node}: {report.error.text}"
        for report in (result.source_report, result.sink_report)
        if report.error is not None
    ]
    raise ProbeError(
        "; ".join([*said, result.unverified]).strip("; ") or "the exchange did not complete",
        step=f"{result.operation} {result.direction}",
    )


def _at(end: RailEnd, other: RailEnd) -> Where:
    return Where(node=end.node, gpu=end.gpu, nic=end.nic, peer=other.node)
