"""The supervisor starts the watcher of XIDs beside the phases, and leaves none behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gdrcheck.facts import Facts, Unreadable
from gdrcheck.node.xids import watching_xids
from gdrcheck.outcome import Outcome
from gdrcheck.probes.xids import read_watch
from tests import facts as builders
from tests.node.support import run_spec, short_waits, supervised, write_checks

PATIENCE_S = 30.0
SLOT = builders.GPU_SLOT
# The watcher is an interpreter of its own, and machines are busy.
SPEC = run_spec(waits=short_waits(check_s=30))


def with_gpu(node: str = "node1", *, within_s: float = 1) -> Facts:
    """A machine with a GPU that NVML knows."""
    assert within_s > 0
    return builders.facts(node=node)


def content(path: Path) -> str:
    """What is in the file, once something is."""
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists() or not path.read_text():
        assert time.monotonic() < deadline, f"nothing in {path}"
        time.sleep(0.05)
    return path.read_text()


def test_a_watcher_lives_as_long_as_the_block(tmp_path: Path) -> None:
    with watching_xids(with_gpu(), tmp_path, "tests.node.endless_watcher"):
        # It has begun when the block does: nothing in between is missed.
        pid = int((tmp_path / "xids.jsonl").read_text())
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    "facts",
    [
        None,
        builders.facts(nvml=None),
        builders.facts(nvml=Unreadable(unreadable="no library")),
        builders.facts(nvml=builders.nvml(gpus=())),
    ],
)
def test_without_gpus_nothing_is_started(facts: Facts | None, tmp_path: Path) -> None:
    with watching_xids(facts, tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_watcher_that_cannot_be_run_disturbs_nothing_and_is_told(tmp_path: Path) -> None:
    with watching_xids(with_gpu(), tmp_path, "tests.node.no_such_watcher"):
        content(tmp_path / "xid_watch.log")
    assert "no_such_watcher" in (tmp_path / "xid_watch.log").read_text()
    assert "left no file" in str(read_watch(tmp_path / "xids.jsonl").doubt(SLOT))


def test_a_run_has_the_watcher_beside_its_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits_for_it = """
        def check_a():
            deadline = time.monotonic() + 25
            while not os.path.exists(os.environ["XIDS"]):
                assert time.monotonic() < deadline
                time.sleep(0.05)
        """
    monkeypatch.setenv("XIDS", str(tmp_path / "out" / "xids.jsonl"))
    ran = supervised(
        tmp_path, write_checks(tmp_path, node_a=waits_for_it), collect=with_gpu, spec=SPEC
    )
    assert ran.cases["a[node1]"].outcome is Outcome.PASSED
