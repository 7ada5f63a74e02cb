"""What must stand above facts that prove nothing about real hardware."""

from __future__ import annotations

from collections.abc import Iterable

from gdrcheck.facts import Facts, RdmaDevice, Unreadable

EMULATED = "EMULATED: these are not the facts of real hardware"
# The words of a run's verdict, see results/console.py.
SOFT_ROCE = "SOFT-ROCE: RDMA in software; this proves nothing about real NICs"


def of_facts(facts: Facts) -> list[str]:
    """A line each for emulated facts and for RDMA devices in software."""
    devices = () if isinstance(facts.rdma_devices, Unreadable) else facts.rdma_devices
    return of_devices(devices, emulated=facts.emulated)


def of_devices(devices: Iterable[RdmaDevice], *, emulated: bool) -> list[str]:
    """The same for some devices only."""
    software = any(device.software for device in devices)
    return [*([EMULATED] if emulated else []), *([SOFT_ROCE] if software else [])]
