"""One question to NVML: its answer, or why there is none. Source: NVML API reference; nvml.h.

ImportError when NVIDIA's binding is not installed; then nothing that asks NVML can be imported.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pynvml

from gdrcheck.facts import Unreadable

T = TypeVar("T")
# The GPU behind the handle does not answer any more, whatever it is asked.
GONE = (
    pynvml.NVMLError_GpuIsLost,
    pynvml.NVMLError_GpuNotFound,
    pynvml.NVMLError_ResetRequired,
)
BUS_ID = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])")
# Which member of the union holds the value (nvmlValueType_t).
VALUE_MEMBERS = {
    0: "dVal",
    1: "uiVal",
    2: "ulVal",
    3: "ullVal",
    4: "sllVal",
    5: "siVal",
    6: "usVal",
}
LOG = logging.getLogger(__name__)


@contextmanager
def started() -> Iterator[None]:
    """NVML is started meanwhile. NVMLError if it does not start."""
    about_to("start NVML")
    pynvml.nvmlInit()
    try:
        yield
    finally:
        about_to("shut NVML down")
        pynvml.nvmlShutdown()


def field(place: str, what: str, call: Callable[[], T]) -> T | Unreadable:
    """What ``call`` returns, or why not. NVMLError only when the GPU is gone."""
    about_to(f"{place}: {what}")
    try:
        return call()
    # The binding's own error, where a driver is too old for a structure that it fills.
    except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError, ValueError) as error:
        if isinstance(error, GONE):
            raise
        return Unreadable(unreadable=f"NVML: {words(error)}")


def or_none(
    place: str,
    what: str,
    call: Callable[[], T],
    absent: tuple[type[Exception], ...] = (pynvml.NVMLError_NotSupported,),
) -> T | Unreadable | None:
    """Like ``field``, but None when NVML says that there is no such thing here.

    ``absent``: the errors by which it says so.
    """

    def or_absent() -> T | None:
        try:
            return call()
        except absent:
            return None

    return field(place, what, or_absent)


def value(handle: Any, number: int, scope: int = 0) -> int | None:
    """The whole number in a field of the GPU, for example of the NVLink ``scope``.

    None when this GPU does not have the field, or this driver does not know its number, which
    NVML calls an invalid argument. NVMLError for any other error.
    """
    (answer,) = pynvml.nvmlDeviceGetFieldValues(handle, [(number, scope)])
    if answer.nvmlReturn in (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT):
        return None
    if answer.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(answer.nvmlReturn)
    if answer.valueType not in VALUE_MEMBERS:
        raise ValueError(f"field {number} has a value of type {answer.valueType}, which is unknown")
    return int(getattr(answer.value, VALUE_MEMBERS[answer.valueType]))


def slot_of(bus_id: bytes | str) -> str:
    """``00000000:1B:00.0`` as sysfs writes it. ValueError if it is no PCI address."""
    text = bus_id.decode("ascii", "replace") if isinstance(bus_id, bytes) else bus_id
    parts = BUS_ID.fullmatch(text)
    if parts is None:
        raise ValueError(f"bus id {text[:40]!r} is no PCI address")
    domain, bus, device, function = parts.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()


def words(error: Exception) -> str:
    """``NVML_ERROR_GPU_IS_LOST (15): GPU is lost``."""
    if not isinstance(error, pynvml.NVMLError):
        return str(error)
    names = (name for name in vars(pynvml) if name.startswith("NVML_ERROR_"))
    name = next((one for one in names if getattr(pynvml, one) == error.value), "NVML error")
    return f"{name} ({error.value}): {error}"


def about_to(what: str) -> None:
    """Says what is asked next, so that a call that never returns can be named."""
    LOG.debug(what)
