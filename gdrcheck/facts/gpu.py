"""Facts about GPUs: what the driver answers by NVML."""

from __future__ import annotations

from typing import Literal

from gdrcheck.facts.base import FactsModel, Slot, Unreadable
from gdrcheck.facts.gpu_health import NOT_ASKED, GpuHealth, GpuPeer

Virtualization = Literal["none", "passthrough", "vgpu", "host vgpu", "host vsga"]


class GpuProcess(FactsModel):
    """A compute process on a GPU. ``used_bytes`` None: the driver does not say."""

    pid: int
    used_bytes: int | None


class MigDevice(FactsModel):
    """A MIG device of a GPU. It is told from its siblings by the UUID, never by the slot."""

    uuid: str
    name: str | Unreadable


class Gpu(FactsModel):
    """One GPU that NVML knows. ``mig`` None: this GPU has no MIG mode.

    ``compute_mode`` is ``default``, ``exclusive_process`` or ``prohibited``. ``fabric_state`` is of
    NVSwitch systems: ``not_started``, ``in_progress``, ``completed``, or ``failed: `` and NVML's
    error; None when not applicable. ``virtualization`` is the driver's view of a virtual machine:
    ``passthrough`` and ``vgpu`` are guests; None when the driver has no such state.
    """

    slot: Slot
    uuid: str | Unreadable
    model: str | Unreadable
    memory_total_bytes: int | Unreadable
    bar1_total_bytes: int | Unreadable
    bar1_used_bytes: int | Unreadable
    mig: Literal["enabled", "disabled"] | Unreadable | None
    mig_devices: tuple[MigDevice, ...] | Unreadable
    processes: tuple[GpuProcess, ...] | Unreadable
    compute_mode: str | Unreadable
    fabric_state: str | Unreadable | None
    virtualization: Virtualization | Unreadable | None = None
    health: GpuHealth | Unreadable = NOT_ASKED


class Nvml(FactsModel):
    """What NVML answered as a whole.

    ``lost`` holds the GPUs that did not answer, each with NVML's error: by slot, or as
    ``index 3`` when NVML does not say which slot it is. ``confidential_computing`` None: this
    machine has no such mode. ``peers``: each GPU with each other one, both ways.
    """

    driver_version: str | Unreadable
    cuda_version: str | Unreadable
    gpus: tuple[Gpu, ...]
    lost: dict[str, str]
    confidential_computing: Literal["on", "off"] | Unreadable | None = None
    peers: tuple[GpuPeer, ...] | Unreadable = ()

    def gpu(self, slot: str) -> Gpu | None:
        """The GPU at ``slot``; None when NVML does not list it."""
        return next((gpu for gpu in self.gpus if gpu.slot == slot), None)
