"""What one try of one exchange shows by itself, before other exchanges are asked. Pure."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass, field
from typing import Literal

from gdrcheck import gates
from gdrcheck.findings.model import Finding, Where
from gdrcheck.pairing import evidence, gids
from gdrcheck.pairing.judge import (
    CALL_FAILED,
    TRANSPORT,
    at,
    complaint,
    completion_finding,
    mismatch_text,
)
from gdrcheck.pairing.pairs import EndReport, ExchangeResult, RailEnd, RailPair
from gdrcheck.pairing.table import ANNOUNCED, Cell, CellKey, Failure
from gdrcheck.transfer import Role, memory_of
from gdrcheck.verbs import protocol

# passed; data: wrong, for certain; port: it went down; refused: a status that says what was not
# allowed; transport: packets or answers did not come; connection: not connected; setup: an end is
# not as promised; error: could not be measured; blocked: not tried.
Kind = Literal[
    "passed", "data", "port", "setup", "connection", "refused", "transport", "error", "blocked"
]
# A try of these kinds is measured again: a repetition may be right.
DOUBTFUL: tuple[Kind, ...] = ("refused", "transport", "connection")
# These are findings.
WRONG: tuple[Kind, ...] = ("data", "port", "setup", *DOUBTFUL)

# States as ibv_query_port says them; else the text says why the state is unreadable.
STATE = re.compile(r"^[A-Z_]+$")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a try shows. ``finding`` is there for the kinds in ``WRONG``; ``text`` says why not
    measured, or what blocks.

    ``named``: the nodes whose memory or work the statuses complain of. ``role``: of wrong data
    whose place is known from itself, not from a comparison with other exchanges.
    """

    kind: Kind
    finding: Finding | None = None
    text: str = ""
    named: frozenset[str] = frozenset()
    role: Role | None = None
    result: ExchangeResult | None = field(default=None, repr=False)


def seen(rail: RailPair, key: CellKey, cell: Cell, *, reachable: bool = False) -> Seen:
    """What the first try of ``cell`` shows; its ``repeat`` is not looked at.

    Passed is only what both ends completed, with every message of the plan verified at the sink,
    from and to the memory that ``key`` names. ``reachable``: another exchange of the rail passed,
    so that its GIDs explain nothing.
    """
    said = [one for one in (cell.result, cell.failure, cell.blocked_by) if one is not None]
    if len(said) != 1:
        return Seen("error", text="nothing was measured" if not said else "contradictory results")
    if cell.blocked_by is not None:
        return Seen("blocked", text=cell.blocked_by)
    if cell.failure is not None:
        return _failed(rail, cell.failure, reachable)
    assert cell.result is not None
    strange = _strange(rail, key, cell.result)
    return Seen("error", text=strange) if strange else _exchanged(rail, cell.result, reachable)


def _strange(rail: RailPair, key: CellKey, result: ExchangeResult) -> str:
    """Why ``result`` is not of the exchange that ``key`` names; "" when it is."""
    if (result.mode, result.operation, result.direction) != (
        key.mode, key.operation, key.direction
    ):  # fmt: skip
        return f"the result is of {result.mode}, {result.operation}, {result.direction}"
    nodes = (rail.source(key.direction).node, rail.sink(key.direction).node)
    if (result.source_report.node, result.sink_report.node) != nodes:
        return f"the result is of other ends than {nodes[0]} -> {nodes[1]}"
    wanted = (memory_of(key.mode, "source"), memory_of(key.mode, "sink"))
    for variant in result.plan.variants:
        if (variant.source.memory, variant.sink.memory) != wanted:
            return f"the message went {variant.text()}"
    return ""


def _exchanged(rail: RailPair, result: ExchangeResult, reachable: bool) -> Seen:
    """Wrong data comes first: nothing excuses it. A port that went down explains the rest."""
    source, sink = rail.source(result.direction), rail.sink(result.direction)
    ends = ((source, sink, result.source_report), (sink, source, result.sink_report))
    found = _wrong_data(result, source, sink)
    if found is not None:
        return found
    for end, _, report in ends:
        if down := _port_down(report, end):
            return Seen("port", down, result=result)
    return _unmeasured(result) or _completion(result, rail, reachable) or _settled(result)


def _settled(result: ExchangeResult) -> Seen:
    if result.completed:
        return Seen("passed", result=result)
    texts = []
    for report in (result.source_report, result.sink_report):
        if report.report is not None and not report.report.completed:
            word = "was stopped" if report.report.stopped_by_peer else "did not complete"
            texts.append(f"{report.node} {word} and does not say why")
    if result.unverified:
        texts.append(f"{result.sink_report.node} {result.unverified}")
    return Seen("error", text="; ".join(texts) or "the exchange did not complete", result=result)


def _wrong_data(result: ExchangeResult, source: RailEnd, sink: RailEnd) -> Seen | None:
    """What is certain of itself: bytes that differ, or memory that changed."""
    here, there = result.source_report.report, result.sink_report.report
    role: Role | None
    if there is not None and there.verdicts_differ is not None:
        code, end, role, observed = "PAIR-VERDICTS-DIFFER", sink, "sink", there.verdicts_differ
        expected = "GPU and CPU find the same in the same bytes"
    elif here is not None and here.source_changed is not None:
        code, end, role, observed = "PAIR-SOURCE-CHANGED", source, "source", here.source_changed
        expected = "the source's memory stays as it was filled"
    elif there is not None and there.mismatch is not None:
        code, end, role = "PAIR-DATA-CORRUPT", sink, None
        observed, expected = mismatch_text(there.mismatch), there.mismatch.expected_hex
    elif there is not None and there.guard_broken is not None:
        code, end, role, observed = "PAIR-GUARD-BROKEN", sink, "sink", there.guard_broken
        expected = "guard bytes unchanged"
    else:
        return None
    finding = Finding(
        code=code,
        where=at(end, source if end is sink else sink, memory_of(result.mode, _role(end, source))),
        observed=observed,
        expected=expected,
        evidence=evidence.of_exchange(result) | evidence.of_data(result),
    )
    return Seen("data", finding, role=role, result=result)


