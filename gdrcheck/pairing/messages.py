"""What nodes say to each other: one model for each type of frame, limited in size.

Nothing from a peer is trusted: unknown keys, wrong types and oversized values are refused here,
and whoever acts on a message compares it with its own plan as well.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from gdrcheck.facts import DeviceName
from gdrcheck.registration import Method
from gdrcheck.run import NODE_NAME_PATTERN, RUN_ID_PATTERN
from gdrcheck.transfer import EndLimits
from gdrcheck.verbs import protocol

Purpose = Literal["rendezvous", "pair", "job"]
NodeName = Annotated[str, Field(pattern=NODE_NAME_PATTERN)]
Text = Annotated[str, Field(max_length=2000)]
Short = Annotated[str, Field(max_length=253)]

TEXT_LIMIT = 2000
REASON_LIMIT = 300
MAX_RAILS = 64
# Some thousand years: no clock is further from another one, or from 1970.
MAX_SECONDS = 1e11
Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
SignedSeconds = Annotated[float, Field(ge=-MAX_SECONDS, le=MAX_SECONDS, allow_inf_nan=False)]


def clipped(text: str, limit: int = TEXT_LIMIT) -> str:
    """``text``, shortened to ``limit`` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _short_reason(text: str) -> str:
    return clipped(text, REASON_LIMIT)


class Body(BaseModel):
    """The body of a frame. ``TYPE`` is the frame's type."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    TYPE: ClassVar[str]


# --- handshake ----------------------------------------------------------------------------------


class Hello(Body):
    """Who speaks, to whom, about which run, with what. ``nonce`` is 32 random bytes in hex."""

    TYPE: ClassVar[str] = "hello"
    nonce: str = Field(pattern=r"^[0-9a-f]{64}$")
    node: NodeName
    peer: NodeName
    run_id: str = Field(pattern=RUN_ID_PATTERN)
    protocol: int
    version: Short
    image_id: Short
    profile_hash: str = Field(pattern=r"^[0-9a-f]{64}$")
    purpose: Purpose


class Proof(Body):
    """The connecting end's first frame under the session key: it knows the secret, now."""

    TYPE: ClassVar[str] = "proof"


class Welcome(Body):
    """The accepting end's answer to the proof, under the session key.

    ``clock_s`` is its clock at that moment, in seconds since 1970.
    """

    TYPE: ClassVar[str] = "welcome"
    clock_s: Seconds


class Refused(Body):
    """Why a proven peer is not wanted. ``retry``: the reason may pass, try again."""

    TYPE: ClassVar[str] = "refused"
    reason: Annotated[str, Field(max_length=500)]
    retry: bool


# --- both purposes ------------------------------------------------------------------------------


class Alive(Body):
    """Nothing new, but the process lives."""

    TYPE: ClassVar[str] = "alive"


# --- rendezvous ---------------------------------------------------------------------------------


class RailInfo(Body):
    """A rail of a ready node. ``blocked_by`` says why it cannot be measured, None if it can.

    ``gpu_blocked_by`` is the same for memory of its GPU, ``methods`` those by which that registers
    and is to be used. ``data_address`` is the IP address of the port, None when it has none.
    """

    TYPE: ClassVar[str] = "rail"
    id: int = Field(ge=0, lt=MAX_RAILS)
    gpu: DeviceName | None = None
    nic: DeviceName
    port: int = Field(default=1, ge=1, le=255)
    blocked_by: Annotated[str, AfterValidator(_short_reason)] | None = None
    gpu_blocked_by: Annotated[str, AfterValidator(_short_reason)] | None = None
    methods: tuple[Method, ...] = Field(default=(), max_length=4)
    limits: EndLimits = EndLimits()
    data_address: Annotated[str, Field(max_length=64)] | None = None


class ClockOffset(Body):
    """How far the clock of the other end is ahead of this end's, give or take ``error_s``."""

    TYPE: ClassVar[str] = "clock"
    offset_s: SignedSeconds
    error_s: Seconds


class Ready(Body):
    """The node phase is over; these are the node's rails, and the receiver's clock against its."""

    TYPE: ClassVar[str] = "ready"
    rails: tuple[RailInfo, ...] = Field(max_length=MAX_RAILS)
    clock: ClockOffset | None = None


class NodeState(Body):
    """What the rendezvous made of one node. ``reason`` is empty for a ready one.

    ``clock`` is the leader's against the node's; None for the leader and for who is not ready.
    """

    TYPE: ClassVar[str] = "state"
    state: Literal["ready", "absent", "lost"]
    reason: Annotated[str, AfterValidator(_short_reason)] = ""
    rails: tuple[RailInfo, ...] = Field(default=(), max_length=MAX_RAILS)
    clock: ClockOffset | None = None


class ListPart(Body):
    """A part of the list that all ready nodes get; ``last`` ends it."""

    TYPE: ClassVar[str] = "list"
    leader: NodeName
    nodes: dict[NodeName, NodeState]
    last: bool


class ListTaken(Body):
    """The whole list has arrived."""

    TYPE: ClassVar[str] = "list-taken"


class Moved(Body):
    """The speaker does not lead; it follows ``leader``."""

    TYPE: ClassVar[str] = "moved"
    leader: NodeName


# --- pair session -------------------------------------------------------------------------------


class Request(Body):
    """What an initiator asks of a rail. ``number`` is given by its session, and never twice."""

    rail: int = Field(ge=0, lt=MAX_RAILS)
    number: int = Field(default=0, ge=0, lt=1 << 53)


class Answer(Body):
    """What a responder answers to the request of the same ``rail`` and ``number``."""

    rail: int = Field(default=0, ge=0, lt=MAX_RAILS)
    number: int = Field(default=0, ge=0, lt=1 << 53)


class Failure(Answer):
    """A request could not be done. ``error`` is there when the endpoint child reported it."""

    TYPE: ClassVar[str] = "error"
    step: Short
    text: Text
    error: protocol.ErrorInfo | None = None


class Serving(Body):
    """The responder has reached this pair's round and waits for requests."""

    TYPE: ClassVar[str] = "serving"


class Bye(Body):
    """The initiator has no more for this pair. The responder answers with the same."""

    TYPE: ClassVar[str] = "bye"


BODIES: dict[str, type[Body]] = {
    body.TYPE: body
    for body in (
        Hello, Proof, Welcome, Refused, Alive, Ready, ListPart, ListTaken, Moved, Serving, Bye,
        Failure,
    )
}  # fmt: skip
