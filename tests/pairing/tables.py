"""Tables of a rail as the pair phase fills them, and how to read what they prove."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from gdrcheck import gates
from gdrcheck.mismatch import Mismatch
from gdrcheck.pairing.pairs import EndReport, ExchangeResult, RailEnd, RailPair
from gdrcheck.pairing.table import Cell, CellKey, Failure, RailTable
from gdrcheck.pairing.truth import Ruling
from gdrcheck.transfer import (
    DIRECTIONS,
    MODES,
    OPERATIONS,
    Direction,
    Mode,
    Operation,
    RegionKey,
    variants,
)
from gdrcheck.verbs import protocol

RAIL = RailPair(
    0,
    RailEnd("a", "gpu0", "mlx5_0", ("dmabuf",)),
    RailEnd("b", "gpu3", "mlx5_1", ("dmabuf", "peermem")),
    has_gpus=True,
)
ALL_KEYS = tuple(
    CellKey(mode, operation, direction)
    for mode in MODES
    for operation in OPERATIONS
    for direction in DIRECTIONS
)
SIZE = 64
ITERATIONS = 2
WRONG = Mismatch(
    first_bad_offset=63,
    bad_bytes=1,
    excerpt_offset=56,
    expected_hex="00",
    got_hex="01",
    looks_like="other",
)
# The ends as findings about GPU memory name them.
A, B = "a/gpu0/mlx5_0 (with b)", "b/gpu3/mlx5_1 (with a)"
PLACES = {"a": A, "b": B}
Report = protocol.ExchangeResult
Operations = Collection[Operation]


def status(name: str, vendor_error: int = 0x51) -> protocol.CompletionError:
    return protocol.CompletionError(
        status=name,
        vendor_error=vendor_error,
        operation="message",
        iteration=1,
        size_bytes=SIZE,
        text=f"{name}, in words",
    )


def plan(key: CellKey) -> protocol.ExchangePlan:
    source, sink = RAIL.source(key.direction), RAIL.sink(key.direction)
    return protocol.ExchangePlan(
        sizes_bytes=(SIZE,),
        iterations=ITERATIONS,
        variants=variants(key.mode, source.methods, sink.methods),
    )


def report(key: CellKey, *, left: int = 0, **changes: Any) -> Report:
    """What an end says; without ``changes`` that all was right. ``left`` messages unverified."""
    verified = ITERATIONS * len(plan(key).variants) - left
    values = {
        "sizes": (protocol.VerifiedSize(size_bytes=SIZE, iterations_verified=verified),),
        "completed": not changes,
        "duration_s": 0.1,
    }
    return Report(**{**values, **changes})


def exchange(
    key: CellKey, source: Report | None = None, sink: Report | None = None, **changes: Any
) -> ExchangeResult:
    values = {
        "mode": key.mode,
        "operation": key.operation,
        "direction": key.direction,
        "plan": plan(key),
        "path_mtu": 1024,
        "source_report": EndReport(RAIL.source(key.direction).node, source or report(key)),
        "sink_report": EndReport(RAIL.sink(key.direction).node, sink or report(key)),
    }
    return ExchangeResult(**{**values, **changes})


@cache
def right(key: CellKey) -> Cell:
    return Cell(result=exchange(key))


@cache
def refused(key: CellKey, node: str, *, repeated: bool = True) -> Cell:
    """One that ends since memory at ``node`` may not be touched; the same again alone."""
    names = {True: "LOC_PROT_ERR", False: "REM_ACCESS_ERR"}
    requester = RAIL.sink(key.direction) if key.operation == "READ" else RAIL.source(key.direction)
    error = status(names[requester.node == node])
    said = report(key, left=1, completion_error=error, port_state="ACTIVE")
    stopped = report(key, left=1, stopped_by_peer=True, port_state="ACTIVE")
    ends = (stopped, said) if key.operation == "READ" else (said, stopped)
    cell = Cell(result=exchange(key, *ends))
    return Cell(result=cell.result, repeat=cell) if repeated else cell


@cache
def silent(key: CellKey, name: str = "RETRY_EXC_ERR", *, again: str = "same") -> Cell:
    """One that ends since no answer came; ``again``: how the repetition went."""
    said = report(key, left=1, completion_error=status(name), port_state="ACTIVE")
    late = report(key, left=1, completion_error=status("DEADLINE", 0), port_state="ACTIVE")
    cell = Cell(result=exchange(key, said, late))
    repeats = {"same": cell, "right": right(key), "none": None, "error": lost(key)}
    return Cell(result=cell.result, repeat=repeats[again])


@cache
def corrupt(key: CellKey, **changes: Any) -> Cell:
    """One with wrong bytes at the sink."""
    values = {
        "mismatch": WRONG,
        "mismatch_size_bytes": SIZE,
        "mismatch_iteration": 1,
        **changes,
    }
    sink = report(key, left=1, **values)
    return Cell(result=exchange(key, report(key, stopped_by_peer=True), sink))


@cache
def lost(key: CellKey) -> Cell:
    return Cell(failure=Failure(side="b", step="go", text=f"{key.mode}: no answer for 20 s"))


def table(
    cells: Mapping[CellKey, Cell] | None = None, keys: tuple[CellKey, ...] = ALL_KEYS
) -> RailTable:
    """All of ``keys`` right, but for ``cells``."""
    return RailTable(RAIL, {**{key: right(key) for key in keys}, **(cells or {})})


def info(gid: str, **changes: Any) -> protocol.EndpointInfo:
    values = {
        "queue_pairs": (protocol.QueuePairInfo(qpn=1, psn=1),),
        "regions": (
            protocol.RemoteRegion(
                key=RegionKey(memory="host", method="host"), address=0, rkey=1, length_bytes=1
            ),
        ),
        "gid": gid,
        "gid_index": 3,
        "gid_type": "RoCE v2",
        "lid": 0,
        "link_layer": "ethernet",
        "mtu": 1024,
    }
    return protocol.EndpointInfo(**{**values, **changes})


ROUTABLE, LINK_LOCAL = info("::ffff:10.0.0.1"), info("fe80::1", gid_index=0)


def down(key: CellKey, node: str) -> Cell:
    states = {"a": "ACTIVE", "b": "ACTIVE", node: "DOWN"}
    ends = [
        report(key, left=1, completion_error=status("RETRY_EXC_ERR"), port_state=states[end.node])
        for end in (RAIL.source(key.direction), RAIL.sink(key.direction))
    ]
    return Cell(result=exchange(key, *ends))


# --- reading ------------------------------------------------------------------------------------


def found(rulings: Mapping[CellKey, Ruling]) -> list[tuple[str, str]]:
    """Code and place of each finding, in the table's order."""
    findings = [ruling.finding for ruling in rulings.values() if ruling.finding is not None]
    return [(finding.code, finding.where.text()) for finding in findings]


