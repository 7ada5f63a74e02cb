"""The watcher of XIDs as a run starts it, on the emulated libnvidia-ml."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from gdrcheck.node.xids import watching_xids
from gdrcheck.probes.xids import read_watch
from gdrcheck.xids import XidWatch
from lab.emulated_gpu import loaded
from lab.emulated_gpu.config import h200s
from tests import facts as builders
from tests.emulated_gpu.emulation import Emulation

PATIENCE_S = 60.0
GPUS = h200s(2)
FIRST, SECOND = (gpu.slot for gpu in GPUS)


def told(path: Path, xids: int) -> XidWatch:
    """What the watcher tells once it has begun and seen so many XIDs."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        watch = read_watch(path)
        if watch.begun is not None and len(watch.seen) >= xids:
            return watch
        assert time.monotonic() < deadline, watch
        time.sleep(0.1)


def test_each_xid_of_a_run_is_seen_on_its_gpu(
    monkeypatch: pytest.MonkeyPatch, emulation: Emulation, tmp_path: Path
) -> None:
    emulation.set(GPUS)
    for name, value in loaded.environment(emulation.path).items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "xids.jsonl"
    with watching_xids(builders.facts(), tmp_path):
        begun = told(path, 0).begun
        assert begun is not None
        assert begun.watched == (FIRST, SECOND)
        emulation.set((GPUS[0], replace(GPUS[1], values={"xid": 79})))
        told(path, 1)
        emulation.set((replace(GPUS[0], values={"xid": 31}), GPUS[1]))
        watch = told(path, 2)
    assert [one.xid for one in watch.of(SECOND)] == [79]
    assert [one.xid for one in watch.of(FIRST)] == [31]
    assert watch.problems == ()
