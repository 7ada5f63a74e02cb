"""The check of two GPUs on emulated ones: what passes, what is found, and what is left open."""

from __future__ import annotations

import pytest

from gdrcheck.outcome import Outcome
from lab.emulated_gpu.config import Config, Corrupt
from tests import facts as builders
from tests.captured.running import Ran
from tests.checks.world import CONFIG, World, facts, profile, wrong
from tests.gpu_facts import gpu_health

FILES = ("check_gpu_peers.py",)
CASE = "gpu_peers[node1/gpu0 -> node1/gpu1]"
PAIR = "node1/gpu0 (with node1/gpu1)"
OVER_PCIE = builders.nvml(
    gpus=tuple(
        builders.gpu(gpu.slot, uuid=gpu.uuid, health=gpu_health(nvlinks=())) for gpu in CONFIG.gpus
    )
)


def found(ran: Ran) -> dict[str, str]:
    return {place: code for code, place in ran.findings}


def test_each_way_is_verified_and_measured(world: World) -> None:
    ran = world.run(files=FILES)
    assert set(ran.cases) == {CASE}
    assert ran.cases[CASE].outcome is Outcome.PASSED, ran.cases[CASE].message
    told = ran.cases[CASE].properties
    first, second = (gpu.slot for gpu in CONFIG.gpus)
    assert "GB/s" in told[f"copy {first} -> {second}"]
    assert "GB/s" in told[f"copy {second} -> {first}"]
    assert told["NVLinks between them"] == "18"
    assert "16777229 B; by copy, read in place, write in place" in told["verified"]


@pytest.mark.parametrize(
    ("config", "code"),
    [
        (wrong(0, peer_refuse=True), "GPU-PEER-ACCESS"),
        (wrong(1, peer_corrupt=Corrupt()), "GPU-PEER-DATA"),
        (wrong(0, fail={"cuCtxEnablePeerAccess": 217}), "GPU-PEER-ACCESS"),
        (wrong(0, fail={"cuMemcpyDtoD": 700}), "GPU-CUDA-FAILED"),
    ],
)
def test_what_is_wrong_between_two_gpus_is_found_there(
    world: World, config: Config, code: str
) -> None:
    ran = world.run(config, files=FILES)
    assert found(ran) == {PAIR: code}
    assert ran.cases[CASE].outcome is Outcome.FAILED


def test_data_that_changes_on_its_way_tells_which_way_and_that_the_source_is_right(
    world: World,
) -> None:
    ran = world.run(wrong(1, peer_corrupt=Corrupt()), files=FILES)
    (finding,) = ran.cases[CASE].findings
    first, second = (gpu.slot for gpu in CONFIG.gpus)
    assert finding.observed.startswith(f"{first} -> {second}, copy of 1 B at offset 0")
    assert finding.evidence["in the source's own memory"] == "every byte is right"


def test_gpus_that_only_pcie_joins_promise_no_access(world: World) -> None:
    both = wrong(0, peer_refuse=True).gpu_faults[0]
    config = Config(gpus=CONFIG.gpus, gpu_faults={0: both, 1: both})
    ran = world.run(config, known=facts(nvml=OVER_PCIE), files=FILES)
    assert ran.findings == {}
    assert ran.cases[CASE].outcome is Outcome.NOT_JUDGED
    promised = profile(expect={"peer_access": "all"})
    ran = world.run(config, known=facts(nvml=OVER_PCIE), promises=promised, files=FILES)
    assert found(ran) == {PAIR: "GPU-PEER-ACCESS"}


def test_a_gpu_that_does_not_open_blocks_the_pair(world: World) -> None:
    ran = world.run(wrong(1, fail={"cuDevicePrimaryCtxRetain": 46}), files=FILES)
    assert ran.findings == {}
    assert ran.of(Outcome.BLOCKED) == {CASE: "blocked by GPU-CUDA-FAILED at node1/gpu1"}


def test_one_gpu_has_no_other(world: World) -> None:
    one = profile(gpus={"count": 1, "model": "NVIDIA H200"})
    ran = world.run(promises=one, files=FILES)
    assert ran.of(Outcome.SKIPPED) == {
        "gpu_peers[node1]": "the profile promises no two GPUs of a node"
    }
