"""GPUs' health in real guests: each fault that NVML can tell of is found on the GPU that has it;
so is what only shows under load, or grows during a run; and sound GPUs pass.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gdrcheck.findings.model import Finding
from gdrcheck.outcome import Outcome
from lab import api
from lab.emulated_gpu.config import Config, Corrupt, Faults
from lab.emulated_gpu.control import configuration, configured
from tests.emulated_gpu.health_faults import FAULTS, HEALTHY, HealthFault
from tests.lab import judge
from tests.lab.conftest import IMAGE
from tests.lab.test_gpu import Cases, profile, small
from tests.lab.warm import HOME, Warm, spec, warm

pytestmark = pytest.mark.lab
DEADLINE_S = 240
HEALTH = (
    *("check_gpus.py", "check_gpu_health.py", "check_gpu_load.py", "check_gpu_peers.py"),
    "check_gpu_after.py",
)
# What is asked again at the end, and something of the node phase for which the run waits.
AFTER = ("check_cuda.py", "check_gpu_after.py")


@pytest.fixture(scope="module")
def gpus(the_lab: api.Lab, results: Path) -> Iterator[Warm]:
    """Warm containers with GPUs on node1 and node2."""
    with warm(the_lab.nodes[:2], IMAGE, results, name="health", gpus=True) as containers:
        yield containers


class Judge:
    """A process in a node's container that judges the node with one gpus.conf after the other."""

    def __init__(self, node: api.Node, container: str) -> None:
        self.node = node
        _put(node, Path(judge.__file__), f"{HOME}/judge.py")
        command = (
            f"sudo podman exec -i -e PYTHONPATH=/opt/gdrcheck {container} "
            f"/usr/bin/python3 /warm/judge.py {node.name} /tmp"
        )
        self._process = subprocess.Popen(
            node.ssh_command(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._answer() == {"emulated": True}

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(DEADLINE_S)

    def found(self, fault: HealthFault) -> tuple[list[Finding], list[str]]:
        """Findings and errors with one fault."""
        assert self._process.stdin is not None
        asked = {
            "file": fault.on(configuration(self.node)).text(),
            "profile": profile(expect=dict(fault.expect)),
        }
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        told = self._answer()
        return [Finding.model_validate(one) for one in told["findings"]], told["errors"]

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"{self.node.name}: the judge died"
        return dict(json.loads(line))


def _put(node: api.Node, source: Path, place: str) -> None:
    command = f"sudo tee {place} >/dev/null"
    done = subprocess.run(
        node.ssh_command(command), input=source.read_bytes(), timeout=DEADLINE_S, check=True
    )
    assert done.returncode == 0


def test_each_fault_alone_is_found_on_its_gpu_and_nothing_else(gpus: Warm) -> None:
    judges = Judge(gpus.nodes[0], gpus.name)
    try:
        for fault in (*HEALTHY, *FAULTS):
            findings, errors = judges.found(fault)
            found = {(one.code, one.where.gpu or "", one.severity) for one in findings}
            assert (found, errors) == (fault.found, []), fault.name
            assert {one.where.node for one in findings} <= {"node1"}
    finally:
        judges.close()


def test_sound_gpus_pass_and_what_shows_under_load_is_found(gpus: Warm) -> None:
    sound, node2 = gpus.nodes
    first, second = small(node2).gpus
    faulty = replace(
        small(node2),
        gpus=[
            replace(first, values={"clock limits": "0x40"}),
            replace(second, values={"pcie generation load": 3, "replays": "900 after 1"}),
        ],
        gpu_faults={1: Faults(peer_corrupt=Corrupt())},
    )
    well, ill = run(gpus, {sound: small(sound), node2: faulty})
    assert well.findings == {}
    assert well.of(Outcome.ERROR) == {}
    for case in ("gpu_ecc", "gpu_memory_repair", "gpu_recovery", "gpu_under_load", "gpu_nvlinks"):
        assert well.outcomes(f"{case}[node1/") == {Outcome.PASSED}
    assert well.outcomes("gpu_peers[") == {Outcome.PASSED}
    load = well.by_id["gpu_under_load[node1/gpu0]"].properties
    assert load["PCIe link"].startswith("generation 5 of 5, width 16 of 16; idle: generation 1")
    assert set(ill.findings) == {
        ("GPU-THROTTLED", "node2/gpu0"),
        ("PCI-LINK-SPEED", "node2/gpu1"),
        ("GPU-PEER-DATA", "node2/gpu0 (with node2/gpu1)"),
    }
    assert "GPU-PCIE-REPLAYS" in ill.findings["PCI-LINK-SPEED", "node2/gpu1"].evidence


def run(gpus: Warm, configs: dict[api.Node, Config]) -> list[Cases]:
    """The checks of health, each node with its file, at the same time."""
    with ExitStack() as stack:
        for node, config in configs.items():
            stack.enter_context(configured(node, config))
        runs = {node: gpus.start(spec([node], profile(expect={})), only=HEALTH) for node in configs}
        return [Cases(one.cases(node)) for node, one in runs.items()]


def test_what_grows_during_a_run_is_found_at_its_end(gpus: Warm) -> None:
    node1, node2 = gpus.nodes
    during = {
        node1: ({"xid": 79}, {"ecc volatile uncorrectable": 1}),
        node2: ({"nvlink 3 recovery": 2}, {"row remap pending": "yes", "nvlink 4": "down"}),
    }
    whole = spec(gpus.nodes, profile(pairs="required", expect={}))
    with ExitStack() as stack:
        for node in during:
            stack.enter_context(configured(node, small(node)))
        running = gpus.start(whole, only=AFTER)
        for node, values in during.items():
            # With the facts NVML was asked for the first time; at the end it is asked anew.
            running.wait_for(node, "GPU-", file="facts.json")
            config = small(node)
            changed = [
                replace(gpu, values=value) for gpu, value in zip(config.gpus, values, strict=True)
            ]
            stack.enter_context(configured(node, replace(config, gpus=changed)))
        found = {
            key: finding
            for node in during
            for key, finding in Cases(running.cases(node)).findings.items()
        }
    assert set(found) == {
        ("GPU-XID", "node1/gpu0"),
        ("GPU-ECC-UNCORRECTABLE", "node1/gpu1"),
        ("GPU-NVLINK-ERRORS", "node2/gpu0"),
        ("GPU-ROW-REMAP", "node2/gpu1"),
    }
    assert "GPU-NVLINK-DOWN" in found["GPU-ROW-REMAP", "node2/gpu1"].evidence
    assert "79" in found["GPU-XID", "node1/gpu0"].observed
