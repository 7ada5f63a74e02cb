"""RDMA devices and their ports: there, active, as fast as promised, set up as promised."""

from __future__ import annotations

import pytest

from gdrcheck import gates
from gdrcheck.facts import Facts
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail
from gdrcheck.rules import absence, arp, ports


def check_device_present(rail: Rail, profile: Profile, facts: Facts) -> None:
    """The device that the profile promises for this rail exists."""
    gates.fail(absence.device_missing(rail, profile, facts))


@pytest.mark.usefixtures("node")
def check_no_extra_device(profile: Profile, facts: Facts) -> None:
    """The profile's selectors match no more devices than it has rails."""
    gates.fail(gates.devices_extra(profile, facts))


@pytest.mark.usefixtures("node")
def check_no_device_lacking(profile: Profile, facts: Facts) -> None:
    """The profile's selectors, where they do not name each device, match one for each rail."""
    gates.fail(absence.devices_lacking(profile, facts))


def check_port_active(present_rail: Rail) -> None:
    """The port's state is ACTIVE."""
    gates.fail(gates.port_not_active(present_rail))


def check_port_link_layer(present_rail: Rail, profile: Profile) -> None:
    """The port is of the promised link layer."""
    gates.fail(ports.link_layer_wrong(present_rail, profile))


def check_port_lanes(active_rail: Rail, profile: Profile) -> None:
    """The port has lost no lane that the promised rate needs."""
    gates.fail(ports.lanes_missing(active_rail, profile))


def check_port_rate(active_rail: Rail, profile: Profile) -> None:
    """The port runs at the promised rate, or faster."""
    gates.fail(ports.rate_low(active_rail, profile))


def check_port_firmware(present_rail: Rail, profile: Profile) -> None:
    """The NIC runs the promised firmware."""
    gates.fail(ports.firmware_wrong(present_rail, profile))


def check_port_partition(active_rail: Rail, profile: Profile) -> None:
    """The port is a member of the promised partition."""
    gates.fail(ports.pkey_missing(active_rail, profile))


def check_port_traffic_class(present_rail: Rail, profile: Profile) -> None:
    """The driver lets packets have the traffic class that the profile asks for."""
    gates.fail(ports.traffic_class_overridden(present_rail, profile))


@pytest.mark.usefixtures("node")
def check_rails_keep_addresses_apart(profile: Profile, facts: Facts) -> None:
    """No RoCE rail of the node answers ARP for another one."""
    gates.fail(arp.arp_flux(profile, facts))
