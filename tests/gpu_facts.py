"""Builders of facts about a healthy GPU, of which a test changes a part."""

from __future__ import annotations

from gdrcheck.facts import GpuHealth, GpuPeer, NvLink
from tests.captured.gpu_health import healthy, to_switches


def gpu_health(**changes: object) -> GpuHealth:
    """An idle H200 without an error, all of whose 18 NVLinks are up and end at switches.

    A change may be a dict of some parts: ``ecc={"mode": "disabled"}`` keeps the rest of ``ecc``.
    """
    values = healthy("NVIDIA H200", nvlinks=to_switches(18))
    for key, change in changes.items():
        whole = isinstance(change, dict) and isinstance(values[key], dict)
        values[key] = values[key] | change if whole else change
    return GpuHealth.model_validate(values)


def nvlinks(*changed: NvLink, count: int = 18) -> tuple[NvLink, ...]:
    """NVLinks that are up and end at switches, but for those ``changed``, by their number."""
    by_number = {link.number: link for link in changed}
    healthy_ones = (NvLink.model_validate(link) for link in to_switches(count))
    return tuple(by_number.get(link.number, link) for link in healthy_ones)


def nvlink(number: int = 0, **changes: object) -> NvLink:
    """An NVLink that is up and ends at a switch."""
    return NvLink.model_validate(to_switches(number + 1)[number] | changes)


def gpu_peer(slot: str, peer: str, **changes: object) -> GpuPeer:
    """Two GPUs that reach each other over NVLink."""
    values: dict[str, object] = {"read": "ok", "write": "ok", "nvlink": "ok"}
    return GpuPeer.model_validate({"slot": slot, "peer": peer} | values | changes)
