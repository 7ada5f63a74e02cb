"""PCI Express: NICs and GPUs have whole links, no errors, and the settings that were promised."""

from __future__ import annotations

import pytest

from checks.conftest import PromisedGpu
from gdrcheck import gates
from gdrcheck.facts import Facts
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail
from gdrcheck.rules import absence, pci, pci_links, pci_settings


@pytest.mark.usefixtures("node")
def check_pci_listed(profile: Profile, facts: Facts) -> None:
    """The functions on PCI can be read, of which the profile promises some."""
    gates.pci_listed(profile, facts)


def check_nic_driver_bound(rail: Rail, profile: Profile, facts: Facts) -> None:
    """The rail's NIC has a driver: none lies idle on the bus while the rail lacks its device."""
    gates.fail(absence.driver_unbound(rail, profile, facts))


def check_pci_link_width(present_rail: Rail, profile: Profile, facts: Facts) -> None:
    """Every link from the NIC to its root port has all lanes that both its ends can do."""
    gates.fail(pci_links.width_of_nic(present_rail, profile, facts))


def check_pci_link_speed(present_rail: Rail, profile: Profile, facts: Facts) -> None:
    """Every link from the NIC to its root port is as fast as both its ends can be."""
    gates.fail(pci_links.speed_of_nic(present_rail, profile, facts))


def check_pci_errors(present_rail: Rail, profile: Profile, facts: Facts) -> None:
    """No function from the NIC to its root port has counted uncorrectable errors since boot."""
    gates.fail(pci.errors_of_nic(present_rail, profile, facts))


def check_gpu_link_width(gpu: PromisedGpu, profile: Profile, facts: Facts) -> None:
    """Every link from the GPU to its root port has all lanes that both its ends can do."""
    gates.fail(pci_links.width_of_gpu(gpu.where, gpu.slot, profile, facts))


def check_gpu_link_speed(gpu: PromisedGpu, profile: Profile, facts: Facts) -> None:
    """Every link from the GPU to its root port is as fast as both its ends can be."""
    gates.fail(pci_links.speed_of_gpu(gpu.where, gpu.slot, profile, facts))


def check_gpu_pci_errors(gpu: PromisedGpu, profile: Profile, facts: Facts) -> None:
    """No function from the GPU to its root port has counted uncorrectable errors since boot."""
    gates.fail(pci.errors_of_gpu(gpu.where, gpu.slot, profile, facts))


def check_rail_distance(gpu_rail: Rail, profile: Profile, facts: Facts) -> None:
    """The rail's GPU and NIC are as close on PCI as promised."""
    gates.fail(pci.rail_distance(gpu_rail, profile, facts))


def check_acs(present_rail: Rail, profile: Profile, facts: Facts) -> None:
    """The bridges between the rail's GPU and NIC redirect peer-to-peer traffic as promised."""
    gates.fail(pci_settings.acs(present_rail, profile, facts))


def check_relaxed_ordering(present_rail: Rail, profile: Profile, facts: Facts) -> None:
    """Relaxed ordering of the NIC is enabled or disabled as promised."""
    gates.fail(pci_settings.relaxed_ordering(present_rail, profile, facts))


def check_max_payload(present_rail: Rail, profile: Profile, facts: Facts) -> None:
    """The NIC's packets may carry as much as promised."""
    gates.fail(pci_settings.payload(present_rail, profile, facts))


def check_max_read_request(present_rail: Rail, profile: Profile, facts: Facts) -> None:
    """The NIC may ask for as much at a time as promised."""
    gates.fail(pci_settings.read_request(present_rail, profile, facts))
