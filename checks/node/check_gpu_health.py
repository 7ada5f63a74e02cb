"""GPUs: without errors, set as promised, and their NVLinks are up."""

from __future__ import annotations

import pytest

from checks.conftest import PromisedGpu
from gdrcheck import gates
from gdrcheck.facts import Facts, Gpu
from gdrcheck.profile import Profile
from gdrcheck.rules import gpu as gpus
from gdrcheck.rules import gpu_health, gpu_settings, gpu_shown, nvlink


@pytest.fixture
def answer(gpu: PromisedGpu, profile: Profile, facts: Facts) -> Gpu:
    """What the driver says of the GPU; Blocked by the finding that keeps it away."""
    return gpus.answering(gpu.where, gpu.slot, profile, facts)


def check_gpu_ecc(
    gpu: PromisedGpu, answer: Gpu, profile: Profile, request: pytest.FixtureRequest
) -> None:
    """ECC of the GPU is as promised and had nothing that it could not correct."""
    request.node.user_properties += gpu_shown.ecc(answer)
    gates.fail(gpu_settings.wrong_ecc_mode(gpu.where, answer, profile))
    gates.fail(gpu_health.uncorrectable(gpu.where, answer, profile))


def check_gpu_memory_repair(
    gpu: PromisedGpu, answer: Gpu, profile: Profile, request: pytest.FixtureRequest
) -> None:
    """No repair of the GPU's memory waits for a reset, and none failed."""
    request.node.user_properties += gpu_shown.memory_repair(answer)
    gates.fail(gpu_health.memory_repair(gpu.where, answer, profile))


def check_gpu_recovery(gpu: PromisedGpu, answer: Gpu, profile: Profile, facts: Facts) -> None:
    """The driver does not ask for a reset of the GPU."""
    gates.fail(gpu_health.reset_needed(gpu.where, answer, profile, facts))


def check_gpu_xids(
    gpu: PromisedGpu, answer: Gpu, profile: Profile, facts: Facts, request: pytest.FixtureRequest
) -> None:
    """The kernel log has no Xid of the GPU, since the start of the node, that calls for repair."""
    request.node.user_properties += gpu_shown.xids(answer, facts)
    gates.fail(gpu_health.fatal_xid(gpu.where, answer, profile, facts))


def check_gpu_settings(
    gpu: PromisedGpu, answer: Gpu, profile: Profile, request: pytest.FixtureRequest
) -> None:
    """Compute mode, persistence and power limit of the GPU are as promised."""
    request.node.user_properties += gpu_shown.settings(answer)
    gates.fail(gpu_settings.wrong_compute_mode(gpu.where, answer, profile))
    gates.fail(gpu_settings.wrong_persistence(gpu.where, answer, profile))
    gates.fail(gpu_settings.low_power_limit(gpu.where, answer, profile))


def check_gpu_vbios(
    gpu: PromisedGpu, answer: Gpu, profile: Profile, request: pytest.FixtureRequest
) -> None:
    """The VBIOS of the GPU is the promised one."""
    request.node.user_properties += gpu_shown.firmware(answer)
    gates.fail(gpu_settings.wrong_vbios(gpu.where, answer, profile))


def check_gpu_nvlinks(
    gpu: PromisedGpu, answer: Gpu, profile: Profile, facts: Facts, request: pytest.FixtureRequest
) -> None:
    """As many NVLinks of the GPU are up as promised, or as another GPU of the node has."""
    request.node.user_properties += gpu_shown.nvlinks(answer)
    gates.fail(nvlink.links_down(gpu.where, answer, profile, facts))


@pytest.mark.usefixtures("node")
def check_confidential_computing(profile: Profile, facts: Facts) -> None:
    """Confidential computing of the node's GPUs is as promised."""
    gates.fail(gpu_settings.wrong_confidentiality(profile, facts))


@pytest.mark.usefixtures("node")
def check_nvswitch_errors(profile: Profile, facts: Facts, request: pytest.FixtureRequest) -> None:
    """The kernel log has no fatal error of an NVSwitch since the start of the node."""
    request.node.user_properties += gpu_shown.sxids(facts)
    gates.fail(nvlink.switch_error(profile, facts))
