"""A node's run with tiny checks, a rendezvous of its own and short deadlines."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from gdrcheck.facts import Facts, PciTree
from gdrcheck.node.clock import Stop
from gdrcheck.node.supervisor import Assignment, Collect, supervise
from gdrcheck.pairing.messages import NodeState, RailInfo
from gdrcheck.profile import Gpus, NicSelector, Profile, Rails
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.incoming import NodeReport, read_node
from gdrcheck.run import Deadlines, NodeSpec, RunSpec
from tests import facts as builders

RUN_ID = "20260102T030405Z-0a1b2c"
CONFTEST = """
import pytest
from gdrcheck.findings.model import Where

class Device:
    def __init__(self, nic, gpu=None):
        self.where = Where(node="node1", nic=nic, gpu=gpu)

def devices(*nics):
    return pytest.mark.parametrize(
        "device", [pytest.param(Device(nic), id=f"node1/{nic}") for nic in nics])
"""
HEAD = """
import ctypes, os, pytest, signal, time
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import *
from gdrcheck.steps import step
from checks.conftest import devices
"""


def profile(**changes: object) -> Profile:
    """A complete profile of one Soft-RoCE rail and no GPU."""
    values: dict[str, object] = {
        "gpus": Gpus(count=0),
        "rails": Rails(
            count=1,
            nics=(NicSelector(name="rxe*"),),
            port_rate_gbps=10,
            link_layer="ethernet",
        ),
    }
    return Profile.model_validate(values | changes)


def run_spec(*names: str, waits: Deadlines | None = None, **changes: object) -> RunSpec:
    """A run of ``names`` (node1 by default), all with the same profile."""
    values: dict[str, object] = {
        "run_id": RUN_ID,
        "created": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "gdrcheck_version": "0.1.0",
        "image_id": "sha256:1",
        "nodes": tuple(
            NodeSpec(name=name, address="127.0.0.1", profile="soft") for name in names or ("node1",)
        ),
        "profiles": {"soft": profile()},
        "deadlines": waits or Deadlines(),
    }
    return RunSpec.model_validate(values | changes)


def short_waits(check_s: float = 3, phase_s: float = 60) -> Deadlines:
    """Deadlines for checks that hang on purpose."""
    return Deadlines(
        completion_s=0.1,
        connect_s=0.2,
        check_s=check_s,
        rail_s=check_s + 1,
        rendezvous_s=1,
        phase_s=phase_s,
    )


def facts(node: str = "node1") -> Facts:
    """A machine without any device."""
    return builders.facts(
        node=node,
        host=builders.host(hostname=node),
        nvidia=None,
        nvml=None,
        rdma_devices=(),
        pci=PciTree(functions=(), misplaced={}),
    )


def facts_at_once(node: str, *, within_s: float) -> Facts:
    """The same, as probes that take no time."""
    assert within_s > 0
    return facts(node)


@dataclass
class Agreed:
    """The list of a rendezvous."""

    nodes: dict[str, NodeState]


@dataclass
class FakeMeeting:
    """Stands for the rendezvous: agrees at once that all named nodes are ready."""

    spec: RunSpec
    node: str
    secret: bytes
    present: Sequence[str]
    path: Path | None = None
    told: list[RailInfo] = field(default_factory=list)

    def start(self) -> None:
        return

    def ready(self, rails: Sequence[RailInfo]) -> Agreed:
        self.told += rails
        return Agreed({name: NodeState(state="ready") for name in self.present})

    def __enter__(self) -> FakeMeeting:
        return self

    def __exit__(self, *_: object) -> None:
        return


@dataclass(frozen=True)
class Ran:
    """What a supervised run left behind."""

    exit_code: int
    out: Path
    report: NodeReport

    @property
    def cases(self) -> dict[str, CaseResult]:
        """The cases by name."""
        return {case.id: case for case in self.report.cases}


def write_checks(root: Path, **files: str) -> Path:
    """``checks/`` below ``root``: ``node_ports="..."`` becomes ``node/check_ports.py``."""
    checks = root / "checks"
    for phase in ("node", "pair"):
        (checks / phase).mkdir(parents=True, exist_ok=True)
    (checks / "__init__.py").write_text("")
    (checks / "conftest.py").write_text(CONFTEST)
    for name, text in files.items():
        phase, _, area = name.partition("_")
        (checks / phase / f"check_{area}.py").write_text(HEAD + textwrap.dedent(text))
    return checks


def assignment(root: Path, spec: RunSpec, checks: Path, lock: Path | None = None) -> Assignment:
    """node1's assignment, its files below ``root``."""
    out = root / "out"
    out.mkdir()
    run_file = root / "run.json"
    run_file.write_text(spec.model_dump_json())
    secret_file = root / "secret"
    secret_file.write_text("ab" * 32)
    return Assignment(
        spec=spec,
        run_file=run_file,
        node="node1",
        secret=bytes.fromhex("ab" * 32),
        secret_file=secret_file,
        out=out,
        lock=lock,
        present=tuple(node.name for node in spec.nodes),
        checks=checks,
    )


def supervised(
    root: Path,
    checks: Path,
    *,
    spec: RunSpec | None = None,
    stop: Stop | None = None,
    collect: Collect = facts_at_once,
    meet: Callable[..., FakeMeeting] = FakeMeeting,
    lock: Path | None = None,
) -> Ran:
    """Run ``checks`` on node1 and read back what that left."""
    spec = spec or run_spec(waits=short_waits())
    task = assignment(root, spec, checks, lock)
    exit_code = supervise(task, stop or Stop(), meet, collect)
    return Ran(exit_code, task.out, read_node(task.out, "node1", spec.run_id, "died"))
