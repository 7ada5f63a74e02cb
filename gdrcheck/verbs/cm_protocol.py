"""What a parent and its rdma_cm child (``python3 -m gdrcheck.memory.rdma_cm_worker``) say. Pure.

One JSON object a line: requests on the child's stdin, one reply each on its stdout, in order.
Any number of (``prepare``, ``go``); the end of stdin ends the child. pyverbs holds the GIL in most
calls of rdma_cm, so only the parent's deadline ends one that hangs: by killing the child.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from gdrcheck.facts import DeviceName
from gdrcheck.mismatch import Mismatch
from gdrcheck.registration import Method
from gdrcheck.transfer import Role
from gdrcheck.verbs.protocol import CompletionError, GpuChoice

# pinned: mapped host memory of cuMemHostAlloc, which the GPU's kernels and the NIC both reach.
CmMemory = Literal["pinned", "gpu"]
# "host" is how pinned memory registers.
CmMethod = Literal["host"] | Method
# Even numbers from 0 on, 64 bits each, little-endian.
ELEMENTS = 4096
MESSAGE_BYTES = ELEMENTS * 8
IMMEDIATE = 0x1234
MAX_MESSAGES = 4
# Sent with the connection, so that nobody else's is taken for the pair's.
TOKEN_PATTERN = r"^[0-9a-f]{32}$"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Prepare(_Model):
    """Open the GPU and make its memory: the source's kernel writes the numbers, the sink's poison,
    and the sink listens on ``address``. Reply: ``Prepared``.

    A message for each of ``methods``, by which this end's memory is registered. ``device`` and
    ``port`` are what ``address`` must belong to.
    """

    command: Literal["prepare"] = "prepare"
    role: Role
    memory: CmMemory
    methods: tuple[CmMethod, ...] = Field(min_length=1, max_length=MAX_MESSAGES)
    device: DeviceName
    port: int = Field(default=1, ge=1)
    address: str = Field(min_length=2, max_length=64)
    gpu: GpuChoice
    emulated: bool = False
    token: str = Field(pattern=TOKEN_PATTERN)
    completion_s: float = Field(default=10, gt=0)


class Prepared(_Model):
    """Ready. ``port`` is where the sink listens, None at the source."""

    port: int | None = Field(default=None, ge=1, le=65535)


class Go(_Model):
    """The source connects to ``address`` and ``port`` and sends, the sink accepts and verifies.

    Reply: ``CmReport``. Everything that ``prepare`` made is undone in any case.
    """

    command: Literal["go"] = "go"
    address: str = Field(min_length=2, max_length=64)
    port: int = Field(ge=1, le=65535)


class CmMessage(_Model):
    """One message that was sent, or that arrived.

    ``address`` is what the NIC was given, ``first`` the first five elements as they lie in memory.
    Only a sink has an ``immediate``, and the verdicts of both verifiers: None when all is right.
    """

    method: CmMethod
    address: int = Field(ge=0, lt=1 << 64)
    first: tuple[int, ...] = Field(default=(), max_length=5)
    immediate: int | None = Field(default=None, ge=0, lt=1 << 32)
    by_gpu: Mismatch | None = None
    by_cpu: Mismatch | None = None
    flushed: str = Field(default="", max_length=100)

    @property
    def wrong(self) -> str:
        """What is wrong with it as far as this end sees, in words; empty when nothing is."""
        if self.by_gpu is not None or self.by_cpu is not None:
            seen = ((self.by_gpu, "GPU"), (self.by_cpu, "CPU"))
            return "; ".join(_verdict(found, who) for found, who in seen)
        if self.immediate not in (None, IMMEDIATE):
            return f"the immediate is {self.immediate:#x}, expected {IMMEDIATE:#x}"
        return ""


class CmReport(_Model):
    """What one end saw. ``completed``: every message completed and, at the sink, was right.

    ``gpu`` is its name; ``connect_s`` how long it took from the call until the connection stood.
    """

    role: Role
    memory: CmMemory
    elements: int = Field(default=ELEMENTS, ge=1)
    messages: tuple[CmMessage, ...] = Field(default=(), max_length=MAX_MESSAGES)
    completed: bool
    completion_error: CompletionError | None = None
    gpu: str = Field(default="", max_length=200)
    connect_s: float = Field(default=0, ge=0, allow_inf_nan=False)

    @property
    def wrong(self) -> str:
        """What went wrong as far as this end sees, in words; empty when nothing did."""
        if self.completion_error is not None:
            return self.completion_error.text
        found = ((message.method, message.wrong) for message in self.messages)
        return "; ".join(f"registered by {method}: {text}" for method, text in found if text)


def _verdict(found: Mismatch | None, who: str) -> str:
    if found is None:
        return f"{who}: every byte right"
    return (
        f"{who}: {found.bad_bytes} bytes wrong, the first at {found.first_bad_offset} "
        f"(expected {found.expected_hex}, got {found.got_hex} from {found.excerpt_offset} on, "
        f"looks like {found.origin})"
    )


Request = Prepare | Go


class RequestLine(_Model):
    """One line of stdin: a request under a number that its reply repeats."""

    id: int
    request: Annotated[Request, Field(discriminator="command")]


def encode_request(number: int, request: Request) -> bytes:
    """The line to write to the child's stdin."""
    return RequestLine(id=number, request=request).model_dump_json().encode() + b"\n"
