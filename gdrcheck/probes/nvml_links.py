"""A GPU's NVLinks by NVML. Source: NVML API reference, NvLink methods; nvml.h."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import pynvml

from gdrcheck.facts import NvLink, Unreadable
from gdrcheck.probes import nvml_ask as ask

# NVML_NVLINK_MAX_LINKS of the newest header: the binding's may be older than the GPU.
MOST_LINKS = 36
# What the driver names as place of an end that it does not know: all bits set.
NOWHERE = "ffffffff:ff:ff.0"
Remote = Literal["gpu", "switch", "other"]
REMOTES: dict[int, Remote] = {
    pynvml.NVML_NVLINK_DEVICE_TYPE_GPU: "gpu",
    pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH: "switch",
}


def nvlinks(handle: Any, slot: str) -> tuple[NvLink, ...] | Unreadable:
    """The NVLinks that the GPU has, also those that are down. NVMLError only when it is gone."""
    return ask.field(slot, "NVLinks", lambda: tuple(_links(handle, slot)))


def _links(handle: Any, slot: str) -> Iterator[NvLink]:
    for number in range(MOST_LINKS):
        try:
            active = _active(handle, slot, number)
        except pynvml.NVMLError_NotSupported:
            continue  # This GPU has no such link.
        except pynvml.NVMLError_InvalidArgument:
            return  # Links are numbered from 0: there are no more.
        if active is True:
            yield _up(handle, slot, number)
        else:
            yield NvLink(number=number, active=active)


def _active(handle: Any, slot: str, number: int) -> bool | Unreadable:
    ask.about_to(f"{slot}: state of NVLink {number}")
    try:
        return bool(pynvml.nvmlDeviceGetNvLinkState(handle, number) == pynvml.NVML_FEATURE_ENABLED)
    except (
        *ask.GONE,
        pynvml.NVMLError_NotSupported,
        pynvml.NVMLError_InvalidArgument,
        # No link can be asked.
        pynvml.NVMLError_FunctionNotFound,
    ):
        raise
    except pynvml.NVMLError as error:
        return Unreadable(unreadable=f"NVML: {ask.words(error)}")


def _up(handle: Any, slot: str, number: int) -> NvLink:
    def asked(what: str, call: Callable[[], int | None]) -> int | Unreadable | None:
        return ask.or_none(slot, f"{what} of NVLink {number}", call)

    def errors(what: str, counter: int) -> int | Unreadable | None:
        return asked(what, lambda: _errors(handle, number, counter))

    return NvLink(
        number=number,
        active=True,
        remote=ask.or_none(slot, f"end of NVLink {number}", lambda: _remote(handle, number)),
        remote_slot=_remote_slot(handle, slot, number),
        version=asked("version", lambda: _version(handle, number)),
        speed_mbytes_per_s=asked(
            "speed", lambda: ask.value(handle, pynvml.NVML_FI_DEV_NVLINK_GET_SPEED, number)
        ),
        replay_errors=errors("replay errors", pynvml.NVML_NVLINK_ERROR_DL_REPLAY),
        recovery_errors=errors("recovery errors", pynvml.NVML_NVLINK_ERROR_DL_RECOVERY),
        crc_errors=errors("CRC errors", pynvml.NVML_NVLINK_ERROR_DL_CRC_FLIT),
    )


def _remote(handle: Any, number: int) -> Remote:
    return REMOTES.get(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, number), "other")


def _remote_slot(handle: Any, slot: str, number: int) -> str | None:
    """Where the link ends; None when the driver does not tell, as in a virtual machine."""
    ask.about_to(f"{slot}: place of the end of NVLink {number}")
    try:
        place = ask.slot_of(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, number).busId)
    except ask.GONE:
        raise
    except (pynvml.NVMLError, ValueError):
        return None
    return None if place == NOWHERE else place


def _version(handle: Any, number: int) -> int:
    return int(pynvml.nvmlDeviceGetNvLinkVersion(handle, number))


def _errors(handle: Any, number: int, counter: int) -> int:
    return int(pynvml.nvmlDeviceGetNvLinkErrorCounter(handle, number, counter))
