"""RDMA devices and their ports: there, open, active, as fast as promised, addressable."""

from __future__ import annotations

import pytest

from gdrcheck import gates
from gdrcheck.facts import Facts
from gdrcheck.findings.model import Finding
from gdrcheck.outcome import NotJudged
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail


def check_device_present(rail: Rail, facts: Facts) -> None:
    """The device that the profile promises for this rail exists."""
    gates.fail(gates.device_missing(rail, facts))


@pytest.mark.usefixtures("node")
def check_no_extra_device(profile: Profile, facts: Facts) -> None:
    """The profile's selectors match no more devices than it has rails."""
    gates.fail(gates.devices_extra(profile, facts))


def check_port_active(present_rail: Rail) -> None:
    """The port's state is ACTIVE."""
    gates.fail(gates.port_not_active(present_rail))


def check_port_rate(active_rail: Rail, profile: Profile) -> None:
    """The port runs at the promised rate, or faster."""
    rail = active_rail
    rate_gbps = gates.readable(gates.port_of(rail).rate_gbps, rail.where, "port rate")
    promised_gbps = profile.rails.port_rate_gbps if profile.rails else None
    if promised_gbps is None:
        raise NotJudged(f"port rate is {rate_gbps:g} Gb/s; the profile promises none")
    if rate_gbps < promised_gbps:
        gates.fail(
            Finding(
                code="PORT-RATE-LOW",
                where=rail.where,
                unit="Gb/s",
                observed=f"{rate_gbps:g}",
                expected=f"at least {promised_gbps:g}",
            )
        )


def check_port_link_layer(present_rail: Rail, profile: Profile) -> None:
    """The port is of the promised link layer."""
    rail = present_rail
    layer = gates.readable(gates.port_of(rail).link_layer, rail.where, "link layer")
    promised = profile.rails.link_layer if profile.rails else None
    if promised is None:
        raise NotJudged(f"link layer is {layer}; the profile promises none")
    if layer != promised:
        gates.fail(
            Finding(
                code="PORT-LINK-LAYER",
                where=rail.where,
                observed=layer,
                expected=promised,
            )
        )
