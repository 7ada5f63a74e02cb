"""What stands beside a run on a real GPU: the watcher of XIDs. Before CUDA is open here."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gdrcheck.facts import Facts, Nvml
from gdrcheck.node.xids import watching_xids
from gdrcheck.probes.xids import read_watch
from gdrcheck.xids import XidWatch

pytestmark = pytest.mark.gpu

START_S = 30.0
POLL_S = 0.1


def test_the_watcher_of_xids_watches_every_gpu(facts: Facts, tmp_path: Path) -> None:
    assert isinstance(facts.nvml, Nvml)
    with watching_xids(facts, tmp_path):
        watch = begun(tmp_path / "xids.jsonl")
    assert watch.begun is not None, watch.problems
    assert watch.begun.watched == tuple(gpu.slot for gpu in facts.nvml.gpus)
    assert watch.problems == ()


def begun(path: Path) -> XidWatch:
    """What the watcher tells once it has begun, or at the end of its time."""
    deadline = time.monotonic() + START_S
    while True:
        watch = read_watch(path)
        if watch.begun is not None or time.monotonic() > deadline:
            return watch
        time.sleep(POLL_S)
