"""The checks of GPUs in real guests, with real Soft-RoCE: what works, and faults read back.

The two nodes run different faults at the same time. The other faults are read back by tests/checks,
in seconds: the same checks, with a simulated NIC.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gdrcheck.findings.model import Finding
from gdrcheck.outcome import Outcome
from gdrcheck.registration import METHODS
from gdrcheck.results.cases import CaseResult
from gdrcheck.run import Deadlines
from lab import api
from lab.emulated_gpu.config import Config, Faults
from lab.emulated_gpu.control import configuration, configured, driver_files
from tests.lab.conftest import IMAGE
from tests.lab.warm import Warm, spec, warm

pytestmark = pytest.mark.lab
PROFILE = Path(__file__).resolve().parents[2] / "lab/inventory/profiles/lab_gpu.yml"
# The last one is what every node with GPUs looks back at in the end.
CHECKS = ("check_cuda.py", "check_registration.py", "check_gpu_after.py")
NEAR, FAR = "gpu0", "gpu1"  # of the rail, and at the other socket
PEERMEM = "sys/module/nvidia_peermem"
CLIENT = "sys/kernel/mm/memory_peers/nv_mem"


def profile(**changes: Any) -> dict[str, Any]:
    """The profile of a lab node with GPUs, measured alone."""
    return {**yaml.safe_load(PROFILE.read_text()), "pairs": "none", **changes}


def of_every_gpu(**changes: Any) -> dict[str, Any]:
    """The same, which demands of both GPUs what it demands."""
    return profile(matrix="full", **changes)


def small(node: api.Node, **changes: Any) -> Config:
    """GPUs with little memory: to touch more of it takes an emulated guest seconds."""
    config = configuration(node)
    gpus = [replace(gpu, memory_mib=160, bar1_mib=160) for gpu in config.gpus]
    return replace(config, gpus=gpus, **changes)


@pytest.fixture(scope="module")
def gpus(the_lab: api.Lab, results: Path) -> Iterator[Warm]:
    """Warm containers with GPUs on node1 and node2."""
    with warm(the_lab.nodes[:2], IMAGE, results, name="gpus", gpus=True) as containers:
        yield containers


@dataclass(frozen=True)
class Cases:
    """The cases of one node's run."""

    by_id: dict[str, CaseResult]

    @property
    def findings(self) -> dict[tuple[str, str], Finding]:
        """Every finding by code and place."""
        found = [one for case in self.by_id.values() for one in case.findings]
        return {(one.code, one.where.text()): one for one in found}

    def of(self, outcome: Outcome) -> dict[str, str]:
        """The messages of the cases with an outcome."""
        return {id_: one.message for id_, one in self.by_id.items() if one.outcome is outcome}

    def outcomes(self, part: str) -> set[Outcome]:
        """The outcomes of the cases with ``part`` in their names."""
        return {one.outcome for id_, one in self.by_id.items() if part in id_}


@dataclass(frozen=True)
class Fault:
    """What one node is to be while the checks of GPUs run on it."""

    config: Config
    profile: dict[str, Any]
    without: Sequence[str] = ()

    @contextmanager
    def on(self, node: api.Node) -> Iterator[None]:
        """The node with the fault."""
        with ExitStack() as stack:
            stack.enter_context(configured(node, self.config))
            if self.without:
                stack.enter_context(driver_files(node, without=self.without))
            yield


def run(gpus: Warm, faults: Sequence[Fault], **fields: Any) -> list[Cases]:
    """Each node with its fault, at the same time."""
    nodes = gpus.nodes[: len(faults)]
    with ExitStack() as stack:
        for node, fault in zip(nodes, faults, strict=True):
            stack.enter_context(fault.on(node))
        runs = [
            gpus.start(spec([node], fault.profile, **fields), only=CHECKS)
            for node, fault in zip(nodes, faults, strict=True)
        ]
        return [Cases(one.cases(node)) for node, one in zip(nodes, runs, strict=True)]


def test_on_clean_nodes_every_gpu_registers_and_moves(gpus: Warm) -> None:
    whole = [Fault(configuration(node), profile()) for node in gpus.nodes]
    for node, cases in zip(gpus.nodes, run(gpus, whole), strict=True):
        assert cases.findings == {}
        # Not the rail's GPU: tried and shown.
        far = {f"gpu_memory_registers[{node.name}/{FAR}/rxe0, {method}]" for method in METHODS}
        assert set(cases.of(Outcome.NOT_JUDGED)) == far
        others = {one.outcome for id_, one in cases.by_id.items() if id_ not in far}
        assert others == {Outcome.PASSED}
        assert len(cases.by_id) == 1 + 2 * 3 + 2 * 2 + 2 + 2
        for method in METHODS:
            told = cases.by_id[f"gpu_memory_registers[{node.name}/{NEAR}/rxe0, {method}]"]
            # How much more fits depends on the guest's memory.
            *_, largest = told.properties["sizes tried"].split(", ")
            assert told.properties["sizes tried"] == f"4 KiB, 64 KiB, 2 MiB, {largest}"
            assert told.properties["limited by"].startswith(f"1 GiB asked, {largest} tried")


