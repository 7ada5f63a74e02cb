"""What all facts share: frozen models, and the value that could not be read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

# A name that is joined to paths below /sys and becomes a part of case names. The kernel's own limit
# is 63 characters (IB_DEVICE_NAME_MAX).
DEVICE_NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"
DeviceName = Annotated[str, Field(pattern=DEVICE_NAME_PATTERN)]
# Domain, bus, device and function of a PCI function, as sysfs writes it.
SLOT_PATTERN = r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$"
Slot = Annotated[str, Field(pattern=SLOT_PATTERN)]
LinkLayer = Literal["infiniband", "ethernet"]


class FactsModel(BaseModel):
    """Base of all facts: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Unreadable(FactsModel):
    """Stands for a value that could not be read, and says why.

    ``privilege``: it can be read by the host collector only, and that one did not run. Such a value
    is not judged unless the profile promises it; any other unreadable value is an error.
    """

    unreadable: str
    privilege: bool = False
