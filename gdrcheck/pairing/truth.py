"""What the cells of a rail prove together: each case's finding, blocker or error. Pure.

Host memory to host memory comes first: the rail's GPU memory stands on it. What fails with GPU
memory alone is laid at the door of an end in a role by ``roles``. One cause, one finding: the first
case that tells of it holds it, the others are blocked by it. Nothing excuses wrong data: it is a
finding whatever else failed, unless host memory was wrong as well, the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gdrcheck import gates
from gdrcheck.findings.model import Finding
from gdrcheck.pairing import hosts, roles
from gdrcheck.pairing.causes import Cause, Cells, cause_of, grouped
from gdrcheck.pairing.settled import Settled, settle, wants_repeat
from gdrcheck.pairing.table import CellKey, RailTable
from gdrcheck.pairing.tries import DOUBTFUL
from gdrcheck.transfer import DIRECTIONS, Direction, has_gpu


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the case of a cell reports. None of the three: it passed.

    ``blocked_by``: ``CODE at place``, or the name of a case in words; ``error``: why it could not
    be measured, with the node and the step.
    """

    finding: Finding | None = None
    blocked_by: str | None = None
    error: str | None = None

    @property
    def passed(self) -> bool:
        """Whether every byte was right."""
        return self == Ruling()


def suspects(table: RailTable) -> tuple[CellKey, ...]:
    """The cells that are worth being measured again alone, in the table's order.

    Those whose first try is a finding that a repetition tells more about. Beside them, where GPU
    memory failed because nothing came, one exchange of host memory that passed, for each way of the
    data: if it fails now, the way between the ports is at fault, and no GPU. Cells that have a
    repetition are left out.
    """
    wanted = {key for key in table.cells if wants_repeat(table, key)}
    cells = settle(table)
    silent = {
        key.direction for key in wanted if has_gpu(key.mode) and cells[key].kind == "transport"
    }
    for direction in DIRECTIONS:
        controls = [
            key
            for key, cell in cells.items()
            if (key.mode, key.direction, cell.state) == ("host-host", direction, "passed")
        ]
        if direction in silent and not any(table.cells[key].repeat for key in controls):
            wanted |= set(controls[:1])
    return tuple(key for key in table.cells if key in wanted)


def host_failure(table: RailTable) -> Finding | None:
    """What blocks the rail's GPU memory: host memory to host memory failed for certain.

    None also when a port went down meanwhile: that concerns only the cells that met it.
    """
    cells = _settled(table)
    cause = _base_failure(_of_the_rail(table, cells) + hosts.causes(table, cells))
    return cause.finding if cause else None


def judge(table: RailTable) -> Mapping[CellKey, Ruling]:
    """A ruling for every cell of ``table``, which may be a part of a rail's, in its order."""
    cells = _settled(table)
    causes = _of_the_rail(table, cells) + hosts.causes(table, cells)
    causes = _with_gpus(table, cells, causes)
    rulings: dict[CellKey, Ruling] = {}
    for cause in causes:
        rulings |= {cell.key: Ruling(blocked_by=cause.name) for cell in cause.others}
        rulings[cause.holder.key] = Ruling(finding=cause.finding)
    shaken = _shaken(cells)
    for key, cell in cells.items():
        if cell.state == "unstable":
            rulings[key] = Ruling(finding=cell.finding)
        elif cell.failed and key not in rulings and shaken is not None:
            rulings[key] = Ruling(blocked_by=shaken)
        elif cell.state == "error":
            rulings[key] = Ruling(error=cell.text)
        elif cell.state == "passed":
            rulings[key] = Ruling()
    for key, cell in cells.items():
        if cell.state == "blocked":
            rulings[key] = Ruling(blocked_by=_blocker(cell, rulings))
    return {key: rulings[key] for key in table.cells}


