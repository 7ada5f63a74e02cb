"""What an endpoint child answers: what was opened, moved and measured. Pure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gdrcheck.mismatch import Mismatch
from gdrcheck.transfer import RegionKey, Variant
from gdrcheck.verbs.told import EndpointInfo, LinkLayer, Message


class Nothing(Message):
    """The result of a command that only succeeds."""


class Opened(Message):
    """The device and the GID that was chosen. ``gid_index`` is 0 and unused on InfiniBand."""

    gid_index: int
    gid: str
    gid_type: str
    netdev: str
    lid: int
    link_layer: LinkLayer
    active_mtu: int
    guid: str


class RegionInfo(Message):
    """A region of GPU memory as it was registered: what the NIC is given for its payload's first
    byte (device pointer, or offset in the dma-buf), and the mapping type of the export.
    """

    key: RegionKey
    address: int
    mapping: str = ""


class GpuOpened(Message):
    """The GPU that was opened and how its memory was registered.

    ``flush``: how writes of the NIC are made visible to it. ``far_refused``: why the payload does
    not reach beyond ``FAR_BYTES``, "" when it does or was not asked to.
    """

    name: str
    uuid: str
    slot: str
    emulated: bool
    flush: str
    payload_bytes: int
    far_refused: str = ""
    regions: tuple[RegionInfo, ...]


class PortStateIs(Message):
    """The state as ``ACTIVE``, or why it is unreadable."""

    state: str


class Connected(Message):
    """The path MTU in bytes that both ends use."""

    path_mtu: int


class VerifiedSize(Message):
    """How many messages of a size, of all variants together, the sink has verified, every byte."""

    size_bytes: int
    iterations_verified: int


class CompletionError(Message):
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


class ExchangeResult(Message):
    """What one end saw of one exchange.

    ``completed``: every planned message was moved and, at the sink, right. ``stopped_by_peer``:
    the other end ended it and has the reason. ``mismatch``, ``guard_broken`` come from a sink only;
    ``mismatch_variant`` is which way of registering it was, also for a ``completion_error``.
    ``verdicts_differ``: GPU and CPU disagree about the same bytes, in words. ``source_changed``
    comes from a source whose exchange was stopped: what of the message's own memory is not as it
    was filled, in words; None when it is right or was not looked at. ``port_state``: read after an
    exchange that did not complete, since a link may have gone down.
    """

    sizes: tuple[VerifiedSize, ...]
    completed: bool
    mismatch: Mismatch | None = None
    mismatch_size_bytes: int | None = None
    mismatch_iteration: int | None = None
    mismatch_variant: Variant | None = None
    verdicts_differ: str | None = None
    guard_broken: str | None = None
    source_changed: str | None = None
    completion_error: CompletionError | None = None
    stopped_by_peer: bool = False
    port_state: str | None = None
    duration_s: float


# What a peer says is not trusted: JSON as Python writes it knows numbers that are none.
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class TimedResult(Message):
    """What one end measured; the sink of a measurement has no numbers, but verifies the data.

    Latency is half of the round trip of our Python loop, in microseconds. ``gbps`` is in units of
    10^9 bits/s of payload, from the first post to the last completion; with ``both_ways`` that of
    the way from this end.
    """

    kind: Literal["latency", "bandwidth"]
    size_bytes: int
    iterations: int
    completed: bool
    median_us: Positive | None = None
    p99_us: Positive | None = None
    min_us: Positive | None = None
    max_us: Positive | None = None
    gbps: Positive | None = None
    duration_s: NotNegative = 0
    mismatch: Mismatch | None = None
    guard_broken: str | None = None
    completion_error: CompletionError | None = None


class StagedWay(Message):
    """One way of the comparison: medians over its messages, in us, and the rate they make.

    ``copy_us`` is what the copies between GPU and host memory took of it, at both ends, 0 for the
    direct way. ``address`` is what the NIC of this end was given, in words.
    """

    median_us: Positive
    copy_us: NotNegative = 0
    gbps: Positive
    address: str = ""


class StagedResult(Message):
    """What one end saw of the comparison. The numbers are the source's; both ends say addresses."""

    completed: bool
    staged: StagedWay | None = None
    direct: StagedWay | None = None
    staged_address: str = ""
    direct_address: str = ""
    wrong_way: Literal["staged", "direct"] | None = None
    mismatch: Mismatch | None = None
    guard_broken: str | None = None
    completion_error: CompletionError | None = None
    duration_s: NotNegative = 0


Result = (
    Opened
    | GpuOpened
    | PortStateIs
    | EndpointInfo
    | Connected
    | ExchangeResult
    | TimedResult
    | StagedResult
    | Nothing
)