def keys_of(mode: Mode, operations: Operations, direction: Direction) -> list[CellKey]:
    return [CellKey(mode, one, direction) for one in OPERATIONS if one in operations]


def failures(direction: Direction, reads: Operations, writes: Operations) -> dict[CellKey, Cell]:
    """What is seen when these operations cannot read the source's GPU, and those not write the
    sink's."""
    source, sink = RAIL.source(direction).node, RAIL.sink(direction).node
    cells = {key: refused(key, source) for key in keys_of("gpu-host", reads, direction)}
    cells |= {key: refused(key, sink) for key in keys_of("host-gpu", writes, direction)}
    for key in keys_of("gpu-gpu", {*reads, *writes}, direction):
        cells[key] = refused(key, source if key.operation in reads else sink)
    return cells


def assert_sound(cells: RailTable, rulings: Mapping[CellKey, Ruling]) -> None:
    """What is measured right passed, what is not did not, and each blocker is a finding here."""
    assert list(rulings) == list(cells.cells)
    names = {gates.named(one.finding) for one in rulings.values() if one.finding is not None}
    for key, ruling in rulings.items():
        assert ruling.passed == cells.cells[key].passed, key
        if ruling.blocked_by is not None:
            assert ruling.blocked_by in names, key
    assert len(names) == len(found(rulings))
