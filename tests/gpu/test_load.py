"""A real GPU under load: its link comes up, and NVML and CUDA go together in one process."""

from __future__ import annotations

import pytest

from gdrcheck.facts import Facts
from gdrcheck.findings.model import Where
from gdrcheck.gpu.context import Gpu
from gdrcheck.gpu.copying import under_load
from gdrcheck.probes.nvml_now import asking
from gdrcheck.profile import Profile
from gdrcheck.rules import gpu_load

pytestmark = pytest.mark.gpu

# Less is no PCI Express link that a GPU for computing would have.
LEAST_GBYTES_PER_S = 1.0
# What the check may cost a GPU.
MOST_S = 2.0


def test_a_gpu_has_its_whole_link_while_data_is_copied_to_it(gpu: Gpu, facts: Facts) -> None:
    slot = gpu.device.slot
    with asking(slot) as ask:
        load = under_load(gpu, ask)
    link = load.last.pcie
    assert (link.generation, link.width) == (link.max_generation, link.max_width)
    assert load.copied_bytes / load.took_s / 1e9 > LEAST_GBYTES_PER_S
    assert load.took_s < MOST_S
    where = Where(node=facts.node, gpu="gpu0")
    profile = Profile.model_validate({"gpus": {"count": 1, "model": "*"}})
    assert gpu_load.wrong(where, slot, load, profile, facts) is None
