"""The part of the fake NVML library that tells of a GPU's health, NVLinks and peers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pynvml

OK = pynvml.NVML_SUCCESS
UNSUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
NOWHERE = b"FFFFFFFF:FF:FF.0"


@dataclass
class FakeLink:
    """One NVLink; ``code`` is what asking for its state returns."""

    active: int = 1
    remote: int = pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
    place: bytes = NOWHERE
    counters: tuple[int, ...] = (0, 0, 0, 4, 6)
    code: int = OK


@dataclass
class FakeHealth:
    """An idle H200, with NVML's own units and numbers.

    ``fields`` and ``link_fields``: number of a field, and type and value, or an error code.
    """

    ecc: tuple[int, int] = (1, 1)
    ecc_errors: dict[tuple[int, int], int] = field(default_factory=dict)
    sram_exceeded: int = 0
    rows: tuple[int, int, int, int] = (0, 0, 0, 0)
    retired: tuple[int, int, int] | None = None
    persistence: int = 1
    reasons: int = 1
    milliwatts: tuple[int, int, int, int] = (81600, 700000, 700000, 700000)
    thresholds: dict[int, int] = field(default_factory=lambda: {0: 95, 1: 89})
    pcie: tuple[int, int, int, int, int] = (1, 16, 5, 16, 2)
    links: tuple[FakeLink, ...] = ()
    fields: dict[int, tuple[int, int] | int] = field(
        default_factory=lambda: {82: (1, 41), 164: (1, 26562), 230: (1, 0)}
    )
    peer: tuple[int, int, int] = (0, 0, 0)


class HealthLibrary:
    """Functions of libnvidia-ml.so.1 about the ``health`` of a GPU."""

    def _health(self, handle: Any) -> FakeHealth:
        raise NotImplementedError

    def nvmlDeviceGetVbiosVersion(self, _handle: Any, buffer: Any, _length: Any) -> None:
        buffer.value = b"96.00.A5.00.1A"

    def nvmlDeviceGetBoardPartNumber(self, _handle: Any, buffer: Any, _length: Any) -> None:
        buffer.value = b"692-2G520-0282-001"

    def nvmlDeviceGetGspFirmwareVersion(self, _handle: Any, buffer: Any) -> None:
        buffer.value = b"580.159.04"

    def nvmlDeviceGetPersistenceMode(self, handle: Any, mode: Any) -> None:
        mode._obj.value = self._health(handle).persistence

    def nvmlDeviceGetEccMode(self, handle: Any, current: Any, pending: Any) -> None:
        current._obj.value, pending._obj.value = self._health(handle).ecc

    def nvmlDeviceGetTotalEccErrors(self, handle: Any, kind: Any, counter: Any, count: Any) -> int:
        if self._health(handle).ecc[0] == 0:
            return int(UNSUPPORTED)
        count._obj.value = self._health(handle).ecc_errors.get((kind.value, counter.value), 0)
        return int(OK)

    def nvmlDeviceGetSramEccErrorStatus(self, handle: Any, status: Any) -> None:
        assert status._obj.version == pynvml.nvmlEccSramErrorStatus_v1
        status._obj.bThresholdExceeded = self._health(handle).sram_exceeded

    def nvmlDeviceGetRemappedRows(self, handle: Any, *results: Any) -> None:
        for result, value in zip(results, self._health(handle).rows, strict=True):
            result._obj.value = value

    def nvmlDeviceGetRetiredPages(self, handle: Any, cause: Any, count: Any, _pages: Any) -> int:
        retired = self._health(handle).retired
        if retired is None:
            return int(UNSUPPORTED)
        count._obj.value = retired[cause.value]
        return int(OK)

    def nvmlDeviceGetRetiredPagesPendingStatus(self, handle: Any, pending: Any) -> int:
        retired = self._health(handle).retired
        if retired is None:
            return int(UNSUPPORTED)
        pending._obj.value = retired[2]
        return int(OK)

    def nvmlDeviceGetFieldValues(self, handle: Any, count: Any, values: Any) -> None:
        for value in values._obj[: count.value]:
            answer = self._health(handle).fields.get(
                value.fieldId, pynvml.NVML_ERROR_INVALID_ARGUMENT
            )
            if isinstance(answer, int):
                value.nvmlReturn = answer
            else:
                value.nvmlReturn, value.valueType = OK, answer[0]
                value.value.ullVal = answer[1]

    def nvmlDeviceGetClockInfo(self, _handle: Any, clock: Any, mhz: Any) -> None:
        mhz._obj.value = {0: 345, 2: 3201}[clock.value]

    def nvmlDeviceGetMaxClockInfo(self, _handle: Any, clock: Any, mhz: Any) -> None:
        mhz._obj.value = {0: 1980, 2: 3202}[clock.value]

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: Any, reasons: Any) -> None:
        reasons._obj.value = self._health(handle).reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Any, reasons: Any) -> None:
        reasons._obj.value = self._health(handle).reasons

    def nvmlDeviceGetPowerUsage(self, handle: Any, milliwatts: Any) -> None:
        milliwatts._obj.value = self._health(handle).milliwatts[0]

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Any, milliwatts: Any) -> None:
        milliwatts._obj.value = self._health(handle).milliwatts[1]

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: Any, milliwatts: Any) -> None:
        milliwatts._obj.value = self._health(handle).milliwatts[2]

    def nvmlDeviceGetPowerManagementLimitConstraints(
        self, handle: Any, least: Any, most: Any
    ) -> None:
        least._obj.value, most._obj.value = 200000, self._health(handle).milliwatts[3]

    def nvmlDeviceGetTemperature(self, _handle: Any, _sensor: Any, celsius: Any) -> None:
        celsius._obj.value = 40

    def nvmlDeviceGetTemperatureThreshold(self, handle: Any, which: Any, celsius: Any) -> int:
        thresholds = self._health(handle).thresholds
        if which.value not in thresholds:
            return int(UNSUPPORTED)
        celsius._obj.value = thresholds[which.value]
        return int(OK)

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: Any, value: Any) -> None:
        value._obj.value = self._health(handle).pcie[0]

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: Any, value: Any) -> None:
        value._obj.value = self._health(handle).pcie[1]

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle: Any, value: Any) -> None:
        value._obj.value = self._health(handle).pcie[2]

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: Any, value: Any) -> None:
        value._obj.value = self._health(handle).pcie[3]

    def nvmlDeviceGetPcieReplayCounter(self, handle: Any, value: Any) -> None:
        value._obj.value = self._health(handle).pcie[4]

    def nvmlDeviceGetNvLinkState(self, handle: Any, link: int, active: Any) -> int:
        links = self._health(handle).links
        if not links:
            return int(UNSUPPORTED)
        if link >= len(links):
            return int(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        active._obj.value = links[link].active
        return links[link].code

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: Any, link: int, kind: Any) -> None:
        kind._obj.value = self._health(handle).links[link].remote

    def nvmlDeviceGetNvLinkRemotePciInfo_v2(self, handle: Any, link: int, info: Any) -> None:
        info._obj.busId = self._health(handle).links[link].place

    def nvmlDeviceGetNvLinkVersion(self, _handle: Any, _link: int, version: Any) -> None:
        version._obj.value = 6

    def nvmlDeviceGetNvLinkErrorCounter(
        self, handle: Any, link: int, counter: int, count: Any
    ) -> None:
        count._obj.value = self._health(handle).links[link].counters[counter]

    def nvmlDeviceGetP2PStatus(self, handle: Any, _other: Any, index: int, status: Any) -> None:
        assert isinstance(index, int)
        status._obj.value = self._health(handle).peer[index]
