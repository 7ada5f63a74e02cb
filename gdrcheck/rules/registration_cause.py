"""Why GPU memory does not register: from errno, CUDA error and the evidence around to codes. Pure.

Sources of the errnos: Linux drivers/infiniband/core/umem.c and umem_dmabuf.c, drivers/dma-buf/
dma-buf.c, libibverbs; nv-dmabuf.c and nvidia-peermem.c of NVIDIA's open driver.
"""

from __future__ import annotations

import errno as numbers
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gdrcheck.expect import Distance
from gdrcheck.registration import Method, Stage
from gdrcheck.rules import cuda_cause as cuda

# What nv-dmabuf.c answers to a NIC that it refuses. The kernel's own, and in no list of POSIX.
ENOTSUPP = 524
DENIED = (numbers.EPERM, numbers.EACCES)
# How a kernel says that something has run out.
EXHAUSTED = (numbers.ENOMEM, numbers.EMFILE, numbers.ENFILE, numbers.ENOSPC, numbers.EAGAIN)
# Below a common switch the driver refuses no NIC, but for the forced mapping type.
BELOW_A_SWITCH = ("PIX", "PXB")
FORCED_MAPPING = "FORCE_PCIE"
# So many times the range free in BAR1 is room enough, whatever others do meanwhile. Our choice.
ROOM_ENOUGH = 8