def test_methods_that_are_absent_or_broken_and_gpus_that_fail(gpus: Warm) -> None:
    node1, node2 = gpus.nodes
    near, far = small(node1).gpus
    refuses = Faults(fail={"cuMemGetHandleForAddressRange": 801})
    # What cannot be exported may be absent (the driver says so) or broken (it says that it works).
    exports = Fault(
        replace(
            small(node1),
            gpus=[replace(near, attributes={124: 0}), replace(far, bar1_mib=96)],
            gpu_faults={0: refuses, 1: refuses},
        ),
        of_every_gpu(registration="any"),
    )
    fails = Fault(
        small(
            node2,
            gpu_faults={
                0: Faults(gone=True, after={"gone": 700}),
                1: Faults(fail={"cuMemAlloc": 2}),
            },
        ),
        of_every_gpu(),
    )
    first, second = run(gpus, [exports, fails])
    assert set(first.findings) == {("MR-DMABUF-EXPORT", "node1/gpu1/rxe0")}
    skipped = first.of(Outcome.SKIPPED)
    assert set(skipped) == {
        f"gpu_memory_{check}[node1/gpu0/rxe0, dmabuf]" for check in ("registers", "moves")
    }
    assert all("attribute 0" in why and "801" in why for why in skipped.values())
    limited = first.by_id["gpu_memory_registers[node1/gpu1/rxe0, peermem]"]
    assert limited.outcome is Outcome.PASSED
    assert "BAR1 has 96 MiB" in limited.properties["limited by"]
    assert set(second.findings) == {
        ("GPU-GONE", "node2/gpu0"),
        ("GPU-MEMORY-FULL", "node2/gpu1"),
    }


def test_peermem_and_the_kernels_own_answer_to_dmabuf(gpus: Warm) -> None:
    node1, node2 = gpus.nodes
    # rxe itself, without the stand-in for ibv_reg_dmabuf_mr; and ib_core without nvidia-peermem.
    neither = Fault(
        small(node1, dmabuf=False, peermem=False), profile(registration="any"), without=(CLIENT,)
    )
    # It registers all the same: that cannot have been memory of the GPU.
    absent = Fault(small(node2), profile(registration="any", expect={}), without=(PEERMEM, CLIENT))
    first, second = run(gpus, [neither, absent])
    place = "node1/gpu0/rxe0"
    assert set(first.findings) == {
        ("MR-DMABUF-PROVIDER", place),
        ("MR-PEERMEM-UNREGISTERED", place),
    }
    assert "95 EOPNOTSUPP" in first.findings["MR-DMABUF-PROVIDER", place].evidence["errno"]
    assert "14 EFAULT" in first.findings["MR-PEERMEM-UNREGISTERED", place].evidence["errno"]
    assert set(second.findings) == {
        ("MR-NOT-GPU-MEMORY", f"node2/{gpu}/rxe0") for gpu in (NEAR, FAR)
    }


def test_a_kernel_and_a_registration_that_never_return_are_named(gpus: Warm) -> None:
    node1, node2 = gpus.nodes
    # Facts are read within the same time, of which a part is for each driver.
    waits = Deadlines(check_s=60)
    launch = Fault(small(node1, gpu_faults={0: Faults(hang=["cuLaunchKernel"])}), of_every_gpu())
    registers = Fault(small(node2, gpu_faults={1: Faults(hang=["ibv_reg_mr"])}), of_every_gpu())
    first, second = run(gpus, [launch, registers], deadlines=waits, time_scale=1)
    hung = first.of(Outcome.ERROR)
    assert set(hung) == {"gpu_pattern[node1/gpu0]"}
    assert "on node1/gpu0, while: cuLaunchKernel" in hung["gpu_pattern[node1/gpu0]"]
    assert first.outcomes("[node1/gpu1") == {Outcome.PASSED}
    assert first.outcomes("registers[node1/gpu0") == {Outcome.BLOCKED}
    hung = second.of(Outcome.ERROR)
    (case,) = hung
    assert case == "gpu_memory_registers[node2/gpu1/rxe0, peermem]"
    assert "on node2/gpu1/rxe0, while: ibv_reg_mr" in hung[case]
    assert second.outcomes("registers[node2/gpu0") == {Outcome.PASSED}
    # What is left needs the same NIC.
    assert second.outcomes("moves[node2") == {Outcome.BLOCKED}
