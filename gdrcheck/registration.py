"""What became of registering GPU memory with a NIC, and of moving data through it. Pure types.

Made by ``gdrcheck.memory``, judged by ``gdrcheck.rules.registration``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gdrcheck.mismatch import Mismatch

# peermem: ibv_reg_mr on the device pointer. dmabuf: ibv_reg_dmabuf_mr on an exported descriptor.
Method = Literal["dmabuf", "peermem"]
METHODS: tuple[Method, ...] = ("dmabuf", "peermem")
# gpu: cuMemAlloc. gpu-vmm: cuMemCreate with gpuDirectRDMACapable. pinned: mapped host memory, which
# is never GPUDirect. managed: made only to see it refused.
BufferKind = Literal["gpu", "gpu-vmm", "pinned", "managed"]
# whole: the allocation. interior: an unaligned range inside it. The neighbours touch each other.
RangeKind = Literal["whole", "interior", "first neighbour", "second neighbour"]
Stage = Literal[
    "allocate", "prove", "probe", "export", "register", "deregister", "repeat", "connect", "move"
]


@dataclass(frozen=True, slots=True)
class Proof:
    """What the driver says of a buffer's memory. Source: cuPointerGetAttribute.

    ``memory_type`` alone proves nothing: managed memory says ``device`` as well.
    """

    kind: BufferKind
    memory_type: Literal["device", "host", "other"]
    managed: bool
    ordinal: int
    expected_ordinal: int
    gdr_capable: bool
    range_bytes: int
    length_bytes: int

    @property
    def gpu_memory(self) -> bool:
        """Whether this is memory of the expected GPU that a NIC may reach directly."""
        return (
            self.memory_type == "device"
            and not self.managed
            and self.ordinal == self.expected_ordinal
            and self.gdr_capable
            and self.range_bytes >= self.length_bytes
        )

    def text(self) -> str:
        """The values in words, for findings."""
        managed = "managed" if self.managed else "not managed"
        capable = "GPUDirect RDMA capable" if self.gdr_capable else "not GPUDirect RDMA capable"
        kind = "pinned (host memory, not GPUDirect)" if self.kind == "pinned" else self.kind
        return (
            f"{kind}: memory type {self.memory_type}, {managed}, on device {self.ordinal}, "
            f"{capable}, range of {self.range_bytes} bytes"
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """A step that was refused. ``errno`` is of a verbs call, ``cuda`` the name of a CUDA error."""

    stage: Stage
    text: str
    errno: int | None = None
    cuda: str | None = None
    range: RangeKind | None = None
    length_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Support:
    """What the cheap probes say before memory is touched.

    ``dmabuf_errno`` is of ``ibv_reg_dmabuf_mr`` with descriptor -1: EBADF means that the call is
    there, EOPNOTSUPP and EPROTONOSUPPORT that it is not; None when it was not tried or, against all
    expectation, succeeded. The attributes are the GPU's; None when the driver does not know them.
    """

    dmabuf_errno: int | None
    dmabuf_attribute: bool | None
    gdr_attribute: bool | None


@dataclass(frozen=True, slots=True)
class Region:
    """One memory region as it came back, and how long its steps took.

    ``requested_address`` is what a work request must use: the device pointer for ``peermem``, the
    offset inside the dma-buf for ``dmabuf``. ``flag`` tells which mapping type was exported:
    ``pcie`` or ``plain``; None for ``peermem``. ``other_refused`` is what the GPU's driver or the
    NIC said of the type that was tried before; empty when none was.
    """

    range: RangeKind
    requested_address: int
    requested_bytes: int
    address: int
    length_bytes: int
    lkey: int
    rkey: int
    flag: Literal["pcie", "plain"] | None
    export_us: float | None
    register_us: float
    deregister_us: float
    other_refused: str = ""


# Allocators keep some of what they are given back. A leak of every registration is more.
RSS_TOLERANCE_BYTES = 16 << 20
GPU_TOLERANCE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Growth:
    """Registering the same range ``times`` times over, each undone before the next."""

    times: int
    fds_before: int
    fds_after: int
    rss_before_bytes: int
    rss_after_bytes: int
    free_before_bytes: int
    free_after_bytes: int
    first_us: float
    last_us: float

    @property
    def left(self) -> tuple[str, ...]:
        """What stayed in use, in words; empty when nothing did, but what allocators keep."""
        fds = self.fds_after - self.fds_before
        rss_bytes = self.rss_after_bytes - self.rss_before_bytes
        gpu_bytes = self.free_before_bytes - self.free_after_bytes
        left = [f"{fds} open files"] if fds > 0 else []
        left += [f"{rss_bytes} bytes of the process"] if rss_bytes > RSS_TOLERANCE_BYTES else []
        left += [f"{gpu_bytes} bytes of the GPU"] if gpu_bytes > GPU_TOLERANCE_BYTES else []
        return tuple(left)


@dataclass(frozen=True, slots=True)
class Attempt:
    """Registering memory of one GPU with one NIC by one method.

    ``sizes_bytes`` are those of the whole allocations that were tried, ``limited_by`` says why the
    largest is less than 1 GiB, empty when it is not. ``refusal`` is what ended the attempt; None
    when every step worked. ``proof`` is of the last buffer.
    """

    method: Method
    support: Support
    sizes_bytes: tuple[int, ...]
    limited_by: str
    proof: Proof | None
    regions: tuple[Region, ...]
    growth: Growth | None
    refusal: Refusal | None

    @property
    def registered_bytes(self) -> int:
        """The largest range that registered; 0 when none did."""
        return max((region.requested_bytes for region in self.regions), default=0)


# The ends of a transfer through one NIC's loop-back.
Way = Literal["gpu to gpu", "gpu to host", "host to gpu"]
WAYS: tuple[Way, ...] = ("gpu to gpu", "gpu to host", "host to gpu")
Operation = Literal["WRITE", "READ"]


@dataclass(frozen=True, slots=True)
class Moved:
    """One transfer that completed, judged.

    ``by_gpu`` and ``by_cpu`` are the verdicts of the two verifiers over the same bytes, None when
    right; ``by_gpu`` is None as well when the sink is host memory (``sink_is_gpu`` False).
    ``spilled`` tells of bytes beside the range that changed, None when none did.
    """

    way: Way
    operation: Operation
    length_bytes: int
    sink_is_gpu: bool
    by_gpu: Mismatch | None
    by_cpu: Mismatch | None
    spilled: str | None
    flushed: str

    @property
    def right(self) -> bool:
        """Whether both verifiers found every byte right and nothing beside them changed."""
        return self.by_gpu is None and self.by_cpu is None and self.spilled is None

    @property
    def disagree(self) -> bool:
        """Whether the verifiers contradict each other over the same bytes."""
        return self.sink_is_gpu and (self.by_gpu is None) != (self.by_cpu is None)


@dataclass(frozen=True, slots=True)
class Movement:
    """All transfers through one NIC with one method. ``refusal`` is what ended them early.

    ``status`` and ``vendor_error`` are of the completion that failed, ``way`` and ``operation``
    those of the transfer that did. ``flag`` is the mapping type as in ``Region``.
    """

    method: Method
    moved: tuple[Moved, ...]
    refusal: Refusal | None
    way: Way | None = None
    operation: Operation | None = None
    status: str | None = None
    vendor_error: int | None = None
    flag: Literal["pcie", "plain"] | None = None