Standing = Literal["works", "not supported", "broken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of one refusal, and around it. None: unknown, or not asked.

    ``stage`` None: nothing was refused. ``registered_bytes`` is the largest range that registered
    before. ``gpu_memory`` is what the driver says of the buffer. ``peermem_registered`` is None as
    well where the RDMA stack does not show its clients. ``memlock_limited``: the limit on locked
    memory is below ``length_bytes``, and nothing lifts it. ``attach_refused`` is the kernel's line
    about a NIC that NVIDIA's driver refused, ``topology_allowed`` that it was told to refuse none.
    ``around`` is for people: what goes into the finding.
    """

    method: Method
    stage: Stage | None = None
    errno: int | None = None
    cuda: str | None = None
    length_bytes: int = 0
    registered_bytes: int = 0
    gpu_memory: bool | None = None
    dmabuf_errno: int | None = None
    dmabuf_attribute: bool | None = None
    gdr_attribute: bool | None = None
    peermem_loaded: bool | None = None
    peermem_registered: bool | None = None
    bar1_total_bytes: int | None = None
    bar1_used_bytes: int | None = None
    memlock_limited: bool = False
    virtual_gpu: bool = False
    distance: Distance | None = None
    topology_allowed: bool = False
    attach_refused: str | None = None
    around: Mapping[str, str] = field(default_factory=dict)

    @property
    def bar1_has_room(self) -> bool | None:
        """Whether BAR1 can hold the range: None when that is unknown, or a close thing.

        What is in use was read before the checks, and others may have mapped more since.
        """
        if self.bar1_total_bytes is None:
            return None
        free_bytes = self.bar1_total_bytes - (self.bar1_used_bytes or 0)
        if free_bytes < self.length_bytes:
            return False
        return True if free_bytes >= ROOM_ENOUGH * self.length_bytes else None


def cause(evidence: Evidence) -> tuple[str, ...]:
    """The codes of what may have been the cause of the refusal, the most likely first; never none.

    None of them contradicts the evidence.
    """
    return tuple(dict.fromkeys(_causes(evidence))) or ("MR-GPU-FAILED",)


def unsupported(evidence: Evidence) -> str | None:
    """Why this GPU and NIC do not offer the method at all, in words; None when they seem to."""
    if evidence.method == "peermem":
        if evidence.peermem_loaded is False:
            return "nvidia-peermem is not loaded"
        if evidence.peermem_registered is False:
            return "nvidia-peermem is loaded, but no client of the RDMA stack"
        return "the GPU does not support it (attribute 0)" if _off(evidence.gdr_attribute) else None
    if _off(evidence.dmabuf_attribute):
        return "the GPU's driver cannot export memory as dma-buf (attribute 0)"
    answer = _answer_of_stack(evidence)
    if answer == numbers.EPROTONOSUPPORT:
        return "the kernel's RDMA stack does not know dma-buf (errno 93)"
    if answer == numbers.EOPNOTSUPP:
        return "the NIC's driver does not offer dma-buf (errno 95)"
    return None


def standing(evidence: Evidence) -> Standing:
    """Whether the method works; if not, whether it is absent here or broken."""
    if evidence.stage is None:
        return "works"
    tried = evidence.stage in ("probe", "export", "register") and not evidence.registered_bytes
    return "not supported" if tried and unsupported(evidence) else "broken"


def success_against(evidence: Evidence) -> str | None:
    """What says that a registration could not have worked, when one has; None without that."""
    if not evidence.registered_bytes:
        return None
    if evidence.method == "peermem" and evidence.peermem_loaded is False:
        return "nvidia-peermem is not loaded, and ibv_reg_mr took the device pointer"
    if evidence.method == "dmabuf" and _off(evidence.dmabuf_attribute):
        return "the GPU says that it cannot export memory (attribute 0), and the export registered"
    return None


def _causes(evidence: Evidence) -> Iterator[str]:
    stage = evidence.stage
    if success_against(evidence):
        yield "MR-NOT-GPU-MEMORY"
    if stage in ("connect", "move") and evidence.cuda is None:
        yield "MR-MOVE-FAILED"
    elif stage == "export" and evidence.method == "dmabuf":
        yield from _of_export(evidence)
    elif evidence.cuda is not None:
        yield from _of_cuda(evidence.cuda)
    elif stage == "prove" and evidence.gpu_memory is False:
        yield from _of_wrong_memory(evidence)
    elif stage in ("probe", "register", "repeat"):
        yield from _of_registration(evidence)


def _of_cuda(name: str) -> Iterator[str]:
    if name == cuda.NOT_PERMITTED:
        yield "MR-GPU-DENIED"
    yield from cuda.cuda_cause(name, "use")


def _of_wrong_memory(evidence: Evidence) -> Iterator[str]:
    if _no_gpudirect(evidence):
        yield "MR-GPU-NO-GDR"
    yield "GPU-MEMORY-KIND"


def _of_export(evidence: Evidence) -> Iterator[str]:
    name = evidence.cuda
    if name is None:
        yield "MR-DMABUF-EXPORT"
    elif name == cuda.OUT_OF_MEMORY:
        # Some platforms map the memory into BAR1 when it is exported, not when it is registered.
        if evidence.bar1_has_room is not True:
            yield "MR-BAR1-FULL"
        yield "MR-DMABUF-EXPORT"
    elif name in (cuda.NOT_SUPPORTED, cuda.INVALID_VALUE):
        if evidence.gpu_memory is False:
            yield from _of_wrong_memory(evidence)
        elif _no_gpudirect(evidence):
            yield "MR-GPU-NO-GDR"
        elif _off(evidence.dmabuf_attribute):
            yield "MR-DMABUF-NO-GPU"
        yield "MR-DMABUF-EXPORT"
    elif name in cuda.GONE or name in cuda.CODES or name == cuda.NOT_PERMITTED:
        yield from _of_cuda(name)
    else:
        yield "MR-DMABUF-EXPORT"
        yield "GPU-CUDA-FAILED"


def _of_registration(evidence: Evidence) -> Iterator[str]:
    number = evidence.errno
    if number in DENIED:
        yield "MR-GPU-DENIED"
    if evidence.registered_bytes >= max(1, evidence.length_bytes) and number in EXHAUSTED:
        # As much has registered before, and was given back.
        yield "MR-LEAK"
    if evidence.method == "dmabuf":
        yield from _of_dmabuf(evidence)
    else:
        yield from _of_peermem(evidence)


def _of_peermem(evidence: Evidence) -> Iterator[str]:
    number, first = evidence.errno, not evidence.registered_bytes
    if number == numbers.ENOMEM and evidence.memlock_limited:
        yield "MR-ENOMEM-MEMLOCK"
    if first and _no_gpudirect(evidence):
        yield "MR-GPU-NO-GDR"
    if evidence.peermem_loaded is False:
        if first:
            yield "MR-PEERMEM-ABSENT"
        return
    if first and evidence.peermem_loaded and evidence.peermem_registered is False:
        yield "MR-PEERMEM-UNREGISTERED"
        return
    if number in (numbers.EFAULT, numbers.ENOMEM) and _bar1_suspect(evidence):
        yield "MR-BAR1-FULL"
    if number in (numbers.EFAULT, numbers.EINVAL):
        if first and evidence.virtual_gpu and evidence.gdr_attribute is not True:
            yield "MR-GPU-NO-GDR"
        yield "MR-PEERMEM-REFUSED"
        if number == numbers.EFAULT and evidence.bar1_has_room is not True:
            yield "MR-BAR1-FULL"
        if first and evidence.peermem_loaded is None:
            yield "MR-PEERMEM-ABSENT"
        if first and evidence.peermem_registered is None:
            yield "MR-PEERMEM-UNREGISTERED"
        return
    yield "MR-GPU-FAILED"


def _of_dmabuf(evidence: Evidence) -> Iterator[str]:
    number = evidence.errno
    if not evidence.registered_bytes:
        absent = tuple(_absent_dmabuf(evidence))
        if absent:
            yield from absent
            return
    if number == ENOTSUPP or (
        number in (numbers.EINVAL, numbers.EOPNOTSUPP, numbers.ENOMEM) and _topology(evidence)
    ):
        yield "MR-DMABUF-TOPOLOGY"
    if number in (numbers.ENOMEM, numbers.EFAULT):
        if evidence.bar1_has_room is not True:
            yield "MR-BAR1-FULL"
        if number == numbers.ENOMEM and evidence.memlock_limited:
            yield "MR-ENOMEM-MEMLOCK"
    if number != ENOTSUPP:
        yield "MR-GPU-FAILED"


def _absent_dmabuf(evidence: Evidence) -> Iterator[str]:
    """What makes dma-buf impossible here."""
    answer = _answer_of_stack(evidence)
    if answer == numbers.EPROTONOSUPPORT:
        yield "MR-DMABUF-KERNEL"
    if answer == numbers.EOPNOTSUPP:
        yield "MR-DMABUF-PROVIDER"
    if _no_gpudirect(evidence):
        yield "MR-GPU-NO-GDR"
    elif _off(evidence.dmabuf_attribute):
        yield "MR-DMABUF-NO-GPU"


def _answer_of_stack(evidence: Evidence) -> int | None:
    """What the RDMA stack says of dma-buf as such: the probe's errno, else the refusal's."""
    if evidence.dmabuf_errno is not None or evidence.stage not in ("probe", "register"):
        return evidence.dmabuf_errno
    return evidence.errno


def _topology(evidence: Evidence) -> bool:
    """Whether the driver may have refused the NIC. The kernel's line may be of another NIC."""
    line, near = evidence.attach_refused, evidence.distance in BELOW_A_SWITCH
    if line is not None and (not near or FORCED_MAPPING in line):
        return True
    far = evidence.distance is not None and not near
    return far and evidence.errno != numbers.ENOMEM and not evidence.topology_allowed


def _bar1_suspect(evidence: Evidence) -> bool:
    """Whether BAR1 is too small, or larger ranges fail where smaller ones do not, and it may be."""
    if evidence.bar1_has_room is False:
        return True
    larger = 0 < evidence.registered_bytes < evidence.length_bytes
    return larger and evidence.bar1_has_room is None


def _no_gpudirect(evidence: Evidence) -> bool:
    return _off(evidence.gdr_attribute) and _off(evidence.dmabuf_attribute)


def _off(attribute: bool | None) -> bool:
    return attribute is False
