"""What a transfer between two nodes is: memory, operation, direction, registrations. Pure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from gdrcheck.registration import Method

# What the NIC reads or writes at one end.
Memory = Literal["host", "gpu"]
# Memory of the source, then of the sink.
Mode = Literal["host-host", "host-gpu", "gpu-host", "gpu-gpu"]
Operation = Literal[
    "SEND", "SEND_WITH_IMM", "WRITE", "WRITE_WITH_IMM", "READ", "FETCH_ADD", "CMP_SWAP"
]
# Which way the data goes, also for READ: the source's memory is read.
Role = Literal["source", "sink"]
# Seen from the initiator: the data leaves it, or comes to it.
Direction = Literal["out", "in"]

MODES: tuple[Mode, ...] = ("host-host", "host-gpu", "gpu-host", "gpu-gpu")
OPERATIONS: tuple[Operation, ...] = ("SEND", "SEND_WITH_IMM", "WRITE", "WRITE_WITH_IMM", "READ")
# Only when the profile promises them: not every port has them.
ATOMICS: tuple[Operation, ...] = ("FETCH_ADD", "CMP_SWAP")
DIRECTIONS: tuple[Direction, ...] = ("out", "in")
ATOMIC_BYTES = 8
# From here on an offset in a region needs more than 31 bits.
FAR_BYTES = 2 << 30


def memory_of(mode: Mode, role: Role) -> Memory:
    """The memory that ``mode`` has at the source or at the sink."""
    source, _, sink = mode.partition("-")
    return _MEMORY[source if role == "source" else sink]


def has_gpu(mode: Mode) -> bool:
    """Whether GPU memory takes part."""
    return mode != "host-host"


_MEMORY: dict[str, Memory] = {"host": "host", "gpu": "gpu"}


class RegionKey(BaseModel):
    """Which of an end's memory regions: each memory is registered in several ways.

    ``method`` is ``host`` for host memory. ``relaxed``: with IBV_ACCESS_RELAXED_ORDERING, which
    the library drops in silence where kernel or provider lack it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory: Memory
    method: Literal["host"] | Method
    relaxed: bool = False

    def text(self) -> str:
        """``GPU memory by dmabuf, relaxed ordering``."""
        memory = "host memory" if self.memory == "host" else f"GPU memory by {self.method}"
        return f"{memory}, relaxed ordering" if self.relaxed else memory


class Variant(BaseModel):
    """The regions that a message goes from and to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: RegionKey
    sink: RegionKey

    def text(self) -> str:
        """``from GPU memory by dmabuf to host memory``."""
        return f"from {self.source.text()} to {self.sink.text()}"


def variants(
    mode: Mode, source_methods: tuple[Method, ...], sink_methods: tuple[Method, ...]
) -> tuple[Variant, ...]:
    """Every way to register in which a message of ``mode`` is to be moved: each method of either
    end, once without relaxed ordering and once with it. Empty when an end has no method.
    """
    sources = _keys(memory_of(mode, "source"), source_methods)
    sinks = _keys(memory_of(mode, "sink"), sink_methods)
    if not sources or not sinks:
        return ()
    return tuple(
        Variant(
            source=sources[number % len(sources)].model_copy(update={"relaxed": relaxed}),
            sink=sinks[number % len(sinks)].model_copy(update={"relaxed": relaxed}),
        )
        for relaxed in (False, True)
        for number in range(max(len(sources), len(sinks)))
    )


def _keys(memory: Memory, methods: tuple[Method, ...]) -> tuple[RegionKey, ...]:
    if memory == "host":
        return (RegionKey(memory="host", method="host"),)
    return tuple(RegionKey(memory="gpu", method=method) for method in methods)


class EndLimits(BaseModel):
    """What bounds the speed of one end of a rail, in Gb/s (bits), as its node's facts say.

    None: unknown. ``not_judged`` says why no speed of this end may be judged, "" when it may: a
    software device, an emulated GPU, a virtual topology, GPU and NIC too far apart.
    ``slow_causes`` are words for what the facts know that can make the peer path slow. ``shared``
    and ``gpu_shared`` name what host memory's way, or the GPU's, has in common with another rail's,
    so that no speed can be demanded while all run; "" when it has nothing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    nic_rate_gbps: float | None = Field(default=None, gt=0)
    nic_link_gbps: float | None = Field(default=None, gt=0)
    gpu_link_gbps: float | None = Field(default=None, gt=0)
    distance: Literal["PIX", "PXB", "PHB", "NODE", "SYS"] | None = None
    not_judged: str = Field(default="", max_length=300)
    gpu_not_judged: str = Field(default="", max_length=300)
    slow_causes: tuple[Annotated[str, Field(max_length=100)], ...] = Field(default=(), max_length=8)
    shared: str = Field(default="", max_length=100)
    gpu_shared: str = Field(default="", max_length=100)
