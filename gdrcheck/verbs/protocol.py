"""What a parent and its endpoint child (``python3 -m gdrcheck.verbs.worker``) say to each other.

One JSON object a line: requests on the child's stdin, one reply each on its stdout, in order.
Needs no pyverbs. The order of a session: ``open``, ``create_qp``, ``connect``, then any number of
(``arm``, barrier between the parents, ``go``) or (barrier, ``timed``), at last ``close``.

A queue pair is used up when ``go`` or ``timed`` did not complete on either end: both ends then
need ``close_qp``, ``create_qp`` and ``connect``. The child refuses to go on without.
"""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from gdrcheck.facts import DeviceName
from gdrcheck.mismatch import Mismatch
from gdrcheck.outcome import GdrcheckError
from gdrcheck.profile import Gid

Operation = Literal["SEND", "WRITE_WITH_IMM", "READ"]
Role = Literal["source", "sink"]
LinkLayer = Literal["infiniband", "ethernet"]

OPERATIONS: tuple[Operation, ...] = ("SEND", "WRITE_WITH_IMM", "READ")
# Room around a message in the payload: start offsets, and poisoned bytes that must stay.
MARGIN_BYTES = 4096
DEFAULT_PAYLOAD_BYTES = 2 * 1024 * 1024
# Steps of errors that a parent judges: each call of ibv_modify_qp begins with the first; the others
# say which port cannot do the path MTU that the profile promises.
MODIFY_QP = "ibv_modify_qp"
MTU_HERE = "path MTU of this port"
MTU_THERE = "path MTU of the other end"
# ``CompletionError.status`` when nothing at all completed within ``completion_s``.
DEADLINE = "DEADLINE"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


# --- what is told -------------------------------------------------------------------------------


class Flip(_Model):
    """One byte that the source spoils on purpose, after it filled the message."""

    size_bytes: int = Field(ge=1)
    iteration: int = Field(ge=0)
    offset: int = Field(ge=0)


class ExchangePlan(_Model):
    """The messages of one exchange: ``iterations`` of each size, all sizes in this order."""

    sizes_bytes: tuple[int, ...] = Field(min_length=1)
    iterations: int = Field(ge=1, le=1_000_000)
    flip: Flip | None = None


class EndpointInfo(_Model):
    """What the other end must know of a queue pair. ``gid`` is an IPv6-style text."""

    qpn: int = Field(ge=0, lt=1 << 24)
    psn: int = Field(ge=0, lt=1 << 24)
    gid: str = Field(max_length=64)
    lid: int = Field(ge=0, le=0xFFFF)
    link_layer: LinkLayer
    mtu: Literal[256, 512, 1024, 2048, 4096]
    payload_address: int = Field(ge=0, lt=1 << 64)
    payload_rkey: int = Field(ge=0, lt=1 << 32)
    payload_bytes: int = Field(ge=1)

    @field_validator("gid")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return str(IPv6Address(value))


# --- requests -----------------------------------------------------------------------------------


class Open(_Model):
    """Open the device, choose the GID, register ``buffer_bytes`` of payload between guards.

    Refused when the port cannot do ``path_mtu``; None is for whatever both ports can.
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
    buffer_bytes: int = Field(default=DEFAULT_PAYLOAD_BYTES, gt=MARGIN_BYTES)
    completion_s: float = Field(default=10, gt=0)


class CreateQp(_Model):
    """Make a queue pair in state INIT. One at a time."""

    command: Literal["create_qp"] = "create_qp"


class Connect(_Model):
    """Bring the queue pair to RTS towards ``remote``.

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


class Go(_Model):
    """Run the exchange that was armed. The reply comes when it is over: ``ExchangeResult``."""

    command: Literal["go"] = "go"


class Timed(_Model):
    """Measure. The source is the end that measures; both ends must say the same numbers.

    latency: SEND ping-pong; bandwidth: RDMA WRITE from source to sink, ``depth`` in flight.
    """

    command: Literal["timed"] = "timed"
    kind: Literal["latency", "bandwidth"]
    role: Role
    size_bytes: int = Field(ge=1)
    iterations: int = Field(ge=1, le=10_000_000)
    depth: int = Field(default=32, ge=1, le=1024)


class CloseQp(_Model):
    """Destroy the queue pair. The device and the registration stay."""

    command: Literal["close_qp"] = "close_qp"


class Close(_Model):
    """Destroy everything. The child then only waits for another ``open`` or the end of stdin."""

    command: Literal["close"] = "close"


Request = Open | CreateQp | Connect | Arm | Go | Timed | CloseQp | Close


class RequestLine(_Model):
    """One line of stdin: a request under a number that its reply repeats."""

    id: int
    request: Annotated[Request, Field(discriminator="command")]


# --- replies ------------------------------------------------------------------------------------


class Nothing(_Model):
    """The result of a command that only succeeds."""


