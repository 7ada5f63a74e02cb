"""A whole run of two nodes that are troubled in ways that do not hide each other.

One has none of the GPUs that its profile promises, and its clock is an hour ahead. One run for
both: it takes a minute and more in the lab.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from lab import api
from lab.emulated_gpu.control import configuration, configured, driver_files
from lab.emulated_gpu.node_files import SLOTS
from tests.lab.conftest import IMAGE
from tests.lab.warm import Merged, spec, warm

pytestmark = pytest.mark.lab
PROFILE = Path(__file__).resolve().parents[2] / "lab/inventory/profiles/lab_gpu.yml"
# What the two are read from; the merge tells what else is owed.
CHECKS = (
    "check_ports.py",
    "check_verbs.py",
    "check_gpus.py",
    "check_cuda.py",
    "check_registration.py",
    "check_pingpong.py",
    "check_counters.py",
)
HOUR_S = 3600


@contextmanager
def clock_ahead(node: api.Node, seconds: int) -> Iterator[None]:
    """A node whose clock is so far ahead."""
    node.ssh(f"sudo date -s '+{seconds} seconds'", check=True)
    try:
        yield
    finally:
        node.ssh("sudo /usr/lib/gdrcheck-lab/clock", check=True)


@contextmanager
def without_gpus(node: api.Node) -> Iterator[None]:
    """A node whose GPUs are neither on PCI nor with the driver."""
    slots = [f"sys/bus/pci/devices/{slot}" for slot in SLOTS]
    with (
        driver_files(node, without=slots),
        configured(node, replace(configuration(node), gpus=())),
    ):
        yield


@contextmanager
def small_gpus(node: api.Node) -> Iterator[None]:
    """A node whose GPUs have little memory: to touch more takes an emulated guest seconds."""
    config = configuration(node)
    gpus = [replace(gpu, memory_mib=160, bar1_mib=160) for gpu in config.gpus]
    with configured(node, replace(config, gpus=gpus)):
        yield


@pytest.fixture(scope="module")
def troubled(the_lab: api.Lab, results: Path) -> Merged:
    """What came of the run."""
    nodes = the_lab.nodes[:2]
    profile = {**yaml.safe_load(PROFILE.read_text()), "registration": "dmabuf", "expect": {}}
    with (
        warm(nodes, IMAGE, results, name="troubled", gpus=True) as containers,
        small_gpus(nodes[0]),
        without_gpus(nodes[1]),
        clock_ahead(nodes[1], HOUR_S),
    ):
        return containers.start(spec(nodes, profile), only=CHECKS).finish()


def test_gpus_that_one_node_lacks_block_the_cases_that_need_them(troubled: Merged) -> None:
    assert set(troubled.codes) == {
        ("GPU-MISSING", "node2/gpu0"),
        ("GPU-MISSING", "node2/gpu1"),
        ("HOST-CLOCK-OFFSET", "node2"),
    }
    cells = {name: out for name, out in troubled.outcomes.items() if name.startswith("pingpong[")}
    hosts = [out for name, out in cells.items() if "host-host" in name]
    assert hosts == ["passed"] * 10
    gpus = [out for name, out in cells.items() if "host-host" not in name]
    assert gpus == ["blocked"] * 30
    assert troubled.outcomes["gpu_memory_moves[node1/gpu0/rxe0, dmabuf]"] == "passed"


def test_clocks_an_hour_apart_change_no_result_and_no_duration(troubled: Merged) -> None:
    # The clock itself is told of, as a warning; what was measured passed: see above.
    cases = ElementTree.parse(troubled.directory / "junit.xml").getroot().iter("testcase")
    times_s = [float(case.get("time", "nan")) for case in cases]
    assert times_s
    assert all(0 <= one < HOUR_S / 2 for one in times_s)