def _settled(table: RailTable) -> Cells:
    """The cells; one without a repetition is in doubt when all like it that have one were right."""
    cells = dict(settle(table))
    for key, cell in cells.items():
        if not cell.failed or cell.kind not in DOUBTFUL or table.cells[key].repeat is not None:
            continue
        alike = [
            one
            for other, one in cells.items()
            if (other.mode, other.direction) == (key.mode, key.direction)
            and table.cells[other].repeat is not None
            and one.kind in DOUBTFUL
        ]
        if alike and all(one.state == "unstable" for one in alike):
            cells[key] = _doubted(cell, alike[0])
    return cells


def _doubted(cell: Settled, other: Settled) -> Settled:
    finding = cell.wrong.model_copy(
        update={
            "code": "PAIR-UNSTABLE",
            "observed": f"first {cell.wrong.code} ({cell.wrong.observed}); not repeated, but "
            f"{other.key.operation}, which failed as well, was then right",
            "expected": "the same result twice",
        }
    )
    return replace(cell, state="unstable", finding=finding, shaken=other.shaken)


def _of_the_rail(table: RailTable, cells: Cells) -> list[Cause]:
    """What is of the ports and the connection, whatever memory was used."""
    failed = [cell for cell in cells.values() if cell.failed]
    own = [cell for cell in failed if cell.kind in ("port", "setup")]
    causes = [
        cause_of(table, cells, found)
        for found in grouped(own, lambda cell: gates.named(cell.wrong)).values()
    ]
    unconnected = [cell for cell in failed if cell.kind == "connection"]
    # GIDs that cannot reach each other explain whatever else keeps the ends from connecting.
    unconnected.sort(key=lambda cell: cell.wrong.code != "PAIR-GID-MISMATCH")
    return causes + ([cause_of(table, cells, unconnected)] if unconnected else [])


def _base_failure(causes: list[Cause]) -> Cause | None:
    for cause in causes:
        hosts_met_it = any(not has_gpu(cell.key.mode) for cell in cause.members)
        if hosts_met_it and cause.holder.kind != "port":
            return cause
    return None


def _with_gpus(table: RailTable, cells: Cells, causes: list[Cause]) -> list[Cause]:
    """``causes`` and those of GPU memory; cells that stand on a failure of the base join it."""
    known = {cell.key for cause in causes for cell in cause.members}
    base, shaken = _base_failure(causes), _shaken(cells)
    found = list(causes)
    for direction in DIRECTIONS:
        failing = []
        for key, cell in cells.items():
            if not cell.failed or key in known or key.direction != direction:
                continue
            blocker = _host_data(causes, direction) if cell.kind == "data" else base
            if blocker is not None:
                blocker.others.append(cell)
            elif cell.kind != "transport" or shaken is None:
                failing.append(cell)
        proven = base is None and _host_passes(cells, direction)
        found += roles.located(table, cells, direction, failing, proven=proven)
    return found


def _host_data(causes: list[Cause], direction: Direction) -> Cause | None:
    """Wrong data of host memory, this way."""
    return next(
        (
            cause
            for cause in causes
            if cause.holder.kind == "data" and cause.holder.key.direction == direction
        ),
        None,
    )


def _host_passes(cells: Cells, direction: Direction) -> bool:
    return any(
        (key.mode, key.direction, cell.state) == ("host-host", direction, "passed")
        for key, cell in cells.items()
    )


def _shaken(cells: Cells) -> str | None:
    """The finding of host memory's exchange that was right once and once was not."""
    for key, cell in cells.items():
        if cell.shaken and not has_gpu(key.mode):
            return gates.named(cell.wrong)
    return None


def _blocker(cell: Settled, rulings: Mapping[CellKey, Ruling]) -> str:
    """What blocks the cell: as was said when it was not tried, unless what was named then as a
    finding of this rail has become another one.
    """
    found = {key: one.finding for key, one in rulings.items() if one.finding is not None}
    names = {key: gates.named(finding) for key, finding in found.items()}
    if not cell.text.startswith("PAIR-") or cell.text in names.values():
        return cell.text
    for key, ruling in rulings.items():
        if (key.mode, key.direction) == (cell.key.mode, cell.key.direction):
            name = names.get(key) or ruling.blocked_by
            if name is not None:
                return name
    return next(iter(names.values()), cell.text)
