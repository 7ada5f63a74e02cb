"""What is seen of a GPU while data is copied to it. Types only; others copy and ask."""

from __future__ import annotations

from dataclasses import dataclass

from gdrcheck.facts import Unreadable
from gdrcheck.facts.gpu_health import Clocks, PcieLink, Power, Temperature
from gdrcheck.outcome import ProbeError


@dataclass(frozen=True, slots=True)
class GpuNow:
    """What NVML says of one GPU at one moment, in the words of ``GpuHealth``."""

    pcie: PcieLink
    clocks: Clocks
    clock_limits: tuple[str, ...] | Unreadable | None
    power: Power
    temperature: Temperature


@dataclass(frozen=True, slots=True)
class Load:
    """One copy from the host's memory to a GPU, and what NVML said meanwhile.

    ``idle`` is from before the copy. ``under_load`` are at least two readings, made while the copy
    ran, the last two of them when GPU and link had had time to settle.
    """

    idle: GpuNow
    under_load: tuple[GpuNow, ...]
    copied_bytes: int
    took_s: float

    @property
    def last(self) -> GpuNow:
        """The last reading under load."""
        return self.under_load[-1]


class GpuGone(ProbeError):
    """NVML says that the GPU does not answer any more."""
