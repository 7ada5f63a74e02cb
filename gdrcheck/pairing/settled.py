"""What a cell comes to after its first try and its repetition. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from gdrcheck.findings.model import Finding, Where
from gdrcheck.pairing.pairs import ExchangeResult
from gdrcheck.pairing.table import CellKey, RailTable
from gdrcheck.pairing.tries import DOUBTFUL, WRONG, Kind, Seen, seen
from gdrcheck.transfer import Role, has_gpu

State = Literal["passed", "failed", "unstable", "error", "blocked"]


@dataclass(frozen=True, slots=True)
class Settled:
    """``finding`` is there for ``failed`` and ``unstable``, with what both tries showed.

    ``kind`` is that of the try that speaks. ``text`` says why not measured, or what blocks.
    ``shaken``: one try was right and another one met a fault of the way between the ports.
    """

    key: CellKey
    state: State
    kind: Kind
    finding: Finding | None = None
    text: str = ""
    named: frozenset[str] = frozenset()
    role: Role | None = None
    result: ExchangeResult | None = field(default=None, repr=False)
    shaken: bool = False

    @property
    def wrong(self) -> Finding:
        """The finding of a cell that failed or is unstable."""
        assert self.finding is not None
        return self.finding

    @property
    def failed(self) -> bool:
        """Measured and wrong, and no repetition says otherwise."""
        return self.state == "failed"

    @property
    def certain_data(self) -> bool:
        """Whether bytes were wrong: nothing excuses that."""
        return self.failed and self.kind == "data"


def settle(table: RailTable) -> Mapping[CellKey, Settled]:
    """Every cell of ``table``, in its order."""
    reachable = any(
        one is not None and one.passed
        for cell in table.cells.values()
        for one in (cell, cell.repeat)
    )
    return {key: _cell(table, key, reachable) for key in table.cells}


def wants_repeat(table: RailTable, key: CellKey) -> bool:
    """Whether the cell's first try is a finding that a repetition tells more about."""
    cell = table.cells[key]
    if cell.repeat is not None:
        return False
    return seen(table.rail, key, cell).kind in ("data", *DOUBTFUL)


def _cell(table: RailTable, key: CellKey, reachable: bool) -> Settled:
    cell = table.cells[key]
    first = seen(table.rail, key, cell, reachable=reachable)
    again = None
    if cell.repeat is not None:
        again = seen(table.rail, key, cell.repeat, reachable=reachable)
    if again is None or (first.kind == "passed" and again.kind not in WRONG):
        return _of(key, first)
    if first.kind == "passed":
        # A control, measured again since others failed: what it now shows is new.
        if again.kind in DOUBTFUL:
            return _unstable(table, key, "right", again)
        return replace(_of(key, again, {"first result": "right"}), shaken=again.kind == "port")
    if first.kind in ("error", "blocked"):
        if again.kind in WRONG:
            return _of(key, again, {"first result": first.text})
        return _of(key, first)
    return _again(table, key, first, again)


def _again(table: RailTable, key: CellKey, first: Seen, again: Seen) -> Settled:
    """A finding that was measured again."""
    told = {"repetition": _told(again)}
    earlier = {"first finding": _told(first)}
    if first.kind not in DOUBTFUL:
        # Wrong data stays wrong data; a port that went down may be up again. But nothing hides
        # wrong data that the repetition met.
        if again.kind == "data" and first.kind != "data":
            return _of(key, again, earlier)
        return _of(key, first, told)
    if again.kind == "passed":
        return _unstable(table, key, _told(first), again, first)
    if again.kind not in WRONG:
        return _of(key, first, told)
    if again.kind not in DOUBTFUL or (again.kind == "refused" and first.kind == "transport"):
        return _of(key, again, earlier)
    return _of(key, first, told)


def _of(key: CellKey, said: Seen, told: Mapping[str, str] | None = None) -> Settled:
    if said.finding is not None:
        finding = with_evidence(said.finding, told or {})
        return Settled(key, "failed", said.kind, finding, "", said.named, said.role, said.result)
    if said.kind == "passed":
        return Settled(key, "passed", said.kind)
    return Settled(key, "blocked" if said.kind == "blocked" else "error", said.kind, text=said.text)


def _unstable(
    table: RailTable, key: CellKey, before: str, again: Seen, first: Seen | None = None
) -> Settled:
    """PAIR-UNSTABLE: the two tries disagree. Both are kept, and no end is named."""
    wrong = first or again
    assert wrong.finding is not None
    finding = Finding(
        code="PAIR-UNSTABLE",
        where=place(table, key),
        observed=f"first {before}, then {_told(again)}",
        expected="the same result twice",
        evidence={**wrong.finding.evidence, "first": before, "then": _told(again)},
    )
    shaken = wrong.kind in ("transport", "connection")
    return Settled(key, "unstable", wrong.kind, finding, shaken=shaken)


def place(table: RailTable, key: CellKey) -> Where:
    """The place of a cell of which no end is named: the source, with the sink as its peer."""
    source, sink = table.rail.source(key.direction), table.rail.sink(key.direction)
    where = source.where if has_gpu(key.mode) else source.port
    return where.model_copy(update={"peer": sink.node})


def _told(said: Seen) -> str:
    if said.kind == "passed":
        return "right"
    if said.finding is not None:
        return f"{said.finding.code} ({said.finding.observed})"
    return f"not measured: {said.text}"


def with_evidence(finding: Finding, told: Mapping[str, str]) -> Finding:
    """``finding`` with more evidence behind its own."""
    return finding.model_copy(update={"evidence": {**finding.evidence, **told}})
