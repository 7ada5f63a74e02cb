"""The evidence that findings of exchanges carry, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gdrcheck.mismatch import Mismatch
from gdrcheck.pairing.gids import gid_text
from gdrcheck.pairing.pairs import EndReport, ExchangeResult
from gdrcheck.transfer import ATOMICS, MODES, OPERATIONS, Mode, Operation, Role
from gdrcheck.verbs import protocol

ROLE_WORDS: Mapping[Role, str] = {
    "source": "GPU as source: the NIC reads its memory",
    "sink": "GPU as sink: the NIC writes its memory",
}


def of_exchange(result: ExchangeResult) -> dict[str, str]:
    """What the exchange was, and what each end saw of it."""
    told = {
        "mode": result.mode,
        "operation": result.operation,
        "path MTU": str(result.path_mtu),
        "registered": "; ".join(dict.fromkeys(one.text() for one in result.plan.variants)),
        f"seen by the source, {result.source_report.node}": _view(result.source_report),
        f"seen by the sink, {result.sink_report.node}": _view(result.sink_report),
    }
    for end in (result.sink_report, result.source_report):
        if end.report is not None and end.report.mismatch_variant is not None:
            told["variant"] = end.report.mismatch_variant.text()
    if result.plan.far:
        told["far"] = "messages lie beyond 2 GiB in GPU memory"
    ends = (
        (result.source_report.node, result.source_endpoint),
        (result.sink_report.node, result.sink_endpoint),
    )
    return told | of_gids({node: info for node, info in ends if info is not None})


def of_data(result: ExchangeResult) -> dict[str, str]:
    """Which message was wrong at the sink, and how; empty when it found none."""
    report = result.sink_report.report
    if report is None:
        return {}
    told: dict[str, str] = {}
    if report.mismatch is not None:
        told |= of_mismatch(report.mismatch)
    for name, value in (
        ("message bytes", report.mismatch_size_bytes),
        ("iteration", report.mismatch_iteration),
        ("guard", report.guard_broken),
        ("GPU against CPU", report.verdicts_differ),
    ):
        if value is not None:
            told[name] = str(value)
    return told


def of_mismatch(wrong: Mismatch) -> dict[str, str]:
    """Which bytes of a message were wrong, and how."""
    return {
        "first wrong offset": str(wrong.first_bad_offset),
        "wrong bytes": str(wrong.bad_bytes),
        "excerpt offset": str(wrong.excerpt_offset),
        "expected": wrong.expected_hex,
        "received": wrong.got_hex,
        "looks like": wrong.looks_like,
    }


def of_gids(endpoints: Mapping[str, protocol.EndpointInfo]) -> dict[str, str]:
    """The GIDs that the ends told each other, by node."""
    if not endpoints:
        return {}
    return {"gids": "; ".join(f"{node}: {gid_text(info)}" for node, info in endpoints.items())}


def listed(cells: Iterable[tuple[Mode, Operation]]) -> str:
    """``gpu-host: SEND, READ; gpu-gpu: SEND``."""
    found = set(cells)
    parts = []
    for mode in MODES:
        here = [one for one in (*OPERATIONS, *ATOMICS) if (mode, one) in found]
        if here:
            parts.append(f"{mode}: {', '.join(here)}")
    return "; ".join(parts)


def _view(end: EndReport) -> str:
    if end.error is not None:
        return f"{end.error.step}: {end.error.text}"
    report = end.report
    if report is None:
        return "no report"
    parts = []
    if report.completion_error is not None:
        error = report.completion_error
        parts.append(
            f"{error.status} (vendor error {error.vendor_error:#x}) while {error.operation}, "
            f"message of {error.size_bytes} bytes, iteration {error.iteration}"
        )
    if report.mismatch is not None:
        parts.append("wrong data")
    if report.guard_broken is not None:
        parts.append("broken guard")
    if report.verdicts_differ is not None:
        parts.append("GPU and CPU disagree")
    if report.source_changed is not None:
        parts.append(f"own memory changed: {report.source_changed}")
    if report.stopped_by_peer:
        parts.append("stopped by the other end")
    if report.port_state is not None and report.port_state != "ACTIVE":
        parts.append(f"port {report.port_state}")
    return ", ".join(parts) or ("completed" if report.completed else "did not complete")
