"""Each two GPUs of a node reach each other's memory, and every byte arrives, without any NIC."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest

from checks.node.peers import GpuPair
from gdrcheck import gates
from gdrcheck.facts import Facts
from gdrcheck.profile import Profile
from gdrcheck.rules import gpu_peers as rules

if TYPE_CHECKING:
    from gdrcheck.gpu.context import Gpu

Calls = Callable[[], AbstractContextManager[None]]


def check_gpu_peers(
    gpu_pair: GpuPair,
    open_pair: tuple[Gpu, Gpu],
    calls_of_pair: Calls,
    profile: Profile,
    facts: Facts,
    request: pytest.FixtureRequest,
) -> None:
    """Each of the two reaches the other's memory by copy and by kernel, and keeps every byte."""
    from gdrcheck.gpu.peers import exchange, reach

    where, slots = gpu_pair.where, gpu_pair.slots
    with calls_of_pair():
        reached = reach(*open_pair)
    gates.fail(rules.unreachable(where, reached, slots, profile, facts))
    with calls_of_pair():
        ways = exchange(*open_pair, secrets.randbits(64))
    request.node.user_properties += rules.measured(ways, slots, facts)
    gates.fail(rules.data_wrong(where, ways))
