"""Cases made by hand, and the JUnit file of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Outcome
from gdrcheck.results import junit
from gdrcheck.results.cases import PAIRS, CaseResult
from tests.results.trees import place_of


def case(id_: str, outcome: Outcome = Outcome.PASSED, **changes: object) -> CaseResult:
    """A case of node1."""
    values: dict[str, Any] = {
        "suite": "node1",
        "id": id_,
        "classname": "node1.ports",
        "where": Where(node="node1"),
        "outcome": outcome,
    }
    return CaseResult(**(values | changes))


def pair(
    source: str, sink: str, outcome: Outcome = Outcome.PASSED, *, at: str = "", **changes: object
) -> CaseResult:
    """A pair case, with a finding at node ``at`` when it failed."""
    where = place_of(source, sink)
    finding = Finding(
        code="PAIR-GPU-READ", where=Where(node=at or where.node), observed="1", expected="2"
    )
    values: dict[str, Any] = {
        "suite": PAIRS,
        "classname": "pairs.pingpong",
        "where": where,
        "findings": (finding,) if outcome is Outcome.FAILED else (),
    }
    return case(f"pingpong[{source} -> {sink}, gpu-gpu, SEND]", outcome, **(values | changes))


def document(suites: Mapping[str, Sequence[CaseResult]]) -> bytes:
    """The file of these suites."""
    return junit.document(
        suites,
        hosts={"node1": "node1"},
        properties={"run_id": "x"},
        timestamp="2026-01-02T03:04:05",
    )
