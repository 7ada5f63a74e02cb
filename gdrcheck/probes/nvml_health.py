"""A GPU's health by NVML: each value is asked alone. Source: NVML API reference; nvml.h.

Each function here raises NVMLError only when the GPU is gone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pynvml

from gdrcheck.facts import (
    Clocks,
    Ecc,
    EccCounts,
    GpuHealth,
    PcieLink,
    Power,
    RetiredPages,
    RowRemap,
    Temperature,
    Unreadable,
)
from gdrcheck.facts.gpu_health import CLOCK_LIMITS, OnOff, Switched
from gdrcheck.probes import nvml_ask as ask
from gdrcheck.probes.nvml_links import nvlinks

RECOVERY_ACTIONS = {
    0: "none",
    1: "reset",
    2: "reboot",
    3: "drain_p2p",
    4: "drain_and_reset",
    5: "recover_imex_domain",
    6: "bus_reset",
    7: "system_reboot",
}
# Of what drivers came to know late: older ones do not have the function.
NOT_IN_THIS_DRIVER = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound)
MILLI = 1000


def health(handle: Any, slot: str) -> GpuHealth:
    """All of one GPU."""
    return GpuHealth(
        vbios=ask.or_none(slot, "VBIOS", lambda: pynvml.nvmlDeviceGetVbiosVersion(handle)),
        board_part=ask.or_none(
            slot, "board part number", lambda: pynvml.nvmlDeviceGetBoardPartNumber(handle)
        ),
        gsp_firmware=ask.or_none(slot, "GSP firmware", lambda: _gsp(handle), NOT_IN_THIS_DRIVER),
        persistence=ask.or_none(slot, "persistence mode", lambda: _persistence(handle)),
        ecc=ask.or_none(slot, "ECC mode", lambda: _ecc(handle, slot)),
        row_remap=ask.or_none(slot, "remapped rows", lambda: _row_remap(handle)),
        retired_pages=ask.or_none(slot, "retired pages", lambda: _retired_pages(handle)),
        recovery_action=ask.or_none(slot, "recovery action", lambda: _recovery_action(handle)),
        clocks=clocks(handle, slot),
        clock_limits=clock_limits(handle, slot),
        power=power(handle, slot),
        temperature=temperature(handle, slot),
        pcie=pcie(handle, slot),
        nvlinks=nvlinks(handle, slot),
    )


def clocks(handle: Any, slot: str) -> Clocks:
    """The clocks at this moment."""

    def asked(what: str, call: Callable[[Any, int], int], clock: int) -> int | Unreadable | None:
        return ask.or_none(slot, f"{what} clock", lambda: call(handle, clock))

    now, most = pynvml.nvmlDeviceGetClockInfo, pynvml.nvmlDeviceGetMaxClockInfo
    return Clocks(
        graphics_mhz=asked("graphics", now, pynvml.NVML_CLOCK_GRAPHICS),
        memory_mhz=asked("memory", now, pynvml.NVML_CLOCK_MEM),
        max_graphics_mhz=asked("highest graphics", most, pynvml.NVML_CLOCK_GRAPHICS),
        max_memory_mhz=asked("highest memory", most, pynvml.NVML_CLOCK_MEM),
    )


def clock_limits(handle: Any, slot: str) -> tuple[str, ...] | Unreadable | None:
    """Why the clocks are not at their most, at this moment."""
    return ask.or_none(slot, "limits of the clocks", lambda: _clock_limits(handle))


def power(handle: Any, slot: str) -> Power:
    """Draw and limits. The limit in force is the lowest of all who set one."""

    def asked(what: str, call: Callable[[Any], int]) -> float | Unreadable | None:
        return ask.or_none(slot, what, lambda: call(handle) / MILLI)

    return Power(
        draw_w=asked("power draw", pynvml.nvmlDeviceGetPowerUsage),
        limit_w=asked("power limit", pynvml.nvmlDeviceGetEnforcedPowerLimit),
        default_w=asked("default power limit", pynvml.nvmlDeviceGetPowerManagementDefaultLimit),
        max_w=asked("highest power limit", _highest_limit),
    )


def temperature(handle: Any, slot: str) -> Temperature:
    """Temperatures at this moment, and the thresholds."""

    def threshold(what: str, which: int) -> int | Unreadable | None:
        return ask.or_none(
            slot,
            f"{what} temperature",
            lambda: int(pynvml.nvmlDeviceGetTemperatureThreshold(handle, which)),
        )

    return Temperature(
        gpu_c=ask.or_none(
            slot,
            "temperature",
            lambda: int(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
        ),
        memory_c=ask.or_none(
            slot,
            "temperature of the memory",
            lambda: ask.value(handle, pynvml.NVML_FI_DEV_MEMORY_TEMP),
        ),
        slowdown_c=threshold("slowdown", pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
        shutdown_c=threshold("shutdown", pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN),
    )


def pcie(handle: Any, slot: str) -> PcieLink:
    """The link at this moment."""

    def asked(what: str, call: Callable[[Any], int]) -> int | Unreadable | None:
        return ask.or_none(slot, what, lambda: call(handle))

    return PcieLink(
        generation=asked("PCIe generation", pynvml.nvmlDeviceGetCurrPcieLinkGeneration),
        width=asked("PCIe width", pynvml.nvmlDeviceGetCurrPcieLinkWidth),
        max_generation=asked("highest PCIe generation", pynvml.nvmlDeviceGetMaxPcieLinkGeneration),
        max_width=asked("highest PCIe width", pynvml.nvmlDeviceGetMaxPcieLinkWidth),
        replays=asked("PCIe replays", pynvml.nvmlDeviceGetPcieReplayCounter),
    )


def _gsp(handle: Any) -> str:
    return str(pynvml.nvmlDeviceGetGspFirmwareVersion(handle).decode())


def _persistence(handle: Any) -> OnOff:
    mode = pynvml.nvmlDeviceGetPersistenceMode(handle)
    return "on" if mode == pynvml.NVML_FEATURE_ENABLED else "off"


def _ecc(handle: Any, slot: str) -> Ecc:
    current, pending = pynvml.nvmlDeviceGetEccMode(handle)
    return Ecc(
        mode=_switched(current),
        pending=_switched(pending),
        volatile=_ecc_counts(handle, slot, "volatile", pynvml.NVML_VOLATILE_ECC),
        aggregate=_ecc_counts(handle, slot, "aggregate", pynvml.NVML_AGGREGATE_ECC),
        sram_threshold_exceeded=ask.or_none(
            slot, "threshold of SRAM errors", lambda: _sram_exceeded(handle), NOT_IN_THIS_DRIVER
        ),
    )


def _switched(mode: int) -> Switched:
    return "enabled" if mode == pynvml.NVML_FEATURE_ENABLED else "disabled"


def _ecc_counts(handle: Any, slot: str, name: str, counter: int) -> EccCounts:
    def counted(what: str, kind: int) -> int | Unreadable | None:
        return ask.or_none(
            slot,
            f"{name} {what} ECC errors",
            lambda: int(pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, counter)),
        )

    return EccCounts(
        correctable=counted("correctable", pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        uncorrectable=counted("uncorrectable", pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
    )


def _sram_exceeded(handle: Any) -> bool:
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    pynvml.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
    return bool(status.bThresholdExceeded)


def _row_remap(handle: Any) -> RowRemap:
    correctable, uncorrectable, pending, failed = pynvml.nvmlDeviceGetRemappedRows(handle)
    return RowRemap(
        correctable=correctable,
        uncorrectable=uncorrectable,
        pending=bool(pending),
        failed=bool(failed),
    )


def _retired_pages(handle: Any) -> RetiredPages:
    single, double = (
        len(pynvml.nvmlDeviceGetRetiredPages(handle, cause))
        for cause in (
            pynvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
            pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
        )
    )
    pending = pynvml.nvmlDeviceGetRetiredPagesPendingStatus(handle)
    return RetiredPages(
        single_bit=single, double_bit=double, pending=pending == pynvml.NVML_FEATURE_ENABLED
    )


def _recovery_action(handle: Any) -> str | None:
    action = ask.value(handle, pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION)
    return None if action is None else RECOVERY_ACTIONS.get(action, f"action {action}")


def _clock_limits(handle: Any) -> tuple[str, ...]:
    try:
        reasons = pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except pynvml.NVMLError_FunctionNotFound:
        # The name until driver 530.
        reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    bits = [1 << place for place in range(int(reasons).bit_length()) if reasons >> place & 1]
    return tuple(CLOCK_LIMITS.get(bit, f"unknown ({bit:#x})") for bit in bits)


def _highest_limit(handle: Any) -> int:
    _lowest, highest = pynvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)
    return int(highest)
