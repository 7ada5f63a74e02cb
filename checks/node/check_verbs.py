"""Verbs devices open; their ports have the promised MTU, and a GID that a connection can use."""

from __future__ import annotations

from gdrcheck import gates
from gdrcheck.facts import Facts
from gdrcheck.findings.model import Finding
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail
from gdrcheck.rules import ports
from gdrcheck.rules.driver import provider_missing
from gdrcheck.verbs.device import Device, open_device
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.gid import NoUsableGid


def check_device_opens(present_rail: Rail, facts: Facts) -> None:
    """A verbs context can be had for the device, and the port answers a query."""
    gates.block(provider_missing(present_rail, facts))
    try:
        with open_device(present_rail.nic) as device:
            device.port(present_rail.port)
    except VerbsError as error:
        gates.fail(
            Finding(
                code="PORT-OPEN-FAILED",
                where=present_rail.where,
                observed=str(error),
                expected="the device opens",
            )
        )


def check_port_mtu(active_rail: Rail, profile: Profile) -> None:
    """The port's active MTU is at least the promised one."""
    gates.fail(ports.mtu_low(active_rail, profile))


def check_gid_usable(active_rail: Rail, device: Device, profile: Profile) -> None:
    """The port's GID table holds an entry of the promised family and type that can send."""
    gates.block(ports.other_link_layer(active_rail, profile))
    try:
        device.choose_gid(device.port(active_rail.port), profile.gid)
    except NoUsableGid as error:
        gates.fail(
            Finding(
                code="PORT-GID-NONE",
                where=active_rail.where,
                observed=str(error),
                expected=f"a usable GID, family {profile.gid.family}, type {profile.gid.type}",
            )
        )
