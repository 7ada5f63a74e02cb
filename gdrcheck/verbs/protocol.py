"""What a parent and its endpoint child (``python3 -m gdrcheck.memory.worker``) say to each other.

One JSON object a line: requests on the child's stdin, one reply each on its stdout, in order.
Needs no pyverbs. The order of a session: ``open``, for GPU memory ``open_gpu``, ``create_qp``,
``connect``, then any number of (``arm``, barrier between the parents, ``go``) or (barrier,
``timed`` or ``staged``), at last ``close``.

The queue pairs are used up when ``go``, ``timed`` or ``staged`` did not complete on either end:
both ends then need ``close_qp``, ``create_qp`` and ``connect``. The child refuses to go on without.
"""

from __future__ import annotations

from typing import Annotated, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, Field, ValidationError

from gdrcheck.outcome import GdrcheckError
from gdrcheck.verbs.replies import (
    CompletionError,
    Connected,
    ExchangeResult,
    GpuOpened,
    Nothing,
    Opened,
    PortStateIs,
    RegionInfo,
    Result,
    StagedResult,
    StagedWay,
    TimedResult,
    VerifiedSize,
)
from gdrcheck.verbs.requests import (
    Arm,
    Close,
    CloseQp,
    Connect,
    CreateQp,
    Go,
    GpuChoice,
    Open,
    OpenGpu,
    PortState,
    Request,
    Staged,
    Timed,
)
from gdrcheck.verbs.told import (
    DEADLINE,
    DEFAULT_PAYLOAD_BYTES,
    MARGIN_BYTES,
    MODIFY_QP,
    MTU_HERE,
    MTU_THERE,
    EndpointInfo,
    ExchangePlan,
    Flip,
    LinkLayer,
    Message,
    QueuePairInfo,
    RemoteRegion,
)

__all__ = [
    "DEADLINE",
    "DEFAULT_PAYLOAD_BYTES",
    "MARGIN_BYTES",
    "MODIFY_QP",
    "MTU_HERE",
    "MTU_THERE",
    "RESULT_OF",
    "Arm",
    "Asked",
    "Close",
    "CloseQp",
    "CompletionError",
    "Connect",
    "Connected",
    "CreateQp",
    "EndpointInfo",
    "ErrorInfo",
    "ErrorReply",
    "ExchangePlan",
    "ExchangeResult",
    "Flip",
    "Go",
    "GpuChoice",
    "GpuOpened",
    "LinkLayer",
    "Message",
    "Nothing",
    "Open",
    "OpenGpu",
    "Opened",
    "PortState",
    "PortStateIs",
    "ProtocolError",
    "QueuePairInfo",
    "RegionInfo",
    "RemoteRegion",
    "Reply",
    "Request",
    "RequestLine",
    "Result",
    "Staged",
    "StagedResult",
    "StagedWay",
    "Timed",
    "TimedResult",
    "VerifiedSize",
    "WorkerFailure",
    "decode_reply",
    "decode_request",
    "encode_reply",
    "encode_request",
]


class RequestLine(Message):
    """One line of stdin: a request under a number that its reply repeats."""

    id: int
    request: Annotated[Request, Field(discriminator="command")]


class ErrorInfo(Message):
    """Why a command failed. ``status`` names a completion status, ``errno`` is a system call's,
    ``cuda`` the name of a CUDA error.
    """

    step: str
    errno: int | None = None
    status: str | None = None
    vendor_error: int | None = None
    cuda: str | None = None
    text: str


class ErrorReply(Message):
    """The reply to a command that failed."""

    id: int
    ok: Literal[False] = False
    error: ErrorInfo


ResultT = TypeVar("ResultT", bound=BaseModel)


class Reply(Message, Generic[ResultT]):
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
    "open_gpu": GpuOpened,
    "port_state": PortStateIs,
    "create_qp": EndpointInfo,
    "connect": Connected,
    "arm": Nothing,
    "go": ExchangeResult,
    "timed": TimedResult,
    "staged": StagedResult,
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


class Asked(Protocol):
    """What was asked of a child, this one or another that speaks in the same lines."""

    @property
    def command(self) -> str:
        """The name of the command."""


def encode_request(number: int, request: Request) -> bytes:
    """The line to write to the child's stdin."""
    return RequestLine(id=number, request=request).model_dump_json().encode() + b"\n"


def decode_request(line: bytes) -> RequestLine:
    """The request in a line of stdin. pydantic.ValidationError if it is none."""
    return RequestLine.model_validate_json(line)


def encode_reply(reply: Reply[ResultT] | ErrorReply) -> bytes:
    """The line to write to the child's stdout."""
    return reply.model_dump_json().encode() + b"\n"


def decode_reply(line: bytes, number: int, request: Asked, expected: type[ResultT]) -> ResultT:
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
