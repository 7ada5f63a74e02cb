"""GPUs: as many as promised, the driver answers for each, and each is what was bought."""

from __future__ import annotations

import pytest

from checks.conftest import PromisedGpu
from gdrcheck import gates
from gdrcheck.facts import Facts
from gdrcheck.profile import Profile
from gdrcheck.rules import gpu as rules


def check_gpu_present(gpu: PromisedGpu, profile: Profile, facts: Facts) -> None:
    """The GPU is on PCI."""
    gates.fail(rules.missing(gpu.where, gpu.slot, profile, facts))


@pytest.mark.usefixtures("node")
def check_no_extra_gpu(profile: Profile, facts: Facts) -> None:
    """PCI shows no more of NVIDIA's GPUs than the profile promises."""
    gates.fail(rules.extra(profile, facts))


@pytest.mark.usefixtures("node")
def check_nvml_answers(profile: Profile, facts: Facts) -> None:
    """NVIDIA's driver can be asked about its GPUs from here."""
    gates.fail(rules.nvml_failed(profile, facts))


def check_gpu_answers(gpu: PromisedGpu, profile: Profile, facts: Facts) -> None:
    """The driver answers for the GPU."""
    gates.fail(rules.lost(gpu.where, gpu.slot, profile, facts))


def check_gpu_model(gpu: PromisedGpu, profile: Profile, facts: Facts) -> None:
    """The GPU is of the promised model."""
    answer = rules.answering(gpu.where, gpu.slot, profile, facts)
    gates.fail(rules.wrong_model(gpu.where, answer, profile))


def check_gpu_mig(gpu: PromisedGpu, profile: Profile, facts: Facts) -> None:
    """The GPU is in the promised MIG mode."""
    answer = rules.answering(gpu.where, gpu.slot, profile, facts)
    gates.fail(rules.wrong_mig(gpu.where, answer, profile))


def check_gpu_bar1(gpu: PromisedGpu, profile: Profile, facts: Facts) -> None:
    """The GPU's window for NICs is as large as promised, or as large as its memory."""
    answer = rules.answering(gpu.where, gpu.slot, profile, facts)
    gates.fail(rules.small_bar1(gpu.where, answer, profile))
