"""Rails of a node: which NIC serves which rail, from the profile and the facts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gdrcheck.facts import Facts, RdmaDevice
from gdrcheck.findings.model import Where
from gdrcheck.profile import NicSelector, Profile

WILDCARDS = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Rail:
    """One rail. ``nic`` is the device's name, or the promised one when ``missing`` says why."""

    id: int
    node: str
    gpu: str | None
    nic: str
    device: RdmaDevice | None
    missing: str | None = None

    @property
    def where(self) -> Where:
        """The place of this rail in findings and case names."""
        return Where(node=self.node, gpu=self.gpu, nic=self.nic)


def selected_devices(profile: Profile, facts: Facts) -> tuple[RdmaDevice, ...]:
    """The devices that the profile's selectors match, in PCI order, then by name."""
    if profile.rails is None or not isinstance(facts.rdma_devices, tuple):
        return ()
    return tuple(
        sorted(
            (
                device
                for device in facts.rdma_devices
                if any(_matches(selector, device) for selector in profile.rails.nics)
            ),
            key=_order,
        )
    )


def resolve(profile: Profile, facts: Facts) -> tuple[Rail, ...]:
    """One Rail for each that the profile promises, those without a device marked ``missing``.

    Devices beyond the promised count get no rail; judging the count is the checks' business.
    """
    if profile.rails is None:
        return ()
    devices = selected_devices(profile, facts)[: profile.rails.count]
    rails = [
        Rail(id=index, node=facts.node, gpu=None, nic=device.name, device=device)
        for index, device in enumerate(devices)
    ]
    unmet = iter(_unmet_names(profile.rails.nics, devices))
    for index in range(len(devices), profile.rails.count):
        name = next(unmet, f"rail{index}")
        rails.append(
            Rail(
                id=index,
                node=facts.node,
                gpu=None,
                nic=name,
                device=None,
                missing=f"no RDMA device for rail {index} ({name})",
            )
        )
    return tuple(rails)


def _matches(selector: NicSelector, device: RdmaDevice) -> bool:
    return any(
        selector.matches(name=device.name, slot=device.slot, netdev=netdev)
        for netdev in device.netdevs or (None,)
    )


def _order(device: RdmaDevice) -> tuple[str, list[int | str]]:
    """PCI address first; then names with their numbers as numbers, so mlx5_10 follows mlx5_9."""
    parts = re.split(r"(\d+)", device.name)
    natural = [int(part) if part.isdecimal() else part for part in parts]
    return device.slot or "", natural


def _unmet_names(selectors: tuple[NicSelector, ...], devices: tuple[RdmaDevice, ...]) -> list[str]:
    """The device names that selectors ask for literally and that no device has."""
    present = {device.name for device in devices}
    return [
        selector.name
        for selector in selectors
        if selector.name is not None
        and not WILDCARDS.search(selector.name)
        and selector.name not in present
    ]
