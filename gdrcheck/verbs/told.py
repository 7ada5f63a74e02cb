"""What the two ends of an endpoint are told of each other, and of what they are to move. Pure."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from gdrcheck.transfer import RegionKey, Variant

LinkLayer = Literal["infiniband", "ethernet"]

# Room around a message in the payload: start offsets, and poisoned bytes that must stay.
MARGIN_BYTES = 4096
# Four messages of 4 MiB in flight, and the margin.
DEFAULT_PAYLOAD_BYTES = 16 * 1024 * 1024 + MARGIN_BYTES
# Steps of errors that a parent judges: each call of ibv_modify_qp begins with the first; the others
# say which port cannot do the path MTU that the profile promises.
MODIFY_QP = "ibv_modify_qp"
MTU_HERE = "path MTU of this port"
MTU_THERE = "path MTU of the other end"
# ``CompletionError.status`` when nothing at all completed within ``completion_s``.
DEADLINE = "DEADLINE"


class Message(BaseModel):
    """Whatever parent, child and peer hand on."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Flip(Message):
    """One byte that the source spoils on purpose, after it filled the message."""

    size_bytes: int = Field(ge=1)
    iteration: int = Field(ge=0)
    offset: int = Field(ge=0)


class ExchangePlan(Message):
    """The messages of one exchange: for each variant ``iterations`` of each size, in this order.

    ``far``: at ends in GPU memory the messages lie ``FAR_BYTES`` further on in the region.
    """

    sizes_bytes: tuple[int, ...] = Field(min_length=1)
    iterations: int = Field(ge=1, le=1_000_000)
    variants: tuple[Variant, ...] = Field(min_length=1, max_length=16)
    far: bool = False
    flip: Flip | None = None


class QueuePairInfo(Message):
    """A queue pair as the other end must know it."""

    qpn: int = Field(ge=0, lt=1 << 24)
    psn: int = Field(ge=0, lt=1 << 24)


class RemoteRegion(Message):
    """The payload of a memory region as the other end must know it: where work requests find its
    first byte, by which key, and how long it is.
    """

    key: RegionKey
    address: int = Field(ge=0, lt=1 << 64)
    rkey: int = Field(ge=0, lt=1 << 32)
    length_bytes: int = Field(ge=1, lt=1 << 48)


class EndpointInfo(Message):
    """What the other end must know to connect and to address this end's memory.

    ``gid`` is an IPv6-style text, ``gid_type`` as sysfs writes it. The first queue pair is the
    one that exchanges use; bandwidth may use all of them.
    """

    queue_pairs: tuple[QueuePairInfo, ...] = Field(min_length=1, max_length=16)
    regions: tuple[RemoteRegion, ...] = Field(min_length=1, max_length=16)
    gid: str = Field(max_length=64)
    gid_index: int = Field(default=0, ge=0, le=0xFFFF)
    gid_type: str = Field(default="", max_length=32)
    lid: int = Field(ge=0, le=0xFFFF)
    link_layer: LinkLayer
    mtu: Literal[256, 512, 1024, 2048, 4096]

    @field_validator("gid")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return str(IPv6Address(value))
