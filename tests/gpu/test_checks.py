"""The checks of a node themselves, on a real GPU: each GPU passes all that needs no NIC."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

import pytest

from gdrcheck import __version__
from gdrcheck.facts import Facts, Nvml
from gdrcheck.node.process import pytest_argv
from gdrcheck.outcome import Outcome
from gdrcheck.profile import Profile
from gdrcheck.results import events
from gdrcheck.results.events import EndEvent
from gdrcheck.run import NodeSpec, RunSpec

pytestmark = pytest.mark.gpu

CHECKS = Path(__file__).resolve().parents[2] / "checks"
OF_CUDA = ("gpu_opens", "gpu_memory_kinds", "gpu_pattern")
RUN_S = 300


@pytest.fixture(scope="module")
def cases(facts: Facts, tmp_path_factory: pytest.TempPathFactory) -> dict[str, EndEvent]:
    """What the checks made of this machine, by case; the profile promises the GPUs that it has."""
    assert isinstance(facts.nvml, Nvml), facts.nvml
    gpus = {"count": len(facts.nvml.gpus), "model": "*"}
    out = tmp_path_factory.mktemp("checks")
    run = RunSpec(
        run_id="20260102T030405Z-0a1b2c",
        created=datetime.now(UTC),
        gdrcheck_version=__version__,
        nodes=(NodeSpec(name=facts.node, address="127.0.0.1", profile="bought"),),
        profiles={"bought": Profile.model_validate({"gpus": gpus})},
    )
    (out / "facts.json").write_text(facts.model_dump_json())
    (out / "run.json").write_text(run.model_dump_json())
    options = [f"--gdrcheck-run={out / 'run.json'}", f"--gdrcheck-node={facts.node}"]
    options += [f"--gdrcheck-events={out / 'events.jsonl'}", f"--gdrcheck-out={out}"]
    argv = pytest_argv(CHECKS, "node", [*options, "--gdrcheck-phase=node"])
    done = subprocess.run(
        argv, cwd=CHECKS.parent, capture_output=True, text=True, timeout=RUN_S, env=environment()
    )
    log = events.read(out / "events.jsonl")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert not log.problems, log.problems
    return {event.id: event for event in log.events if isinstance(event, EndEvent)}


def environment() -> dict[str, str]:
    """As in the image: no plugin but those that are named, and nothing of the outer pytest."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return kept | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def test_cuda_starts(cases: dict[str, EndEvent], facts: Facts) -> None:
    case = cases[f"cuda_starts[{facts.node}]"]
    assert case.outcome is Outcome.PASSED, case.message


@pytest.mark.parametrize("check", OF_CUDA)
def test_every_gpu_passes(check: str, cases: dict[str, EndEvent], facts: Facts) -> None:
    assert isinstance(facts.nvml, Nvml)
    ids = [f"{check}[{facts.node}/gpu{number}]" for number in range(len(facts.nvml.gpus))]
    outcomes = {id_: (cases[id_].outcome, cases[id_].message) for id_ in ids}
    assert outcomes == dict.fromkeys(ids, (Outcome.PASSED, ""))


def test_each_two_gpus_pass(cases: dict[str, EndEvent], facts: Facts) -> None:
    """One GPU has no other: the case says that nothing is promised."""
    assert isinstance(facts.nvml, Nvml)
    names = [f"{facts.node}/gpu{number}" for number in range(len(facts.nvml.gpus))]
    pairs = [f"gpu_peers[{one} -> {other}]" for one, other in combinations(names, 2)]
    for id_ in pairs or [f"gpu_peers[{facts.node}]"]:
        expected = Outcome.PASSED if pairs else Outcome.SKIPPED
        assert cases[id_].outcome is expected, cases[id_].message
    for id_ in pairs:
        rates = [value for name, value in cases[id_].properties.items() if "copy" in name]
        assert len(rates) == 2
        assert all("GB/s" in rate for rate in rates)


def test_no_registration_is_claimed_without_a_nic(cases: dict[str, EndEvent]) -> None:
    about = [case for id_, case in cases.items() if id_.startswith("gpu_memory_registers")]
    assert about
    assert {case.outcome for case in about} == {Outcome.SKIPPED}
