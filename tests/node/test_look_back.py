"""A node without pairs looks back at its promised GPUs, by the real check, when it is done."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from gdrcheck.facts import Facts
from gdrcheck.node.clock import Stop
from gdrcheck.node.process import PACKAGE_ROOT
from gdrcheck.node.xids import watching_xids
from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.run import RunSpec
from tests import facts as builders
from tests.node.support import Ran, profile, run_spec, short_waits, supervised, write_checks
from tests.results.trees import Merged, write_run

CASE = "gpu_errors_grew[node1/gpu0]"
ONE_GPU = {"count": 1, "model": "NVIDIA H200"}
QUIET = "def check_a(): pass"
# What the watcher writes when the driver tells it of one.
XID = f"""
    def check_a(pytestconfig):
        from datetime import UTC, datetime
        from gdrcheck.xids import XidSeen, written
        seen = XidSeen(time=datetime.now(UTC), slot="{builders.GPU_SLOT}", xid=79)
        with (pytestconfig.getoption("--gdrcheck-out") / "xids.jsonl").open("a") as stream:
            stream.write(written(seen))
    """


def with_gpu(node: str, *, within_s: float) -> Facts:
    """A machine with a healthy GPU."""
    assert within_s > 0
    return builders.facts(node=node)


def alone(**changes: object) -> RunSpec:
    """A run of one node with one GPU, which measures no pairs."""
    promises = profile(**({"gpus": ONE_GPU, "pairs": "none"} | changes))
    return run_spec(waits=short_waits(check_s=30, phase_s=120), profiles={"soft": promises})


def real_pair_checks(root: Path, node_check: str) -> Path:
    """``node_check`` alone in the node phase, and the real checks of the pair phase."""
    checks = write_checks(root, node_a=node_check)
    real = PACKAGE_ROOT / "checks"
    shutil.copytree(real / "pair", checks / "pair", dirs_exist_ok=True)
    text = (real / "conftest.py").read_text()
    # Of what write_checks offers to its checks.
    devices = "\n\ndef devices(): ...\n\n\nimport tests.node.live_root\n"
    (checks / "conftest.py").write_text(text + devices)
    return checks


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML says at the end what it said at the beginning, and the watcher lives."""
    record = tmp_path / "root/run/gdrcheck/recorded/nvml.json"
    record.parent.mkdir(parents=True)
    record.write_text(builders.nvml().model_dump_json())
    (tmp_path / "root/sys/module/nvidia").mkdir(parents=True)
    monkeypatch.setenv("GDRCHECK_TEST_ROOT", str(tmp_path / "root"))
    watching = partial(watching_xids, module="tests.node.renewing_watcher")
    monkeypatch.setattr("gdrcheck.node.supervisor.watching_xids", watching)


def ran(root: Path, node_check: str, spec: RunSpec, stop: Stop | None = None) -> Ran:
    checks = real_pair_checks(root, node_check)
    return supervised(root, checks, spec=spec, collect=with_gpu, stop=stop)


def merged(root: Path, spec: RunSpec, *, whole: bool) -> Merged:
    """The merge of what the node left."""
    results = write_run(root / "results", spec)
    shutil.copytree(root / "out", results / "nodes/node1")
    return Merged(results, whole=whole)


@pytest.mark.parametrize("pairs", ["none", "required"])
def test_an_xid_in_the_node_phase_fails_a_run_without_pairs(tmp_path: Path, pairs: str) -> None:
    spec = alone(pairs=pairs)
    found = ran(tmp_path, XID, spec)
    case = found.cases[CASE]
    assert (case.suite, case.classname, case.outcome) == ("node1", "node1.gpus", Outcome.FAILED)
    assert [(one.code, one.where.text()) for one in case.findings] == [("GPU-XID", "node1/gpu0")]
    assert found.exit_code == Verdict.FAIL.exit_code
    assert merged(tmp_path, spec, whole=True).verdict is Verdict.FAIL


def test_a_gpu_on_which_nothing_happened_passes_and_nothing_else_runs(tmp_path: Path) -> None:
    found = ran(tmp_path, QUIET, alone())
    outcomes = {name: case.outcome for name, case in found.cases.items()}
    assert outcomes == {"a[node1]": Outcome.PASSED, CASE: Outcome.PASSED}
    assert found.exit_code == 0


def test_without_promised_gpus_nothing_more_is_started(tmp_path: Path) -> None:
    found = ran(tmp_path, QUIET, alone(gpus={"count": 0}))
    assert set(found.cases) == {"a[node1]"}
    assert not (found.out / "pytest-pair.log").exists()


def test_a_check_that_is_not_there_is_no_pass(tmp_path: Path) -> None:
    checks = write_checks(tmp_path, node_a=QUIET)
    found = supervised(tmp_path, checks, spec=alone(), collect=with_gpu)
    assert found.cases["pair_phase_completed[node1]"].outcome is Outcome.ERROR
    assert found.exit_code == Verdict.INCOMPLETE.exit_code


def test_a_run_that_is_stopped_does_not_look_back(tmp_path: Path) -> None:
    stop = Stop()
    stop.request("stopped by SIGTERM")
    found = ran(tmp_path, QUIET, alone(), stop)
    assert CASE not in found.cases
    assert found.exit_code == Verdict.INCOMPLETE.exit_code
