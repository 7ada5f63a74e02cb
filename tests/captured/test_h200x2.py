"""A real machine, by the tree that was captured on it: its facts are what nvidia-smi said there."""

from __future__ import annotations

import pytest

from gdrcheck import probes, topology
from gdrcheck.facts import Ecc, Facts, GpuHealth, NvidiaDriver, Nvml
from tests.captured.machines import h200x2


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    return probes.collect("node1", h200x2.machine().write(tmp_path_factory.mktemp("h200x2")))


def test_versions_are_those_of_nvidia_smi(facts: Facts) -> None:
    assert isinstance(facts.nvml, Nvml)
    assert isinstance(facts.nvidia, NvidiaDriver)
    assert facts.nvml.driver_version == facts.nvidia.version == "580.159.04"
    assert facts.nvidia.cuda == "13.0"
    assert facts.nvidia.open_module is True
    assert facts.emulated is False


def test_both_gpus_are_healthy_and_told_apart(facts: Facts) -> None:
    assert isinstance(facts.nvml, Nvml)
    assert tuple(gpu.slot for gpu in facts.nvml.gpus) == h200x2.GPU_SLOTS
    assert len({gpu.uuid for gpu in facts.nvml.gpus}) == 2
    for gpu in facts.nvml.gpus:
        assert isinstance(gpu.health, GpuHealth)
        assert isinstance(gpu.health.ecc, Ecc)
        assert gpu.model == "NVIDIA H200"
        assert gpu.health.ecc.mode == "enabled"
        assert gpu.health.ecc.volatile.uncorrectable == 0
        assert gpu.health.power.limit_w == 700
        assert gpu.health.recovery_action == "none"


def test_the_gpus_are_as_far_apart_as_nvidia_smi_topo_says(facts: Facts) -> None:
    one, other = h200x2.GPU_SLOTS
    assert topology.nvlinks_between(facts, one, other) == 18
    assert topology.distance(facts, one, other) == "PHB"
