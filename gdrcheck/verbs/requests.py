"""What an endpoint child can be asked to do. Pure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gdrcheck.facts import DeviceName
from gdrcheck.profile import Gid
from gdrcheck.registration import Method
from gdrcheck.transfer import Operation, Role, Variant
from gdrcheck.verbs.told import (
    DEFAULT_PAYLOAD_BYTES,
    MARGIN_BYTES,
    EndpointInfo,
    ExchangePlan,
    Message,
)


class GpuChoice(Message):
    """The GPU of a rail: its PCI slot, and its UUIDs as NVML writes them, if they are known."""

    slot: str = Field(max_length=32)
    uuids: tuple[str, ...] = Field(default=(), max_length=64)


class Open(Message):
    """Open the device, choose the GID, register ``buffer_bytes`` of host memory between guards,
    without relaxed ordering and with it.

    Refused when the port cannot do ``path_mtu``; None is for whatever both ports can. With
    ``gid_index`` that entry of the table is taken, whatever ``gid`` says.
    A message of n bytes needs a payload of n + ``MARGIN_BYTES``.
    """

    command: Literal["open"] = "open"
    device: DeviceName
    port: int = Field(default=1, ge=1)
    gid: Gid = Gid()
    traffic_class: int = Field(default=0, ge=0, le=255)
    service_level: int = Field(default=0, ge=0, le=15)
    pkey: int | None = Field(default=None, ge=1, le=0xFFFF)
    path_mtu: Literal[256, 512, 1024, 2048, 4096] | None = None
    gid_index: int | None = Field(default=None, ge=0, le=0xFFFF)
    atomics: bool = False
    buffer_bytes: int = Field(default=DEFAULT_PAYLOAD_BYTES, gt=MARGIN_BYTES)
    completion_s: float = Field(default=10, gt=0)


class OpenGpu(Message):
    """Open the GPU, allocate ``buffer_bytes`` of its memory between guards, and register them with
    the device by each of ``methods``, without relaxed ordering and with it.

    ``far``: make the payload ``FAR_BYTES`` longer, where the GPU's memory and its BAR1 allow; where
    they do not the answer says why. ``emulated``: what the facts say; the command is refused when
    the driver of this process is of the other kind.
    """

    command: Literal["open_gpu"] = "open_gpu"
    gpu: GpuChoice
    methods: tuple[Method, ...] = Field(min_length=1)
    emulated: bool = False
    far: bool = False
    bar1_bytes: int | None = None
    buffer_bytes: int = Field(default=DEFAULT_PAYLOAD_BYTES, gt=MARGIN_BYTES)


class PortState(Message):
    """Read the state of the port, for whether it is worth while to go on."""

    command: Literal["port_state"] = "port_state"


class CreateQp(Message):
    """Make ``queue_pairs`` in state INIT, all on one completion queue. Once, until ``close_qp``.

    ``open_gpu`` comes before it: the regions are told to the other end with the queue pairs.
    """

    command: Literal["create_qp"] = "create_qp"
    queue_pairs: int = Field(default=4, ge=1, le=16)


class Connect(Message):
    """Bring the queue pairs to RTS towards those of ``remote``, in their order.

    Refused when that end offers less than the ``path_mtu`` of ``open``.
    """

    command: Literal["connect"] = "connect"
    remote: EndpointInfo


class Arm(ExchangePlan):
    """Get ready for one exchange. ``run_tag`` and ``direction`` must be the same on both ends.

    ``role`` says which way the data flows, also for READ: the source's memory is read.
    """

    command: Literal["arm"] = "arm"
    operation: Operation
    role: Role
    run_tag: int = Field(ge=0, lt=1 << 64)
    direction: int = Field(ge=0, le=1)


class Go(Message):
    """Run the exchange that was armed. The reply comes when it is over: ``ExchangeResult``."""

    command: Literal["go"] = "go"


class Timed(Message):
    """Measure. The source is the end that measures; both ends must say the same numbers.

    latency: SEND ping-pong on the first queue pair; bandwidth: RDMA WRITE (or READ by the sink is
    not measured) from source to sink, ``depth`` in flight on each of ``queue_pairs``, for at least
    ``seconds`` and at least ``iterations`` messages. ``both_ways``: each end is a source as well
    and has numbers of its own; the variant is then meant for both ways, as seen from the source.
    """

    command: Literal["timed"] = "timed"
    kind: Literal["latency", "bandwidth"]
    role: Role
    variant: Variant
    size_bytes: int = Field(ge=1)
    iterations: int = Field(ge=1, le=10_000_000)
    seconds: float = Field(default=0, ge=0, le=600)
    depth: int = Field(default=32, ge=1, le=1024)
    queue_pairs: int = Field(default=1, ge=1, le=16)
    both_ways: bool = False


class Staged(Message):
    """Move ``iterations`` messages of GPU memory to GPU memory, once by copies through host memory
    at both ends and once directly; both verified, both timed by the source.
    """

    command: Literal["staged"] = "staged"
    role: Role
    variant: Variant
    size_bytes: int = Field(ge=1)
    iterations: int = Field(ge=1, le=1000)
    run_tag: int = Field(ge=0, lt=1 << 64)


class CloseQp(Message):
    """Destroy the queue pairs. The device, the GPU and the registrations stay."""

    command: Literal["close_qp"] = "close_qp"


class Close(Message):
    """Destroy everything. The child then only waits for another ``open`` or the end of stdin."""

    command: Literal["close"] = "close"


Request = (
    Open | OpenGpu | PortState | CreateQp | Connect | Arm | Go | Timed | Staged | CloseQp | Close
)
