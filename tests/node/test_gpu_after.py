"""The real checks of the pair phase ask NVML anew, and read what the watcher of XIDs has told."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gdrcheck import xids
from gdrcheck.facts import GpuHealth
from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import CaseResult
from gdrcheck.xids import Line, WatchBegun, XidSeen
from tests import facts as builders
from tests import gpu_facts
from tests.node.pair_machine import Machine, two
from tests.node.support import profile
from tests.probes import trees

SLOT = builders.GPU_SLOT
CASE = "gpu_errors_grew[node1/gpu0]"
BEGUN = WatchBegun(time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), watched=(SLOT,))


class GpuMachine(Machine):
    """node1 with one GPU."""

    def nvml(self, health: GpuHealth) -> None:
        """What NVML says now."""
        record = self.root / "run/gdrcheck/recorded/nvml.json"
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(builders.nvml(gpus=(builders.gpu(health=health),)).model_dump_json())

    def watched(self, *lines: Line) -> None:
        """What the watcher has told."""
        (self.out / "xids.jsonl").write_text("".join(map(xids.written, lines)))

    def case(self) -> CaseResult:
        """What became of the GPU's case, beside a watcher that lives."""
        spec = two("node1", "node2", profiles={"soft": promises()})
        with living(self.out / "xids.jsonl"):
            return self.run("absent", spec)[CASE]


@contextmanager
def living(path: Path) -> Iterator[None]:
    """Renews the file's time, as the watcher does, if the file is there."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(0.05):
            os.utime(path)

    thread = threading.Thread(target=renew)
    if path.exists():
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if thread.ident is not None:
            thread.join()


def promises() -> object:
    return profile(gpus={"count": 1, "model": "NVIDIA H200"})


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GpuMachine:
    """A node whose GPU is as it was when its facts were read; the watcher has seen nothing."""
    out, root = tmp_path / "out", tmp_path / "root"
    out.mkdir()
    trees.software_nic(root, "rxe0", "data0", "0000:00:05.0")
    (root / "sys/module/nvidia").mkdir(parents=True)
    monkeypatch.setenv("GDRCHECK_TEST_ROOT", str(root))
    made = GpuMachine(out, root)
    ports = (builders.port(counters={"link_downed": 0}),)
    made.facts(builders.facts(rdma_devices=(builders.rdma_device("rxe0", ports=ports),)))
    made.nvml(gpu_facts.gpu_health())
    made.watched(BEGUN)
    return made


def test_a_gpu_on_which_nothing_happened_passes(machine: GpuMachine) -> None:
    case = machine.case()
    assert (case.outcome, case.message) == (Outcome.PASSED, "")
    assert (case.suite, case.classname) == ("node1", "node1.gpus")
    assert case.properties["Xids watched"] == "since 2026-01-02T03:04:05Z"
    assert case.properties["volatile uncorrectable ECC errors"] == "0 -> 0"
    assert (machine.out / "gpus.json").stat().st_mode & 0o777 == 0o644


def test_memory_that_lost_data_meanwhile_fails(machine: GpuMachine) -> None:
    volatile = {"correctable": 0, "uncorrectable": 1}
    machine.nvml(gpu_facts.gpu_health(ecc={"volatile": volatile}))
    machine.watched(BEGUN, XidSeen(time=BEGUN.time, slot=SLOT, xid=48))
    case = machine.case()
    assert case.outcome is Outcome.FAILED
    (finding,) = case.findings
    assert (finding.code, finding.where.text()) == ("GPU-ECC-UNCORRECTABLE", "node1/gpu0")
    assert "48" in finding.evidence["GPU-XID"]


def test_an_xid_during_the_run_fails(machine: GpuMachine) -> None:
    machine.watched(BEGUN, XidSeen(time=BEGUN.time, slot=SLOT, xid=79))
    assert [one.code for one in machine.case().findings] == ["GPU-XID"]


def test_a_driver_that_does_not_answer_any_more_is_an_error(machine: GpuMachine) -> None:
    (machine.root / "run/gdrcheck/recorded/nvml.json").unlink()
    case = machine.case()
    assert case.outcome is Outcome.ERROR
    assert "NVML after the transfers is unreadable" in case.message


def test_a_watcher_that_never_began_is_told(machine: GpuMachine) -> None:
    (machine.out / "xids.jsonl").unlink()
    case = machine.case()
    assert case.outcome is Outcome.ERROR
    assert "left no file" in case.message


def test_a_gpu_whose_xids_nobody_can_watch_is_not_judged(machine: GpuMachine) -> None:
    machine.watched(BEGUN.model_copy(update={"watched": (), "refused": {SLOT: "Not Supported"}}))
    case = machine.case()
    assert case.outcome is Outcome.NOT_JUDGED
    assert "Xids cannot be watched: Not Supported" in case.message
