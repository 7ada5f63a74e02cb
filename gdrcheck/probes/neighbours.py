"""What the cables of RDMA devices lead to, as the host collector learned it, if it was asked to."""

from __future__ import annotations

from pydantic import ValidationError

from gdrcheck.facts import Neighbour, Netdev, RdmaDevice, Unreadable
from gdrcheck.probes.collected import Collected, as_unreadable

KEY = "neighbours"

Told = dict[str, Neighbour | Unreadable]


def with_neighbours(
    devices: tuple[RdmaDevice, ...] | Unreadable, left: Collected
) -> tuple[RdmaDevice, ...] | Unreadable:
    """``devices``, their interfaces with the neighbours that the collector's files tell.

    They stay as they are when it did not run or was not asked.
    """
    told = _told(left)
    if told is None or isinstance(devices, Unreadable):
        return devices
    return tuple(
        device.model_copy(update={"netdevs": tuple(_netdev(one, told) for one in device.netdevs)})
        for device in devices
    )


def _told(left: Collected) -> Told | Unreadable | None:
    if isinstance(left.collector, Unreadable) or KEY not in left.values:
        return None
    value = left.value(KEY)
    if isinstance(value, Unreadable):
        return value
    if not isinstance(value, dict):
        return Unreadable(unreadable=f"host.json: {KEY} is no object")
    return {name: _neighbour(name, one) for name, one in value.items()}


def _neighbour(name: str, value: object) -> Neighbour | Unreadable:
    unreadable = as_unreadable(value, f"{KEY}: {name}")
    if unreadable is not None:
        return unreadable
    try:
        return Neighbour.model_validate(value)
    except ValidationError:
        return Unreadable(unreadable=f"host.json: {KEY}: {name}: is of an unknown form")


def _netdev(netdev: Netdev, told: Told | Unreadable) -> Netdev:
    """A bond has no cable: those below it have."""
    neighbour = told if isinstance(told, Unreadable) else told.get(netdev.name)
    return netdev.model_copy(update={"neighbour": neighbour})
