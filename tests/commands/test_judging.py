"""Judging facts alone: every rule is asked, or it is known why not."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from gdrcheck import rules
from gdrcheck.commands import judging
from gdrcheck.facts import Unreadable
from tests import facts as build

# They compare nodes, or two readings of one: facts of one node at one time do not do.
OF_MORE_THAN_FACTS = {
    "counters.port_errors",
    "differences.clock",
    "gpu_after.gone",
    "gpu_after.grown",
}
# They judge what was done with a GPU or between two nodes, not what was read of them.
OF_ACTIONS = {
    "cuda.buffer_refused",
    "cuda.none_seen",
    "gpu_load.wrong",
    "gpu_pattern.flip_missed",
    "gpu_pattern.pattern_wrong",
    "gpu_peers.data_wrong",
    "gpu_peers.unreachable",
    "movement.judge_movement",
    "numbers.high_latency",
    "numbers.instrument_differs",
    "numbers.low_bandwidth",
    "numbers.mtu_differs",
    "numbers.slow_peer_path",
    "registration.judge_attempt",
}
# Asked by name in judging._rules, since their arguments are of no common kind.
BY_NAME = {"driver.module_missing", "absence.driver_unbound", "absence.device_missing"}
# Parts of other rules.
HELPERS = {"promises.differs", "ports.other_link_layer", "driver.provider_missing"}


def test_no_rule_is_forgotten() -> None:
    tables = (
        judging.OF_NODE,
        judging.OF_RAIL,
        judging.OF_PORT,
        judging.OF_GPU,
        judging.OF_ANSWER,
        judging.OF_ANSWER_AND_NODE,
    )
    asked = {
        f"{rule.__module__.rpartition('.')[2]}.{rule.__name__}"
        for table in tables
        for rule in table
    }
    there = {
        f"{found.name}.{name}"
        for found in pkgutil.iter_modules(rules.__path__)
        for module in [importlib.import_module(f"gdrcheck.rules.{found.name}")]
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
        and not name.startswith("_")
        and function.__annotations__.get("return") == "Finding | None"
    }
    forgotten = there - asked - OF_MORE_THAN_FACTS - OF_ACTIONS - BY_NAME - HELPERS
    assert not forgotten, "add it to a table in gdrcheck/commands/judging.py"


def test_healthy_node_has_no_finding() -> None:
    assert judging.judge(build.profile(), build.facts()) == judging.Judged((), ())


def test_findings_come_without_what_they_block() -> None:
    found = judging.judge(build.profile(), build.facts(rdma_devices=(), nvidia=None, nvml=None))
    assert [finding.code for finding in found.findings] == [
        "DRV-NVIDIA-MISSING",
        "PORT-DEVICE-MISSING",
    ]


def test_what_cannot_be_judged_is_told_once() -> None:
    why = Unreadable(unreadable="Permission denied")
    found = judging.judge(build.profile(), build.facts(rdma_devices=why))
    assert found.findings == ()
    assert any("Permission denied" in error for error in found.errors)
    assert len(found.errors) == len(set(found.errors))
