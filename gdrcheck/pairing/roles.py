"""The truth table of GPU memory: which end, in which role, failing exchanges point to. Pure.

Keyed on (end, GPU as source = the NIC reads its memory | GPU as sink = the NIC writes it), pooled
over operations, for one way of the data at a time: what goes the other way uses other roles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gdrcheck.findings.model import Finding
from gdrcheck.pairing.causes import Cause, Cells, cause_of, grouped
from gdrcheck.pairing.evidence import ROLE_WORDS, listed
from gdrcheck.pairing.judge import at
from gdrcheck.pairing.pairs import RailEnd
from gdrcheck.pairing.settled import Settled, place, with_evidence
from gdrcheck.pairing.table import CellKey, RailTable
from gdrcheck.transfer import ATOMICS, Direction, Mode, Operation, Role, memory_of

# The mode in which only one end has GPU memory.
SINGLE: dict[Role, Mode] = {"source": "gpu-host", "sink": "host-gpu"}
POOLED: dict[Role, str] = {"source": "PAIR-GPU-READ", "sink": "PAIR-GPU-WRITE"}
EXPECTED: dict[Role, str] = {
    "source": "the NIC reads memory of this GPU as it reads host memory",
    "sink": "the NIC writes memory of this GPU as it writes host memory",
}
SENDS: frozenset[Operation] = frozenset({"SEND", "SEND_WITH_IMM"})
WRITES: frozenset[Operation] = frozenset({"WRITE", "WRITE_WITH_IMM"})
TOGETHER = "both ends together: each end's GPU memory alone was right"


@dataclass(frozen=True, slots=True)
class _Way:
    """One way of the data. ``failing``: its cells of GPU memory that nothing else explains.

    ``proven``: host memory to host memory passes this way, so that what fails with GPU memory is
    the GPUs'; else no role can be told.
    """

    table: RailTable
    cells: Cells
    direction: Direction
    failing: Sequence[Settled]
    proven: bool

    def end(self, role: Role) -> RailEnd:
        rail = self.table.rail
        return rail.source(self.direction) if role == "source" else rail.sink(self.direction)

    def other(self, role: Role) -> RailEnd:
        return self.end("sink" if role == "source" else "source")

    def passed(self, mode: Mode, operation: Operation) -> bool:
        cell = self.cells.get(CellKey(mode, operation, self.direction))
        return cell is not None and cell.state == "passed"

    def passing(self, mode: Mode) -> frozenset[Operation]:
        return frozenset(
            key.operation
            for key, cell in self.cells.items()
            if (key.mode, key.direction) == (mode, self.direction) and cell.state == "passed"
        )


def located(
    table: RailTable,
    cells: Cells,
    direction: Direction,
    failing: Sequence[Settled],
    *,
    proven: bool,
) -> list[Cause]:
    """The causes of ``failing``; each of its cells is in one of them."""
    way = _Way(table, cells, direction, failing, proven)
    wrong = _wrong_data(way)
    refused = [cell for cell in failing if cell.kind != "data"]
    if not proven:
        return [*wrong.values(), *_generic(way, refused)]
    return [*wrong.values(), *_refused(way, refused, wrong)]


# --- wrong data -----------------------------------------------------------------------------------

DataKey = tuple[Role | None, str]


def _wrong_data(way: _Way) -> dict[DataKey, Cause]:
    """By role and code; the role is None where only both ends' GPU memory together was wrong."""
    members: dict[DataKey, list[Settled]] = {}
    for cell in way.failing:
        if cell.kind == "data":
            members.setdefault((_data_role(way, cell), cell.wrong.code), []).append(cell)
    together = members.pop((None, "PAIR-DATA-CORRUPT"), [])
    for role in ("source", "sink"):
        for (one, _), found in members.items():
            if together and one == role and way.proven:
                found += together
                together = []
    if together:
        members[None, "PAIR-DATA-CORRUPT"] = together
    return {key: _data_cause(way, key[0], found) for key, found in members.items()}


def _data_role(way: _Way, cell: Settled) -> Role | None:
    """What the finding says of itself; else the only end that has GPU memory."""
    if cell.role is not None or not way.proven:
        return cell.role
    return next((role for role, mode in SINGLE.items() if mode == cell.key.mode), None)


def _data_cause(way: _Way, role: Role | None, members: list[Settled]) -> Cause:
    holder = members[0]
    finding = holder.wrong
    if role is not None:
        memory = memory_of(holder.key.mode, role)
        words = ROLE_WORDS[role] if memory == "gpu" else f"host memory as {role}"
        finding = with_evidence(finding, {"role": words}).model_copy(
            update={"where": at(way.end(role), way.other(role), memory)}
        )
    elif way.proven and _singles_passed(way, holder):
        finding = with_evidence(finding, {"role": TOGETHER})
    else:
        finding = with_evidence(finding, {"role": "not told: the ends were not measured apart"})
    return cause_of(way.table, way.cells, members, finding, directions=[way.direction])


