"""The checks of GPUs' health from end to end: the real probe asks the emulated driver, and the real
checks judge what it said and what they see under load.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gdrcheck.outcome import Outcome
from gdrcheck.probes import nvml_read
from lab.emulated_gpu.config import Config, Corrupt, Faults
from tests.captured.running import Ran
from tests.checks.world import CONFIG, World, facts

FILES = ("check_gpus.py", "check_gpu_health.py", "check_gpu_load.py", "check_gpu_peers.py")


def run(world: World, config: Config) -> Ran:
    """The checks of a node of which NVML says what it says with ``config``."""
    with world.driven_by(config):
        known = facts(nvml=nvml_read.machine(Path("/nowhere")))
    return world.run(config, known=known, files=FILES)


def test_sound_gpus_pass(world: World) -> None:
    ran = run(world, CONFIG)
    assert ran.findings == {}
    assert ran.of(Outcome.ERROR) == {}
    passed = {case.partition("[")[0] for case in ran.of(Outcome.PASSED)}
    assert {"gpu_ecc", "gpu_recovery", "gpu_under_load", "gpu_nvlinks", "gpu_peers"} <= passed
    load = ran.cases["gpu_under_load[node1/gpu0]"].properties
    assert load["PCIe link"].startswith("generation 5 of 5, width 16 of 16")


def test_what_shows_only_under_load_is_found_on_its_gpu(world: World) -> None:
    first, second = CONFIG.gpus
    throttled = replace(first, values={"clock limits": "0x40"})
    slow = replace(second, values={"pcie generation load": 3, "replays": "900 after 1"})
    config = replace(CONFIG, gpus=[throttled, slow], gpu_faults={1: Faults(peer_corrupt=Corrupt())})
    ran = run(world, config)
    assert set(ran.findings) == {
        ("GPU-THROTTLED", "node1/gpu0"),
        ("PCI-LINK-SPEED", "node1/gpu1"),
        ("GPU-PEER-DATA", "node1/gpu0 (with node1/gpu1)"),
    }
    (finding,) = ran.cases["gpu_under_load[node1/gpu1]"].findings
    assert "GPU-PCIE-REPLAYS" in finding.evidence