def _port_down(report: EndReport, end: RailEnd) -> Finding | None:
    state = report.report.port_state if report.report else None
    if state is None or not STATE.match(state):
        return None
    return gates.port_went_down(end.port, state)


def _unmeasured(result: ExchangeResult) -> Seen | None:
    """An end that could not do its part; unless a status tells of more than its silence."""
    texts = []
    for report in (result.source_report, result.sink_report):
        error = report.report.completion_error if report.report else None
        if report.error is not None:
            texts.append(f"{report.node}: {report.error.step}: {report.error.text}")
        elif report.report is None:
            texts.append(f"{report.node}: no report of the exchange")
        elif error is not None and error.status == CALL_FAILED:
            texts.append(f"{report.node}: {error.operation}: {error.text}")
        elif error is not None and error.status not in TRANSPORT:
            return None
    return Seen("error", text="; ".join(texts), result=result) if texts else None


def _completion(result: ExchangeResult, rail: RailPair, reachable: bool) -> Seen | None:
    errors = [
        (rail.end(report.node), report.report.completion_error if report.report else None)
        for report in (result.source_report, result.sink_report)
    ]
    worst = complaint(rail, errors)
    if worst is None:
        return None
    other = rail.remote if worst.end is rail.local else rail.local
    role = _role(worst.end, rail.source(result.direction))
    where = at(worst.end, other, memory_of(result.mode, role))
    finding = completion_finding(worst.error, where, evidence.of_exchange(result))
    if not worst.silent:
        return Seen("refused", finding, named=worst.named, result=result)
    odd = None if reachable else _gid_mismatch(rail, _endpoints(result), finding)
    return Seen("connection" if odd else "transport", odd or finding, result=result)


# --- not connected --------------------------------------------------------------------------------


def _failed(rail: RailPair, failure: Failure, reachable: bool) -> Seen:
    # Many texts name side and step themselves.
    words = [one for one in (failure.side, failure.step) if one not in failure.text]
    text = ": ".join((*words, failure.text))
    error = failure.error
    if error is None or failure.side not in (rail.local.node, rail.remote.node):
        return Seen("error", text=text)
    end = rail.end(failure.side)
    other = rail.remote if end is rail.local else rail.local
    if error.step == ANNOUNCED:
        return Seen("setup", _announced(end, other, error))
    if error.step == protocol.MTU_HERE:
        return Seen("setup", _mtu(end.port, failure, error))
    if error.step == protocol.MTU_THERE:
        where = other.port.model_copy(update={"peer": end.node})
        return Seen("setup", _mtu(where, failure, error))
    if error.errno is None or not error.step.startswith(protocol.MODIFY_QP):
        return Seen("error", text=text)
    finding = Finding(
        code="PAIR-CONNECT-FAILED",
        where=end.port.model_copy(update={"peer": other.node}),
        observed=error.text,
        expected="the queue pair changes its state",
        evidence={
            "said by": failure.side,
            "step": error.step,
            "errno": errno.errorcode.get(error.errno, str(error.errno)),
            **evidence.of_gids(failure.endpoints),
        },
    )
    odd = None if reachable else _gid_mismatch(rail, dict(failure.endpoints), finding)
    return Seen("connection", odd or finding)


def _announced(end: RailEnd, other: RailEnd, error: protocol.ErrorInfo) -> Finding:
    return Finding(
        code="PAIR-END-DEVIATES",
        where=at(end, other),
        observed=error.text,
        expected="memory regions that hold the planned messages",
    )


def _mtu(where: Where, failure: Failure, error: protocol.ErrorInfo) -> Finding:
    return Finding(
        code="PAIR-MTU",
        where=where,
        observed=error.text,
        expected="a port that can do the path MTU of the profile",
        evidence={"said by": failure.side},
    )


def _endpoints(result: ExchangeResult) -> dict[str, protocol.EndpointInfo]:
    ends = (
        (result.source_report.node, result.source_endpoint),
        (result.sink_report.node, result.sink_endpoint),
    )
    return {node: info for node, info in ends if info is not None}


def _gid_mismatch(
    rail: RailPair, endpoints: dict[str, protocol.EndpointInfo], symptom: Finding
) -> Finding | None:
    """PAIR-GID-MISMATCH in place of ``symptom`` when the GIDs explain it; at the odd end, if one
    is."""
    here, there = endpoints.get(rail.local.node), endpoints.get(rail.remote.node)
    found = gids.unreachable(here, there) if here is not None and there is not None else None
    if found is None:
        return None
    end, other = (rail.remote, rail.local) if found.odd == "other" else (rail.local, rail.remote)
    return Finding(
        code="PAIR-GID-MISMATCH",
        where=end.port.model_copy(update={"peer": other.node}),
        observed=found.reason,
        expected="two GIDs of one type, family and scope",
        evidence={"symptom": symptom.text(), **evidence.of_gids(endpoints), **symptom.evidence},
    )


def _role(end: RailEnd, source: RailEnd) -> Role:
    return "source" if end is source else "sink"