class Opened(_Model):
    """The device and the GID that was chosen. ``gid_index`` is 0 and unused on InfiniBand."""

    gid_index: int
    gid: str
    gid_type: str
    netdev: str
    lid: int
    link_layer: LinkLayer
    active_mtu: int
    guid: str


class Connected(_Model):
    """The path MTU in bytes that both ends use."""

    path_mtu: int


class VerifiedSize(_Model):
    """How many messages of a size the sink has verified, every byte of them."""

    size_bytes: int
    iterations_verified: int


class CompletionError(_Model):
    """What ended an exchange: a completion with an error, or none at all within the deadline.

    ``status`` is the name of the completion status without ``IBV_WC_`` (``RETRY_EXC_ERR``) or
    ``DEADLINE``; ``operation`` is the step that was awaited, in words.
    """

    status: str
    vendor_error: int
    operation: str
    iteration: int
    size_bytes: int
    text: str


class ExchangeResult(_Model):
    """What one end saw of one exchange.

    ``completed``: every planned message was moved and, at the sink, right. ``stopped_by_peer``:
    the other end ended it and has the reason. ``mismatch``, ``guard_broken`` come from a sink only.
    ``port_state``: read after an exchange that did not complete, since a link may have gone down.
    """

    sizes: tuple[VerifiedSize, ...]
    completed: bool
    mismatch: Mismatch | None = None
    mismatch_size_bytes: int | None = None
    mismatch_iteration: int | None = None
    guard_broken: str | None = None
    completion_error: CompletionError | None = None
    stopped_by_peer: bool = False
    port_state: str | None = None
    duration_s: float


class TimedResult(_Model):
    """What one end measured; the sink of a measurement has no numbers, but verifies the data.

    Latency is half of the round trip, in microseconds. ``gbps`` is in units of 10^9 bits/s of
    payload, from the first post to the last completion.
    """

    kind: Literal["latency", "bandwidth"]
    size_bytes: int
    iterations: int
    completed: bool
    median_us: float | None = None
    p99_us: float | None = None
    min_us: float | None = None
    gbps: float | None = None
    duration_s: float = 0
    mismatch: Mismatch | None = None
    guard_broken: str | None = None
    completion_error: CompletionError | None = None


Result = Opened | EndpointInfo | Connected | ExchangeResult | TimedResult | Nothing


class ErrorInfo(_Model):
    """Why a command failed. ``status`` names a completion status, ``errno`` is a system call's."""

    step: str
    errno: int | None = None
    status: str | None = None
    vendor_error: int | None = None
    text: str


class ErrorReply(_Model):
    """The reply to a command that failed."""

    id: int
    ok: Literal[False] = False
    error: ErrorInfo


ResultT = TypeVar("ResultT", bound=BaseModel)


class Reply(_Model, Generic[ResultT]):
    """The reply to a command that succeeded."""

    id: int
    ok: Literal[True] = True
    result: ResultT


class _Envelope(BaseModel):
    """What every reply has, whatever else is in it."""

    id: int
    ok: bool


RESULT_OF: dict[str, type[BaseModel]] = {
    "open": Opened,
    "create_qp": EndpointInfo,
    "connect": Connected,
    "arm": Nothing,
    "go": ExchangeResult,
    "timed": TimedResult,
    "close_qp": Nothing,
    "close": Nothing,
}


class WorkerFailure(GdrcheckError):
    """A command failed in the child; ``info`` is what it said."""

    def __init__(self, command: str, info: ErrorInfo) -> None:
        self.command = command
        self.info = info
        super().__init__(f"{command}: {info.text}")


class ProtocolError(GdrcheckError):
    """The child sent something that is not the reply to the request."""


def encode_request(number: int, request: Request) -> bytes:
    """The line to write to the child's stdin."""
    return RequestLine(id=number, request=request).model_dump_json().encode() + b"\n"


def decode_request(line: bytes) -> RequestLine:
    """The request in a line of stdin. pydantic.ValidationError if it is none."""
    return RequestLine.model_validate_json(line)


def encode_reply(reply: Reply[ResultT] | ErrorReply) -> bytes:
    """The line to write to the child's stdout."""
    return reply.model_dump_json().encode() + b"\n"


def decode_reply(line: bytes, number: int, request: Request, expected: type[ResultT]) -> ResultT:
    """The result in a line of the child's stdout, in answer to ``request``.

    WorkerFailure if the child reports an error; ProtocolError if the line is no reply to it.
    ``expected`` is the type in ``RESULT_OF`` for the command.
    """
    try:
        envelope = _Envelope.model_validate_json(line)
        if envelope.id != number:
            raise ProtocolError(f"{request.command}: reply {envelope.id} came for request {number}")
        if not envelope.ok:
            raise WorkerFailure(request.command, ErrorReply.model_validate_json(line).error)
        reply = Reply[expected].model_validate_json(line)  # type: ignore[valid-type]
    except ValidationError as problem:
        raise ProtocolError(
            f"{request.command}: not a reply: {line[:200]!r}: {problem.error_count()} problems"
        ) from problem
    result: ResultT = reply.result
    return result
