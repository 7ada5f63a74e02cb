"""Codes that need two readings: two nodes of one profile, or one node before and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from gdrcheck import probes, rails
from gdrcheck.facts import Facts
from gdrcheck.findings.model import Finding
from gdrcheck.outcome import NotJudged, NotPromised
from gdrcheck.probes.counters import read_counters_after
from gdrcheck.rules import counters, differences
from gdrcheck.rules.alike import Group
from tests.captured import edits
from tests.captured.edits import Edit, put
from tests.captured.machine import Machine
from tests.captured.machines import MACHINES

PORT = "sys/class/infiniband/mlx5_0/ports/1"


@dataclass(frozen=True, slots=True)
class Difference:
    """``code`` is found at ``place`` when the second of two nodes is edited."""

    code: str
    machine: str
    place: str
    edits: tuple[Edit, ...]


DIFFERENCES = (
    Difference(
        "PORT-MTU-DIFFERS",
        "roce",
        "node1/mlx5_2 (with node2)",
        (edits.opened("mlx5_2", mtu_bytes=1024),),
    ),
    Difference(
        "PORT-FIRMWARE-DIFFERS",
        "mig",
        "node2/mlx5_1",
        (put("sys/class/infiniband/mlx5_1/fw_ver", "20.39.1002"),),
    ),
    Difference(
        "GPU-VBIOS-DIFFERS",
        "h200vm",
        "node1/gpu0 (with node2)",
        (edits.health("0000:04:00.0", vbios="96.00.00.00.01"),),
    ),
    Difference(
        "HOST-DRIFT",
        "lab",
        "node1 (with node2)",
        (put("proc/sys/kernel/osrelease", "6.12.48+deb13-amd64"),),
    ),
)


@pytest.mark.parametrize("one", DIFFERENCES, ids=lambda one: one.code)
def test_a_node_that_differs_is_found(one: Difference, tmp_path: Path) -> None:
    machine = MACHINES[one.machine]()
    facts = {name: _node(machine, tmp_path, name) for name in ("node1", "node2")}
    assert _found(machine, facts) == []
    for edit in one.edits:
        edit(tmp_path / "node2")
    facts["node2"] = probes.collect("node2", tmp_path / "node2")
    found = {(finding.code, finding.where.text()) for finding in _found(machine, facts)}
    assert found == {(one.code, one.place)}


def _node(machine: Machine, folder: Path, name: str) -> Facts:
    return probes.collect(name, machine.write(folder / name))


def _found(machine: Machine, facts: dict[str, Facts]) -> list[Finding]:
    """What all rules about several nodes find."""
    group = Group.of(machine.profile, tuple(facts), facts)
    asked: list[Callable[[], tuple[Finding, ...]]] = [
        *(partial(differences.rail_mtu, group, rail) for rail in range(8)),
        *(partial(differences.firmware, group, board) for board in differences.boards(group)),
        *(partial(differences.vbios, group, board) for board in differences.gpu_boards(group)),
        *(partial(differences.software, group, name) for name in differences.SUBJECTS),
    ]
    found: list[Finding] = []
    for ask in asked:
        try:
            found += ask()
        except (NotPromised, NotJudged):
            continue
    return found


@pytest.mark.parametrize(
    ("code", "after"),
    [
        ("PORT-LINK-DOWNED", {"counters/link_downed": 1}),
        ("PORT-ERRORS-GREW", {"counters/link_error_recovery": 2}),
        ("PORT-ERROR-RATE", {"counters/symbol_error": 5000}),
        ("PORT-ERROR-RATE", {"hw_counters/local_ack_timeout_err": 5000}),
        (None, {"counters/port_xmit_wait": 10**9, "hw_counters/np_cnp_sent": 10**6}),
        (None, {"counters/symbol_error": 1}),
    ],
)
def test_counters_that_grew_during_the_run(
    code: str | None, after: dict[str, int], tmp_path: Path
) -> None:
    machine = MACHINES["roce"]()
    before = _node(machine, tmp_path, "node1")
    traffic = {f"counters/port_{way}_data": 10**11 for way in ("xmit", "rcv")}
    for name, value in {**traffic, **after}.items():
        put(f"{PORT}/{name}", value)(tmp_path / "node1")
    rail = rails.resolve(machine.profile, before)[0]
    counted = counters.counted(rail, read_counters_after("node1", tmp_path / "node1"))
    finding = counters.port_errors(counted)
    found = finding and (finding.code, finding.where.text())
    assert found == ((code, "node1/mlx5_0") if code else None)
