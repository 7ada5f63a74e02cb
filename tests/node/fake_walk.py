"""A pytest plugin by which the real checks of pairs measure with a walk that only says that it did.

Set up when it is imported, from the variables of the environment: how much a run may write before
it is wide, and what goes wrong where.
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from gdrcheck import steps
from gdrcheck.findings.model import Finding
from gdrcheck.pairing import plan, walk
from gdrcheck.pairing.pairs import EndReport, ExchangeResult, OwnedPair, RailPair
from gdrcheck.pairing.reports import TimedPlan, TimedReport
from gdrcheck.pairing.table import Cell, CellKey, RailTable
from gdrcheck.pairing.truth import Ruling
from gdrcheck.transfer import DIRECTIONS, MODES, OPERATIONS, Direction, variants
from gdrcheck.verbs import protocol
from tests.checks.test_pair_checks import Walk
from tests.node.pair_troubles import TROUBLES_VARIABLE, WIDE_VARIABLE, Trouble


class FakeWalk(Walk):
    """The walk of a node; every rail has a table in which all passed."""

    def __init__(self, _run: Any, node: str, _secret: bytes, _listed: Any, out: Path, **_: Any):
        super().__init__(None)  # type: ignore[arg-type]
        self._node, self._out = node, out
        self._told = [Trouble(**one) for one in json.loads(os.environ[TROUBLES_VARIABLE])]
        self._finished = False

    def __enter__(self) -> FakeWalk:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._finished

    def finish(self) -> None:
        self._finished = True

    def _goes_wrong(self, pair: OwnedPair, rail_id: int, what: str) -> bool:
        return Trouble(pair.peer, what, rail_id) in self._told  # type: ignore[arg-type]

    def _goes_wrong_once(self, pair: OwnedPair, rail_id: int, what: str) -> bool:
        mark = self._out / f"{what}-{pair.peer}-{rail_id}"
        if mark.exists() or not self._goes_wrong(pair, rail_id, what):
            return False
        mark.touch()
        return True

    def correctness(self, pair: OwnedPair) -> Mapping[int, RailTable]:
        cells = {key: _cell(self._node, pair, key) for key in _keys()}
        return {rail.rail_id: RailTable(rail, cells) for rail in pair.rails}

    def rulings(self, pair: OwnedPair, rail_id: int) -> Mapping[CellKey, Ruling]:
        rail = next(one for one in pair.rails if one.rail_id == rail_id)
        rulings = dict.fromkeys(_keys(), Ruling())
        if self._goes_wrong(pair, rail_id, "wrong data"):
            where = rail.remote.where.model_copy(update={"peer": rail.local.node})
            finding = Finding(code="PAIR-GPU-WRITE", where=where, observed="0f", expected="5a")
            rulings[CellKey("gpu-gpu", "WRITE", "out")] = Ruling(finding=finding)
        if self._goes_wrong(pair, rail_id, "no answer"):
            rulings[CellKey("host-host", "READ", "in")] = Ruling(error=f"{pair.peer}: no answer")
        return rulings

    def far(self, pair: OwnedPair, _rail: RailPair, direction: Direction) -> Cell:
        return _cell(self._node, pair, CellKey("gpu-gpu", "WRITE_WITH_IMM", direction))

    def timed(
        self, pair: OwnedPair, rail: RailPair, asked: TimedPlan, direction: Direction
    ) -> TimedReport:
        with steps.step(f"{asked.kind} with {pair.peer}"):
            if self._goes_wrong_once(pair, rail.rail_id, "die"):
                ctypes.string_at(0)
            if self._goes_wrong_once(pair, rail.rail_id, "hang"):
                time.sleep(600)
        slow = self._goes_wrong(pair, rail.rail_id, "slow")
        self.gbps = lambda *_: 90.0 if slow else 380.0
        return super().timed(pair, rail, asked, direction)

    def timed_on_all(self, pair: OwnedPair, asked: TimedPlan) -> Mapping[int, TimedReport]:
        return {rail.rail_id: self.timed(pair, rail, asked, "out") for rail in pair.rails}


def _keys() -> list[CellKey]:
    return [CellKey(*key) for key in product(MODES, OPERATIONS, DIRECTIONS)]


def _cell(node: str, pair: OwnedPair, key: CellKey) -> Cell:
    asked = protocol.ExchangePlan(
        sizes_bytes=(8,), iterations=3, variants=variants(key.mode, ("dmabuf",), ("dmabuf",))
    )
    verified = protocol.VerifiedSize(
        size_bytes=8, iterations_verified=asked.iterations * len(asked.variants)
    )
    nodes = (node, pair.peer) if key.direction == "out" else (pair.peer, node)
    report = protocol.ExchangeResult(sizes=(verified,), completed=True, duration_s=1)
    ends = [EndReport(node, report, binding="cores 0-3") for node in nodes]
    return Cell(ExchangeResult(key.mode, key.operation, key.direction, asked, 4096, *ends))


plan.WIDE_BYTES = int(os.environ[WIDE_VARIABLE])
walk.PairWalk = FakeWalk  # type: ignore[assignment,misc]
