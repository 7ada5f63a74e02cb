"""What the ends of a pair say to each other about perftest and rdma_cm. Pure.

Both go the same way: the sink gets ready and listens (``PerftestServe``, ``CmPrepare``), the source
gets ready as well (``CmPrepare``), then the source connects and sends (``PerftestRun``, ``CmGo``).
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from gdrcheck.pairing.messages import Answer, Body, Request, Text
from gdrcheck.transfer import Memory, Role
from gdrcheck.verbs import cm_protocol


def _ip_address(text: str) -> str:
    ip_address(text)
    return text


# Becomes a word of a command line.
Address = Annotated[str, Field(max_length=64), AfterValidator(_ip_address)]
TcpPort = Annotated[int, Field(ge=1, le=65535)]

# Kept small: what a node can be asked to do is bounded by more than its deadlines.
MAX_SIZE_BYTES = 64 << 20
MAX_ITERATIONS = 1_000_000


# --- perftest -----------------------------------------------------------------------------------


class PerftestPlan(Body):
    """One run of perftest: RDMA WRITE bandwidth, or latency of SEND.

    ``memory`` is that of each end. perftest keeps going for ``iterations`` messages on each of
    ``queue_pairs``.
    """

    TYPE: ClassVar[str] = "perftest-plan"
    kind: Literal["bandwidth", "latency"]
    source: Memory = "host"
    sink: Memory = "host"
    size_bytes: int = Field(ge=1, le=MAX_SIZE_BYTES)
    iterations: int = Field(ge=5, le=MAX_ITERATIONS)
    queue_pairs: int = Field(default=1, ge=1, le=16)

    @property
    def operation(self) -> Literal["WRITE", "SEND"]:
        """What is measured: that of our own numbers of the same kind."""
        return "WRITE" if self.kind == "bandwidth" else "SEND"


class PerftestNumbers(Body):
    """What perftest's client measured, as its JSON tells it.

    ``gbps`` in units of 10^9 bits/s; latencies are halves of the round trip, in us. ``command`` is
    the command line, ``facts`` what the tool itself says of its settings (MTU, relaxed ordering).
    """

    TYPE: ClassVar[str] = "perftest-numbers"
    command: Text
    size_bytes: int = Field(ge=1)
    iterations: int = Field(ge=1)
    gbps: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    typical_us: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    p99_us: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    min_us: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    max_us: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    mtu: int | None = None
    relaxed_ordering: str = Field(default="", max_length=32)


class PerftestAbsent(Answer):
    """This end has no perftest that can do it; ``reason`` says what is missing."""

    TYPE: ClassVar[str] = "perftest-absent"
    reason: Text


class PerftestServe(Request):
    """Start the server, at the sink. Answer: ``PerftestServing`` or ``PerftestAbsent``."""

    TYPE: ClassVar[str] = "perftest-serve"
    plan: PerftestPlan


class PerftestServing(Answer):
    """The server listens."""

    TYPE: ClassVar[str] = "perftest-serving"
    address: Address
    port: TcpPort


class PerftestRun(Request):
    """Run the client, at the source. Answer: ``PerftestRan`` or ``PerftestAbsent``."""

    TYPE: ClassVar[str] = "perftest-run"
    plan: PerftestPlan
    address: Address
    port: TcpPort


class PerftestRan(Answer):
    """What the client measured."""

    TYPE: ClassVar[str] = "perftest-ran"
    numbers: PerftestNumbers


class PerftestStop(Request):
    """End the server. Answer: ``PerftestStopped``."""

    TYPE: ClassVar[str] = "perftest-stop"


class PerftestStopped(Answer):
    """The server is gone. ``complaint`` is what it said, "" when it ended well by itself."""

    TYPE: ClassVar[str] = "perftest-stopped"
    complaint: Text


# --- rdma_cm ------------------------------------------------------------------------------------


class CmPrepare(Request):
    """Get ready for the exchange by rdma_cm: the sink listens.

    Answer: ``CmPrepared`` or ``CmAbsent``. One message for each of ``methods``, which are this
    end's; "host" for pinned memory.
    """

    TYPE: ClassVar[str] = "cm-prepare"
    role: Role
    memory: cm_protocol.CmMemory
    methods: tuple[cm_protocol.CmMethod, ...] = Field(
        min_length=1, max_length=cm_protocol.MAX_MESSAGES
    )
    token: str = Field(pattern=cm_protocol.TOKEN_PATTERN)


class CmAbsent(Answer):
    """This end cannot take part; ``reason`` says what it lacks."""

    TYPE: ClassVar[str] = "cm-absent"
    reason: Text


class CmPrepared(Answer):
    """This end is ready. ``port`` is where the sink listens, None at the source."""

    TYPE: ClassVar[str] = "cm-prepared"
    address: Address
    port: TcpPort | None = None


class CmGo(Request):
    """Connect and send, or wait for that. Answer: ``CmDone``. ``address``, ``port``: the sink's."""

    TYPE: ClassVar[str] = "cm-go"
    address: Address
    port: TcpPort


class CmDone(Answer):
    """What this end saw of the exchange."""

    TYPE: ClassVar[str] = "cm-done"
    report: cm_protocol.CmReport


REQUESTS: tuple[type[Request], ...] = (
    PerftestServe,
    PerftestRun,
    PerftestStop,
    CmPrepare,
    CmGo,
)
ANSWERS: tuple[type[Answer], ...] = (
    PerftestAbsent,
    PerftestServing,
    PerftestRan,
    PerftestStopped,
    CmAbsent,
    CmPrepared,
    CmDone,
)
BODIES: dict[str, type[Body]] = {body.TYPE: body for body in (*REQUESTS, *ANSWERS)}
