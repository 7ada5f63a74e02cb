"""What an idle GPU hides: its link, its clocks and its packets while data is copied to it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest

from checks.conftest import PromisedGpu
from gdrcheck import gates
from gdrcheck.facts import Facts
from gdrcheck.profile import Profile
from gdrcheck.rules import gpu_load as rules

if TYPE_CHECKING:
    from gdrcheck.gpu.context import Gpu

Calls = Callable[[], AbstractContextManager[None]]


def check_gpu_under_load(
    gpu: PromisedGpu,
    open_gpu: Gpu,
    calls: Calls,
    profile: Profile,
    facts: Facts,
    request: pytest.FixtureRequest,
) -> None:
    """While data is copied to the GPU its link is whole, and nothing holds its clocks down."""
    from gdrcheck.gpu.copying import under_load
    from gdrcheck.probes.nvml_now import asking

    slot = open_gpu.device.slot
    with calls(), asking(slot) as ask:
        load = under_load(open_gpu, ask)
    request.node.user_properties += rules.told(load).items()
    gates.fail(rules.wrong(gpu.where, slot, load, profile, facts))
