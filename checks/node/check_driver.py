"""NVIDIA's driver and the RDMA stack are there, fit together, and are what the profile promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gdrcheck import gates
from gdrcheck.facts import Facts
from gdrcheck.profile import Profile
from gdrcheck.rules import absence, driver, gpudirect, nvidia

if TYPE_CHECKING:
    from checks.conftest import ExpectedModule

PER_NODE = pytest.mark.usefixtures("node")


def check_module_loaded(module: ExpectedModule, profile: Profile, facts: Facts) -> None:
    """A kernel module that the promises need is loaded."""
    gpudirect.require_not_explained(module.name, profile, facts)
    gates.fail(driver.module_missing(module.name, profile, facts))


@PER_NODE
def check_nvidia_driver(profile: Profile, facts: Facts) -> None:
    """NVIDIA's kernel driver is loaded."""
    gates.fail(nvidia.nvidia_missing(profile, facts))


@PER_NODE
def check_nvidia_version(profile: Profile, facts: Facts) -> None:
    """NVIDIA's driver is of the promised version."""
    gates.fail(nvidia.version_differs(profile, facts))


@PER_NODE
def check_nvidia_module_kind(profile: Profile, facts: Facts) -> None:
    """NVIDIA's kernel module is the open or the proprietary one, as promised."""
    gates.fail(nvidia.kind_differs(profile, facts))


@PER_NODE
def check_cuda_supported(profile: Profile, facts: Facts) -> None:
    """NVIDIA's driver supports the promised version of CUDA."""
    gates.fail(nvidia.cuda_old(profile, facts))


@PER_NODE
def check_fabric_manager(profile: Profile, facts: Facts) -> None:
    """The NVSwitch fabric of a machine that has one is complete, and its service as promised."""
    gates.fail(nvidia.fabric_manager(profile, facts))


@PER_NODE
def check_dmabuf_possible(profile: Profile, facts: Facts) -> None:
    """Kernel and driver can export GPU memory as a dma-buf, if the profile demands that method."""
    gates.fail(gpudirect.dmabuf_impossible(profile, facts))


@PER_NODE
def check_peermem_fits(profile: Profile, facts: Facts) -> None:
    """nvidia-peermem was built for the loaded RDMA stack, if the profile demands that method."""
    gates.fail(gpudirect.peermem_symbols(profile, facts))


@PER_NODE
def check_peermem_registered(profile: Profile, facts: Facts) -> None:
    """nvidia-peermem is a client of the RDMA stack, if the profile demands that method."""
    gates.fail(gpudirect.peermem_inert(profile, facts))


@PER_NODE
def check_ofed(profile: Profile, facts: Facts) -> None:
    """The host has the promised RDMA stack."""
    gates.fail(driver.ofed_differs(profile, facts))


@PER_NODE
def check_rdma_modules_fit(profile: Profile, facts: Facts) -> None:
    """All RDMA modules come from one source: the kernel, or one vendor's stack."""
    gates.fail(driver.stack_mixed(profile, facts))


@PER_NODE
def check_providers(profile: Profile, facts: Facts) -> None:
    """The image has the user-space driver of every NIC that serves a rail."""
    absence.require_some_device(profile, facts)
    gates.fail(driver.providers_missing(profile, facts))
