"""The emulated GPUs of the lab's nodes, as containers get them: by --device nvidia.com/gpu=all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from gdrcheck.facts import Facts, Nvml
from lab import api
from lab.emulated_gpu.control import configuration, configured, driver_files
from lab.emulated_gpu.node_files import DRIVER, SLOTS
from lab.paths import INVENTORY_SOURCES
from tests.lab.conftest import IMAGE
from tests.lab.warm import Warm, spec, warm

pytestmark = pytest.mark.lab
CONTAINER = "warm-gpus"
PEERMEM = ("sys/module/nvidia_peermem", "sys/kernel/mm/memory_peers")
# The errno of ibv_reg_dmabuf_mr with no descriptor, as pyverbs gives it.
DMABUF_PROBE = """
from pyverbs.device import Context
from pyverbs.mr import DmaBufMR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
try:
    DmaBufMR(PD(Context(name="rxe0")), 4096, 1, -1)
except PyverbsRDMAError as error:
    print(error.error_code)
"""

ASK_NVML = (
    "from pathlib import Path; from gdrcheck.probes import gpu; print(gpu.ask_nvml(Path('/')))"
)


@pytest.fixture(scope="module")
def gpus(the_lab: api.Lab, results: Path) -> Iterator[Warm]:
    """A warm container on node1 with its GPUs."""
    with warm(the_lab.nodes[:1], IMAGE, results, name=CONTAINER, gpus=True) as containers:
        yield containers


def profile() -> dict[str, Any]:
    """The lab's profile of nodes with GPUs, for one node."""
    text = (INVENTORY_SOURCES / "profiles/lab_gpu.yml").read_text()
    return {**yaml.safe_load(text), "pairs": "none"}


def inside(containers: Warm, *words: str) -> str:
    """What a command in the container of node1 prints."""
    node = containers.nodes[0]
    return node.ssh(["sudo", "podman", "exec", containers.name, *words], check=True).stdout


def topo(facts: Path) -> str:
    """What ``gdrcheck topo`` shows of facts."""
    command = [sys.executable, "-m", "gdrcheck", "topo", "--from", str(facts)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_a_healthy_node_has_no_finding_and_says_everywhere_that_it_is_emulated(
    gpus: Warm,
) -> None:
    merged = gpus.start(spec(gpus.nodes, profile())).finish()
    assert merged.codes == []
    about_gpus = {name: out for name, out in merged.outcomes.items() if "[node1/gpu" in name}
    assert set(about_gpus.values()) <= {"passed", "skipped"}
    for name in ("gpu_present", "gpu_answers", "gpu_model", "gpu_mig", "gpu_bar1"):
        assert {about_gpus[f"{name}[node1/gpu{number}]"] for number in range(2)} == {"passed"}
    for name in ("nvidia_driver", "nvidia_version", "dmabuf_possible", "peermem_registered"):
        assert merged.outcomes[f"{name}[node1]"] == "passed"
    assert merged.summary["emulated"] is True
    assert "EMULATED" in merged.console
    node = merged.directory / "nodes/node1"
    facts = Facts.model_validate_json((node / "facts.json").read_text())
    assert facts.emulated
    assert isinstance(facts.nvml, Nvml)
    assert tuple(gpu.slot for gpu in facts.nvml.gpus) == SLOTS
    topology = topo(node / "facts.json")
    assert "EMULATED" in topology
    assert "gpu1" in topology
    for junit in (merged.directory / "junit.xml", node / "junit.xml"):
        names = {one.get("name") for one in ElementTree.parse(junit).getroot().iter("property")}
        assert "EMULATED" in names


def test_the_drivers_files_change_under_a_container_that_runs(gpus: Warm) -> None:
    node = gpus.nodes[0]
    version = {"sys/module/nvidia/version": "570.1"}
    with driver_files(node, version, without=[*PEERMEM, f"sys/bus/pci/devices/{SLOTS[1]}"]):
        shown = inside(gpus, "ls", "/sys/module", "/sys/kernel/mm", "/sys/bus/pci/devices").split()
        assert not {"nvidia_peermem", "memory_peers", SLOTS[1]} & set(shown)
        assert {"nvidia", "nvidia_uvm", SLOTS[0]} <= set(shown)
        assert inside(gpus, "cat", "/sys/module/nvidia/version").strip() == "570.1"
    shown = inside(gpus, "ls", "/sys/module", "/sys/kernel/mm", "/sys/bus/pci/devices").split()
    assert {"nvidia_peermem", "memory_peers", SLOTS[1]} <= set(shown)
    assert inside(gpus, "cat", "/sys/module/nvidia/version").strip() == DRIVER


def test_without_the_stand_in_soft_roce_refuses_dmabuf_by_itself(gpus: Warm) -> None:
    node = gpus.nodes[0]
    assert inside(gpus, "python3", "-c", DMABUF_PROBE).split() == ["9"]
    with configured(node, replace(configuration(node), dmabuf=False)):
        assert inside(gpus, "python3", "-c", DMABUF_PROBE).split() == ["95"]


def test_a_container_without_gpus_sees_nothing_of_them(pair: Warm) -> None:
    assert inside(pair, "python3", "-c", ASK_NVML).strip() == "Asked(nvml=None, emulated=False)"
    libraries = inside(pair, "ls", "/usr/lib/x86_64-linux-gnu").split()
    assert not {"libcuda.so.1", "libnvidia-ml.so.1"} & set(libraries)
    assert inside(pair, "python3", "-c", DMABUF_PROBE).split() == ["95"]
