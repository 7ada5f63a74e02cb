"""What the two ends of a pair session say about their endpoints: requests and answers. Pure.

Every request is about one rail, and has one answer, which is a ``messages.Failure`` when it could
not be done. Requests of one rail are answered in their order; rails know nothing of each other.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gdrcheck.pairing.messages import Answer, Body, Request, Text
from gdrcheck.transfer import Operation, Role, Variant
from gdrcheck.verbs import protocol

MAX_SIZES = 64
MAX_VARIANTS = 16
MAX_ITERATIONS = 1000
MAX_TIMED_ITERATIONS = 10_000_000
MAX_TIMED_S = 600
Size = Annotated[int, Field(ge=1, lt=1 << 32)]


class Open(Request):
    """Open the rail's device. Answer: ``Opened``."""

    TYPE: ClassVar[str] = "open"


class Opened(Answer):
    """What was opened. ``binding`` says which cores the endpoint child runs on."""

    TYPE: ClassVar[str] = "opened"
    info: protocol.Opened
    binding: Text


class OpenGpu(Request):
    """Open the rail's GPU and register its memory. Answer: ``GpuOpened``."""

    TYPE: ClassVar[str] = "open-gpu"


class GpuOpened(Answer):
    """The GPU that was opened."""

    TYPE: ClassVar[str] = "gpu-opened"
    info: protocol.GpuOpened


class PortState(Request):
    """Read the state of the rail's port. Answer: ``PortStateIs``."""

    TYPE: ClassVar[str] = "port-state"


class PortStateIs(Answer):
    """The state that was read."""

    TYPE: ClassVar[str] = "port-state-is"
    info: protocol.PortStateIs


class Endpoint(Request):
    """Make queue pairs on the rail, in place of earlier ones. Answer: ``EndpointMade``."""

    TYPE: ClassVar[str] = "endpoint"


class EndpointMade(Answer):
    """The queue pairs that were made, and the memory regions."""

    TYPE: ClassVar[str] = "endpoint-made"
    info: protocol.EndpointInfo


class Connect(Request):
    """Connect the rail's queue pairs to those of ``remote``. Answer: ``Connected``."""

    TYPE: ClassVar[str] = "connect"
    remote: protocol.EndpointInfo


class Connected(Answer):
    """The queue pairs are ready."""

    TYPE: ClassVar[str] = "connected"
    info: protocol.Connected


class Arm(Request):
    """Get ready for one exchange. Answer: ``Armed``."""

    TYPE: ClassVar[str] = "arm"
    operation: Operation
    role: Role
    variants: tuple[Variant, ...] = Field(min_length=1, max_length=MAX_VARIANTS)
    far: bool = False
    sizes_bytes: tuple[Size, ...] = Field(min_length=1, max_length=MAX_SIZES)
    iterations: int = Field(ge=1, le=MAX_ITERATIONS)
    run_tag: int = Field(ge=0, lt=1 << 64)
    direction: Literal[0, 1]
    flip: protocol.Flip | None = None


class Armed(Answer):
    """What the other end needs to find posted is posted."""

    TYPE: ClassVar[str] = "armed"


class Go(Request):
    """Run the armed exchange. Answer: ``Result``."""

    TYPE: ClassVar[str] = "go"


class Result(Answer):
    """What this end saw of the exchange."""

    TYPE: ClassVar[str] = "result"
    report: protocol.ExchangeResult


class Timed(Request):
    """Take part in one measurement. Answer: ``TimedDone``."""

    TYPE: ClassVar[str] = "timed"
    kind: Literal["latency", "bandwidth"]
    role: Role
    variant: Variant
    size_bytes: Size
    iterations: int = Field(ge=1, le=MAX_TIMED_ITERATIONS)
    seconds: float = Field(ge=0, le=MAX_TIMED_S, allow_inf_nan=False)
    depth: int = Field(ge=1, le=1024)
    queue_pairs: int = Field(ge=1, le=16)
    both_ways: bool


class TimedDone(Answer):
    """What this end measured."""

    TYPE: ClassVar[str] = "timed-done"
    report: protocol.TimedResult


class Staged(Request):
    """Take part in one comparison of ways. Answer: ``StagedDone``."""

    TYPE: ClassVar[str] = "staged"
    role: Role
    variant: Variant
    size_bytes: Size
    iterations: int = Field(ge=1, le=MAX_ITERATIONS)
    run_tag: int = Field(ge=0, lt=1 << 64)


class StagedDone(Answer):
    """What this end saw of the comparison."""

    TYPE: ClassVar[str] = "staged-done"
    report: protocol.StagedResult


class Close(Request):
    """Destroy the rail's queue pairs. Answer: ``Closed``."""

    TYPE: ClassVar[str] = "close"


class Closed(Answer):
    """The queue pairs are gone, or there were none."""

    TYPE: ClassVar[str] = "closed"


REQUESTS: tuple[type[Request], ...] = (
    Open, OpenGpu, PortState, Endpoint, Connect, Arm, Go, Timed, Staged, Close,
)  # fmt: skip
ANSWERS: tuple[type[Answer], ...] = (
    Opened, GpuOpened, PortStateIs, EndpointMade, Connected, Armed, Result, TimedDone, StagedDone,
    Closed,
)  # fmt: skip
BODIES: dict[str, type[Body]] = {body.TYPE: body for body in (*REQUESTS, *ANSWERS)}
