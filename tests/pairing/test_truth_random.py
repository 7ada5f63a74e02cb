"""Whatever is in a table, nothing passes that was not right, and wrong data is never lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gdrcheck import gates
from gdrcheck.pairing import truth
from gdrcheck.pairing.table import ANNOUNCED, Cell, CellKey, Failure, RailTable
from gdrcheck.verbs import protocol
from tests.pairing.tables import (
    ALL_KEYS,
    LINK_LOCAL,
    RAIL,
    ROUTABLE,
    corrupt,
    down,
    exchange,
    lost,
    refused,
    report,
    right,
    silent,
    status,
)

STATUSES = (
    "RETRY_EXC_ERR",
    "WR_FLUSH_ERR",
    "DEADLINE",
    "CALL_FAILED",
    "REM_ACCESS_ERR",
    "PROTOCOL",
)
STEPS = (ANNOUNCED, protocol.MTU_HERE, protocol.MTU_THERE, f"{protocol.MODIFY_QP} to RTR", "arm")


@st.composite
def tries(draw: st.DrawFn, key: CellKey) -> Cell:
    """One try of an exchange, of any kind, possible or not."""
    node, name = draw(st.sampled_from("ab")), draw(st.sampled_from(STATUSES))
    error = protocol.ErrorInfo(step=draw(st.sampled_from(STEPS)), errno=22, text="no")
    gids = {"a": ROUTABLE, "b": draw(st.sampled_from((ROUTABLE, LINK_LOCAL)))}
    failing = report(key, left=1, completion_error=status(name))
    kinds = (
        right(key),
        corrupt(key),
        corrupt(key, guard_broken="a byte", verdicts_differ="they differ"),
        refused(key, node, repeated=False),
        replace(silent(key, name), repeat=None),
        down(key, node),
        lost(key),
        Cell(blocked_by=draw(st.sampled_from(("PAIR-GPU-READ at b", "pingpong[a -> b]")))),
        Cell(failure=Failure(node, error.step, "no", error, gids)),
        Cell(result=exchange(key, failing, report(key, left=1, stopped_by_peer=True))),
        Cell(result=exchange(key, report(key), report(key, left=1))),
        Cell(result=exchange(key, report(key, source_changed="a byte"), failing)),
        Cell(),
    )
    return draw(st.sampled_from(kinds))


@st.composite
def cells(draw: st.DrawFn) -> Mapping[CellKey, Cell]:
    """Cells of a rail, all or a part, most of them right; some measured twice."""
    found = {key: right(key) for key in ALL_KEYS[draw(st.sampled_from((0, 0, 10))) :]}
    for key in draw(st.lists(st.sampled_from(tuple(found)), max_size=12, unique=True)):
        again = draw(tries(key)) if draw(st.booleans()) else None
        found[key] = replace(draw(tries(key)), repeat=again)
    return found


def wrong_data(cell: Cell | None) -> bool:
    result = cell.result if cell else None
    said = result.sink_report.report if result else None
    return said is not None and said.mismatch is not None


@settings(max_examples=150, deadline=None)
@given(cells())
def test_whatever_was_measured(found: Mapping[CellKey, Cell]) -> None:
    table = RailTable(RAIL, found)
    rulings = truth.judge(table)
    assert list(rulings) == list(found)
    assert set(truth.suspects(table)) <= set(found)
    named = {gates.named(one.finding) for one in rulings.values() if one.finding}
    host = truth.host_failure(table)
    assert host is None or gates.named(host) in named
    for key, cell in found.items():
        ruling = rulings[key]
        assert not (ruling.passed and not cell.passed), key
        assert not (wrong_data(cell) or wrong_data(cell.repeat)) or (
            ruling.finding is not None or ruling.blocked_by in named
        ), key