# --- refused, or no answer ------------------------------------------------------------------------


def _refused(way: _Way, refused: list[Settled], wrong: dict[DataKey, Cause]) -> list[Cause]:
    """One cause for each role that is refused; then what only both ends together explain."""
    causes: list[Cause] = []
    by_role: dict[Role, list[Cause]] = {"source": [], "sink": []}
    left: list[Settled] = []
    for role, mode in SINGLE.items():
        data = next((cause for (one, _), cause in wrong.items() if one == role), None)
        by_role[role] += [data] if data else []
        mine = [cell for cell in refused if cell.key.mode == mode]
        pool = [cell for cell in mine if cell.named != {way.other(role).node}]
        if not any(not way.passed("gpu-gpu", cell.key.operation) for cell in pool):
            # The same GPU served the same operations in the same role towards the other's GPU.
            pool = []
        left += [cell for cell in mine if cell not in pool]
        if pool and data is not None:
            data.others += pool
        elif pool:
            by_role[role].append(_role_cause(way, role, pool))
            causes += by_role[role]
    both = [cell for cell in refused if cell.key.mode == "gpu-gpu"]
    together = [cell for cell in both if not _joined(way, cell, by_role)]
    apart = [cell for cell in together if _singles_passed(way, cell)]
    if apart:
        causes.append(_together(way, apart))
    return causes + _generic(way, left + [cell for cell in together if cell not in apart])


def _joined(way: _Way, cell: Settled, by_role: dict[Role, list[Cause]]) -> bool:
    """Whether a cause of one end explains this cell of both ends' GPU memory; it then joins it."""
    for role, found in by_role.items():
        for cause in found:
            if cell.named != {way.other(role).node} and _explains(cause, cell.key.operation):
                cause.others.append(cell)
                return True
    return False


def _explains(cause: Cause, operation: Operation) -> bool:
    alone = cause.finding.code in ("PAIR-READ-REFUSED", "PAIR-ATOMIC-REFUSED")
    return operation in cause.operations if alone else True


def _role_cause(way: _Way, role: Role, pool: list[Settled]) -> Cause:
    mode, end = SINGLE[role], way.end(role)
    operations = {cell.key.operation for cell in pool}
    passing = way.passing(mode)
    code, expected = POOLED[role], EXPECTED[role]
    if role == "source" and operations == {"READ"} and passing & SENDS and passing & WRITES:
        code, expected = "PAIR-READ-REFUSED", "RDMA READ of memory that SEND and WRITE can read"
    elif operations <= set(ATOMICS) and passing - set(ATOMICS):
        code, expected = "PAIR-ATOMIC-REFUSED", "atomic operations on memory of this GPU"
    return _with_finding(way, pool, code, end, role, expected)


def _with_finding(
    way: _Way, pool: list[Settled], code: str, end: RailEnd, role: Role, expected: str
) -> Cause:
    symptom = pool[0].wrong
    finding = Finding(
        code=code,
        where=at(end, way.other(role)),
        observed=f"{_failed(pool)} failed: {symptom.observed}",
        expected=expected,
        evidence={
            "role": ROLE_WORDS[role],
            "registered by": ", ".join(end.methods),
            **symptom.evidence,
        },
    )
    return cause_of(way.table, way.cells, pool, finding, _modes(role), [way.direction])


def _together(way: _Way, members: list[Settled]) -> Cause:
    symptom = members[0].wrong
    finding = Finding(
        code="PAIR-GPU-BOTH-ENDS",
        where=place(way.table, members[0].key),
        observed=f"{_failed(members)} failed: {symptom.observed}",
        expected="GPU memory to GPU memory, as each end's to and from host memory",
        evidence={"role": TOGETHER, **symptom.evidence},
    )
    return cause_of(way.table, way.cells, members, finding, directions=[way.direction])


def _singles_passed(way: _Way, cell: Settled) -> bool:
    return all(way.passed(mode, cell.key.operation) for mode in SINGLE.values())


def _generic(way: _Way, members: Sequence[Settled]) -> list[Cause]:
    """What cannot be laid at a GPU's door: by the code and the ends that the statuses name."""
    order = list(way.cells)
    ordered = sorted(members, key=lambda cell: order.index(cell.key))
    groups = grouped(ordered, lambda cell: (cell.wrong.code, cell.named))
    return [cause_of(way.table, way.cells, found) for found in groups.values()]


def _modes(role: Role) -> tuple[Mode, ...]:
    return ("host-host", SINGLE[role], "gpu-gpu")


def _failed(members: Sequence[Settled]) -> str:
    return listed((cell.key.mode, cell.key.operation) for cell in members)
