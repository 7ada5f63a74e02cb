"""Facts about a GPU's health: what NVML answers beyond what the GPU is.

Source of all meanings: NVML API reference; nvml.h.
"""

from __future__ import annotations

from typing import Literal

from gdrcheck.facts.base import FactsModel, Slot, Unreadable

OnOff = Literal["on", "off"]
Switched = Literal["enabled", "disabled"]


class EccCounts(FactsModel):
    """Memory errors that were counted. None: this GPU does not count them."""

    correctable: int | Unreadable | None
    uncorrectable: int | Unreadable | None


class Ecc(FactsModel):
    """Error correction. ``volatile`` counts since the driver was loaded, ``aggregate`` for ever.

    ``pending`` is the mode after the next reset. ``sram_threshold_exceeded``: more uncorrectable
    errors in SRAM than a healthy GPU has over its life; None on GPUs that do not tell.
    """

    mode: Switched
    pending: Switched
    volatile: EccCounts
    aggregate: EccCounts
    sram_threshold_exceeded: bool | Unreadable | None


class RowRemap(FactsModel):
    """Rows of memory that were replaced by spare ones (GPUs since Ampere).

    ``pending``: a replacement waits for a reset; ``failed``: one did not succeed.
    """

    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool


class RetiredPages(FactsModel):
    """Pages of memory that were taken out of use (GPUs before Ampere), by their cause."""

    single_bit: int
    double_bit: int
    pending: bool


class Clocks(FactsModel):
    """Clocks now, and the most that they may reach."""

    graphics_mhz: int | Unreadable | None
    memory_mhz: int | Unreadable | None
    max_graphics_mhz: int | Unreadable | None
    max_memory_mhz: int | Unreadable | None


class Power(FactsModel):
    """Draw and limits. ``limit_w`` is the one in force, ``default_w`` what the GPU is made for."""

    draw_w: float | Unreadable | None
    limit_w: float | Unreadable | None
    default_w: float | Unreadable | None
    max_w: float | Unreadable | None


class Temperature(FactsModel):
    """Temperatures now, and those at which the GPU slows its clocks and switches itself off."""

    gpu_c: int | Unreadable | None
    memory_c: int | Unreadable | None
    slowdown_c: int | Unreadable | None
    shutdown_c: int | Unreadable | None


class PcieLink(FactsModel):
    """The GPU's link as it is at this moment: an idle GPU lowers its generation.

    ``max_generation`` and ``max_width``: the most that GPU and system can do together.
    ``replays`` counts packets that were sent again since the last reset.
    """

    generation: int | Unreadable | None
    width: int | Unreadable | None
    max_generation: int | Unreadable | None
    max_width: int | Unreadable | None
    replays: int | Unreadable | None


class NvLink(FactsModel):
    """One NVLink of a GPU. Errors are counted since the driver was loaded.

    ``remote`` is what the other end is, ``remote_slot`` where, as far as the driver tells; both
    None for a link that is down. ``speed_mbytes_per_s``: of one direction.
    """

    number: int
    active: bool | Unreadable
    remote: Literal["gpu", "switch", "other"] | Unreadable | None = None
    remote_slot: Slot | None = None
    version: int | Unreadable | None = None
    speed_mbytes_per_s: int | Unreadable | None = None
    replay_errors: int | Unreadable | None = None
    recovery_errors: int | Unreadable | None = None
    crc_errors: int | Unreadable | None = None


class GpuHealth(FactsModel):
    """All of one GPU. None stands for what this GPU or its driver does not have.

    ``clock_limits`` are the reasons why the clocks are not at their most, by the names of
    ``gdrcheck.facts.gpu_health.CLOCK_LIMITS``; ``recovery_action`` is what the driver asks for:
    ``none``, ``reset``, ``reboot``, ``drain_p2p``, ``drain_and_reset``. ``nvlinks`` is empty for a
    GPU without any.
    """

    vbios: str | Unreadable | None
    board_part: str | Unreadable | None
    gsp_firmware: str | Unreadable | None
    persistence: OnOff | Unreadable | None
    ecc: Ecc | Unreadable | None
    row_remap: RowRemap | Unreadable | None
    retired_pages: RetiredPages | Unreadable | None
    recovery_action: str | Unreadable | None
    clocks: Clocks
    clock_limits: tuple[str, ...] | Unreadable | None
    power: Power
    temperature: Temperature
    pcie: PcieLink
    nvlinks: tuple[NvLink, ...] | Unreadable


class GpuPeer(FactsModel):
    """What the driver says of two GPUs of a node: ``slot`` reaching into ``peer``'s memory.

    ``read`` and ``write``: ``ok``, or why not (``chipset not supported``, ``disabled``, ...).
    ``nvlink``: the same about NVLink between the two.
    """

    slot: Slot
    peer: Slot
    read: str | Unreadable
    write: str | Unreadable
    nvlink: str | Unreadable


# Bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h, nvmlClocksEventReason*).
CLOCK_LIMITS = {
    0x1: "idle",
    0x2: "applications_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clocks",
}
NOT_ASKED = Unreadable(unreadable="not asked of NVML")
