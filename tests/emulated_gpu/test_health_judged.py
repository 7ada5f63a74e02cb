"""Each fault of a GPU's health, read by the real binding and judged by the real rules, is found for
what it is, on the GPU that has it, and nothing else is.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gdrcheck.commands.judging import judge
from gdrcheck.facts import Facts
from gdrcheck.probes import nvml_read
from lab.emulated_gpu.config import Config, h200s
from tests import facts as build
from tests.emulated_gpu.emulation import Emulation
from tests.emulated_gpu.health_faults import FAULTS, HEALTHY, HealthFault

SLOTS = (build.GPU_SLOT, "0000:1c:00.0")


def healthy() -> Config:
    gpus = [replace(gpu, slot=slot) for gpu, slot in zip(h200s(2), SLOTS, strict=True)]
    return Config(gpus)


def facts_now() -> Facts:
    """A node with the two GPUs, and what NVML says of them now."""
    tree = build.pci_tree()
    second = build.gpu_function(SLOTS[1])
    tree = tree.model_copy(update={"functions": (*tree.functions, second)})
    return build.facts(pci=tree, nvml=nvml_read.machine(Path("/nowhere")))


@pytest.mark.parametrize("fault", [*HEALTHY, *FAULTS], ids=lambda fault: fault.name)
def test_a_fault_alone_is_found_where_it_is(emulation: Emulation, fault: HealthFault) -> None:
    fault.on(healthy()).write(emulation.path)
    profile = build.profile(gpus={"count": 2, "model": "NVIDIA H200"}, expect=dict(fault.expect))
    judged = judge(profile, facts_now())
    found = {(one.code, one.where.gpu or "", one.severity) for one in judged.findings}
    assert found == fault.found
    assert judged.errors == ()
