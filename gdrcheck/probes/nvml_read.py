"""Everything that NVML says of a machine. Source: NVML API reference; nvml.h."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pynvml

from gdrcheck.facts import Gpu, Nvml, Unreadable
from gdrcheck.probes import nvml_ask as ask
from gdrcheck.probes.nvml_gpu import gpu
from gdrcheck.probes.nvml_peers import peers


@dataclass
class _Found:
    """GPUs by their slot: what they answered, by which handle, and the errors of those lost."""

    gpus: dict[str, Gpu] = field(default_factory=dict)
    handles: dict[str, Any] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)

    def add(self, handle: Any, slot: str) -> None:
        """Asks the GPU; one that turns out to be gone is lost."""
        try:
            self.gpus[slot] = gpu(handle, slot)
        except pynvml.NVMLError as error:
            self.lost[slot] = ask.words(error)
        else:
            self.handles[slot] = handle


def machine(bound_gpus: Path) -> Nvml | Unreadable:
    """What NVML answers about this machine; each value that it does not give says why.

    ``bound_gpus`` is the driver's own list: a folder with an entry for each slot.
    """
    try:
        with ask.started():
            return _nvml(bound_gpus)
    except pynvml.NVMLError as error:
        return Unreadable(unreadable=f"NVML: {ask.words(error)}")


def _nvml(bound_gpus: Path) -> Nvml:
    found = _Found()
    unplaced = _by_index(found)
    known = found.gpus | found.lost
    unlisted = [slot for slot in _bound_slots(bound_gpus) if slot not in known]
    _by_slot(unlisted, found)
    # The slots that no index led to say more than the indexes, if there is one for each.
    if len(unlisted) < len(unplaced):
        found.lost |= unplaced
    return Nvml(
        driver_version=ask.field("system", "driver version", pynvml.nvmlSystemGetDriverVersion),
        cuda_version=ask.field("system", "CUDA version", _cuda_version),
        gpus=tuple(found.gpus[slot] for slot in sorted(found.gpus)),
        lost=found.lost,
        confidential_computing=ask.or_none(
            "system", "confidential computing", _confidential_computing
        ),
        peers=peers(found.handles),
    )


def _by_index(found: _Found) -> dict[str, str]:
    """Asks the GPUs that NVML counts; returns those that it names no slot for, with the errors."""
    unplaced = {}
    for index in range(pynvml.nvmlDeviceGetCount()):
        place = f"index {index}"
        ask.about_to(f"get the GPU of {place}")
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            slot = ask.slot_of(pynvml.nvmlDeviceGetPciInfo(handle).busId)
        except (pynvml.NVMLError, ValueError) as error:
            unplaced[place] = ask.words(error)
        else:
            found.add(handle, slot)
    return unplaced


def _by_slot(slots: Sequence[str], found: _Found) -> None:
    for slot in slots:
        ask.about_to(f"get the GPU at {slot}")
        try:
            handle = pynvml.nvmlDeviceGetHandleByPciBusId(slot)
        except pynvml.NVMLError as error:
            found.lost[slot] = ask.words(error)
        else:
            found.add(handle, slot)


def _bound_slots(folder: Path) -> tuple[str, ...]:
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return ()  # Sandboxes have no such folder; the GPUs of the indexes are all there is.
    return tuple(sorted(ask.slot_of(name) for name in names if ask.BUS_ID.fullmatch(name)))


def _confidential_computing() -> Literal["on", "off"]:
    state = pynvml.nvmlSystemGetConfComputeState()
    return "on" if state.ccFeature == pynvml.NVML_CC_SYSTEM_FEATURE_ENABLED else "off"


def _cuda_version() -> str:
    version = pynvml.nvmlSystemGetCudaDriverVersion_v2()
    return f"{version // 1000}.{version % 1000 // 10}"
