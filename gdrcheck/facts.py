"""Facts: what the probes read from a node. Frozen, typed, serialised to ``facts.json``.

A value that could not be read is an ``Unreadable`` that says why: never absent, never zero.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

# A name that is joined to paths below /sys and becomes a part of case names. The kernel's own limit
# is 63 characters (IB_DEVICE_NAME_MAX).
DEVICE_NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"
DeviceName = Annotated[str, Field(pattern=DEVICE_NAME_PATTERN)]
LinkLayer = Literal["infiniband", "ethernet"]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Unreadable(_Model):
    """Stands for a value that could not be read, and says why."""

    unreadable: str


class GidEntry(_Model):
    """One populated slot of a port's GID table. ``netdev`` is empty when the kernel names none."""

    index: int
    gid: str
    type: str
    netdev: str


class Port(_Model):
    """One port of an RDMA device, as sysfs shows it. ``rate_gbps`` is in Gb/s (bits)."""

    number: int
    state: str | Unreadable
    physical_state: str | Unreadable
    rate_gbps: float | Unreadable
    link_layer: LinkLayer | Unreadable
    lid: int | Unreadable
    sm_lid: int | Unreadable
    gids: tuple[GidEntry, ...] | Unreadable


class RdmaDevice(_Model):
    """One RDMA device. ``slot`` is the PCI function, None for a device with none below it."""

    name: str
    driver: str | Unreadable
    slot: str | None
    netdevs: tuple[str, ...]
    uverbs: str | Unreadable
    software: bool
    ports: tuple[Port, ...]


class Limits(_Model):
    """The limits and capabilities of the process that ran the probe. None means unlimited."""

    memlock_soft_bytes: int | Unreadable | None
    memlock_hard_bytes: int | Unreadable | None
    effective_capabilities: int | Unreadable
    uid: int


class Host(_Model):
    """The operating system below the container."""

    kernel: str | Unreadable
    hostname: str
    page_bytes: int


class Facts(_Model):
    """Everything that the probes read on one node."""

    schema_version: Literal[1] = 1
    node: str
    host: Host
    limits: Limits
    rdma_devices: tuple[RdmaDevice, ...] | Unreadable
    nvidia_gpu_slots: tuple[str, ...] | Unreadable
    emulated: bool
    versions: dict[str, str] = Field(default_factory=dict)
