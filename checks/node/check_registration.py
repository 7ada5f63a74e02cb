"""Memory of each GPU registers with each NIC by each method, and data moves through both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from checks.node.conftest import GpuNicMethod
from checks.node.registering import Registering
from gdrcheck import gates, told
from gdrcheck.facts import Facts
from gdrcheck.profile import Profile
from gdrcheck.rules.movement import judge_movement
from gdrcheck.rules.registration_evidence import evidence_of_movement

if TYPE_CHECKING:
    from gdrcheck.verbs.queue_pair import Path


def check_gpu_memory_registers(
    gpu_nic: GpuNicMethod, registering: Registering, request: pytest.FixtureRequest
) -> None:
    """Every size and range registers as it was asked for, and registering again leaves nothing."""
    request.node.user_properties += told.attempt(registering.attempt(gpu_nic.method))
    gates.fail(registering.finding(gpu_nic.method))


@pytest.mark.moves
def check_gpu_memory_moves(
    gpu_nic: GpuNicMethod,
    registered: Registering,
    path: Path,
    profile: Profile,
    facts: Facts,
    request: pytest.FixtureRequest,
) -> None:
    """What the NIC writes and reads, into and out of the GPU, arrives whole, and nothing else."""
    from gdrcheck.memory.move import move

    pair, method = gpu_nic.pair, gpu_nic.method
    movement = move(registered.gpu, registered.device, path, method)
    request.node.user_properties += told.movement(movement)
    support = registered.attempt(method).support
    evidence = evidence_of_movement(movement, pair, facts, support)
    gates.fail(judge_movement(pair, movement, evidence, profile))
