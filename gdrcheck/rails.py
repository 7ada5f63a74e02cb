"""Rails of a node: which NIC serves which rail, from the profile and the facts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gdrcheck.facts import Facts, RdmaDevice
from gdrcheck.findings.model import Where
from gdrcheck.profile import NicSelector, Profile, Rails


@dataclass(frozen=True, slots=True)
class Rail:
    """One rail. ``nic`` is the device's name, or the promised one when ``missing`` says why.

    ``named_port`` is the port that the profile names, None when it leaves that open.
    """

    id: int
    node: str
    gpu: str | None
    nic: str
    device: RdmaDevice | None
    missing: str | None = None
    named_port: int | None = None

    @property
    def port(self) -> int:
        """The number of the port that serves this rail."""
        return self.named_port or 1

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

    Rail i is the device that the i-th selector names, if there is one selector for each rail and
    none has a wildcard: then a device that is missing does not move the others to other rails. Else
    the devices are taken in PCI order. Devices beyond the promised count get no rail; judging the
    count is the checks' business.
    """
    if profile.rails is None:
        return ()
    selected = selected_devices(profile, facts)
    if len(profile.rails.nics) == profile.rails.count and all(
        selector.literal for selector in profile.rails.nics
    ):
        return _in_order_of_selectors(profile.rails, facts.node, selected)
    devices = selected[: profile.rails.count]
    rails = [
        _rail(index, facts.node, device, _selector_of(device, profile.rails))
        for index, device in enumerate(devices)
    ]
    unmet = iter(_unmet_names(profile.rails.nics, devices))
    for index in range(len(devices), profile.rails.count):
        rails.append(_missing(index, facts.node, next(unmet, f"rail{index}")))
    return tuple(rails)


def _in_order_of_selectors(
    promised: Rails, node: str, devices: tuple[RdmaDevice, ...]
) -> tuple[Rail, ...]:
    rails: list[Rail] = []
    left = list(devices)
    for index, selector in enumerate(promised.nics):
        # A device serves one rail: a second selector that means the same one finds nothing.
        device = next((device for device in left if _matches(selector, device)), None)
        if device is None:
            rails.append(_missing(index, node, selector.name or f"rail{index}"))
        else:
            left.remove(device)
            rails.append(_rail(index, node, device, selector))
    return tuple(rails)


def _selector_of(device: RdmaDevice, promised: Rails) -> NicSelector:
    return next(selector for selector in promised.nics if _matches(selector, device))


def _rail(index: int, node: str, device: RdmaDevice, selector: NicSelector) -> Rail:
    return Rail(
        id=index,
        node=node,
        gpu=None,
        nic=device.name,
        device=device,
        named_port=selector.port,
    )


def _missing(index: int, node: str, name: str) -> Rail:
    return Rail(
        id=index,
        node=node,
        gpu=None,
        nic=name,
        device=None,
        missing=f"no RDMA device for rail {index} ({name})",
    )


def _matches(selector: NicSelector, device: RdmaDevice) -> bool:
    return any(
        selector.matches(name=device.name, slot=device.slot, netdev=netdev)
        for netdev in device.netdevs or (None,)
    )


def _order(device: RdmaDevice) -> tuple[list[int], list[int | str]]:
    """PCI address first; then names with their numbers as numbers, so mlx5_10 follows mlx5_9."""
    parts = re.split(r"(\d+)", device.name)
    natural = [int(part) if part.isdecimal() else part for part in parts]
    slot = [int(part, 16) for part in re.split("[:.]", device.slot)] if device.slot else []
    return slot, natural


def _unmet_names(selectors: tuple[NicSelector, ...], devices: tuple[RdmaDevice, ...]) -> list[str]:
    """The device names that selectors ask for literally and that no device has."""
    present = {device.name for device in devices}
    return [
        selector.name
        for selector in selectors
        if selector.name is not None and selector.literal and selector.name not in present
    ]
