"""The truth table of host memory: what a pair's ports, ends and the way between them did. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gdrcheck.findings.model import Finding
from gdrcheck.pairing.causes import Cause, Cells, cause_of, grouped
from gdrcheck.pairing.judge import at
from gdrcheck.pairing.settled import Settled
from gdrcheck.pairing.table import RailTable
from gdrcheck.transfer import DIRECTIONS, Direction, has_gpu

# A message counts as wrong all over from so many wrong bytes in a hundred: a wrong byte is right by
# chance once in 256.
ALL_OVER_PERCENT = 90
# Fewer operations prove nothing about a whole end.
LEAST_OPERATIONS = 3


def causes(table: RailTable, cells: Cells) -> list[Cause]:
    """The causes of all failed cells of host memory that are not of a port or a connection."""
    failed = [
        cell
        for key, cell in cells.items()
        if not has_gpu(key.mode) and cell.failed and cell.kind in ("data", "refused", "transport")
    ]
    silent = [cell for cell in failed if cell.kind == "transport"]
    # RETRY_EXC_ERR says more than a deadline.
    silent.sort(key=lambda cell: cell.wrong.code != "PAIR-RETRY-EXCEEDED")
    alone = _read_alone(cells, failed)
    found = _wrong_data(table, cells, [cell for cell in failed if cell.kind == "data"])
    if alone:
        ways = grouped(alone, lambda cell: cell.key.direction).values()
        return [*found, *(_read_refused(table, cells, one) for one in ways)]
    refused = [cell for cell in failed if cell.kind == "refused"]
    groups = [*grouped(refused, lambda cell: (cell.wrong.code, cell.named)).values()]
    return [*found, *(cause_of(table, cells, one) for one in [*groups, silent] if one)]


def _wrong_data(table: RailTable, cells: Cells, wrong: Sequence[Settled]) -> list[Cause]:
    found = []
    for direction in DIRECTIONS:
        here = [cell for cell in wrong if cell.key.direction == direction]
        if here and direction == "in" and _all_wrong(cells, direction):
            found.append(cause_of(table, cells, here, _alien(table, here[0])))
            continue
        for members in grouped(here, lambda cell: (cell.wrong.code, cell.role)).values():
            found.append(cause_of(table, cells, members))
    return found


def _all_wrong(cells: Cells, direction: Direction) -> bool:
    """Whether every operation was tried and brought messages that were wrong all over, and not by
    what a write that is lost or late leaves behind."""
    told = [
        cell for key, cell in cells.items() if (key.mode, key.direction) == ("host-host", direction)
    ]
    strange = [cell for cell in told if _is_alien(cell)]
    return len(strange) == len(told) and len(told) >= LEAST_OPERATIONS


def _is_alien(cell: Settled) -> bool:
    report = cell.result.sink_report.report if cell.result else None
    if not cell.certain_data or report is None or report.mismatch is None:
        return False
    wrong, size = report.mismatch, report.mismatch_size_bytes or 0
    if wrong.looks_like in ("poison", "previous iteration", "zeros"):
        return False
    return wrong.bad_bytes * 100 >= size * ALL_OVER_PERCENT


def _alien(table: RailTable, cell: Settled) -> Finding:
    """PAIR-END-DEVIATES: what comes from the responder is nothing that it should have sent."""
    source, sink = table.rail.source(cell.key.direction), table.rail.sink(cell.key.direction)
    return cell.wrong.model_copy(
        update={"code": "PAIR-END-DEVIATES", "where": at(source, sink, "host")}
    )


def _read_alone(cells: Cells, failed: Sequence[Settled]) -> list[Settled]:
    """The READs, if they are all that fails, and SEND and WRITE pass both ways."""
    passed = {
        (key.operation, key.direction)
        for key, cell in cells.items()
        if key.mode == "host-host" and cell.state == "passed"
    }
    others = {(operation, way) for operation in ("SEND", "WRITE_WITH_IMM") for way in DIRECTIONS}
    if not failed or not others <= passed:
        return []
    if any(cell.key.operation != "READ" or cell.kind == "data" for cell in failed):
        return []
    return list(failed)


def _read_refused(table: RailTable, cells: Cells, members: Sequence[Settled]) -> Cause:
    """PAIR-READ-REFUSED at the end that is read."""
    first = members[0]
    source, sink = table.rail.source(first.key.direction), table.rail.sink(first.key.direction)
    finding = Finding(
        code="PAIR-READ-REFUSED",
        where=at(source, sink, "host"),
        observed=f"READ alone failed: {first.wrong.observed}",
        expected="RDMA READ of memory that SEND and WRITE can read",
        evidence={"role": "host memory as source", **first.wrong.evidence},
    )
    return cause_of(table, cells, members, finding)
