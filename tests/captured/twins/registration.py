"""Twins on which memory of a GPU does not register with a NIC as it should, or moves wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gdrcheck.registration import Attempt, Method, Moved, Movement, Refusal, Region, Stage
from tests.captured.edits import Edit, answer, put
from tests.captured.gpu_stand_in import Wrong, one_byte
from tests.captured.twins.model import Twin

# Of the machine ``vm``: dma-buf works there, and nvidia-peermem is not loaded.
VM0, VM0_PLACE = "0000:00:05.0 mlx5_ib0", "node1/gpu0/mlx5_ib0"
# Of the machine ``mig``: peermem works there, and its kernel module is the proprietary one.
MIG0, MIG0_PLACE = "0000:45:00.0 mlx5_0", "node1/gpu0/mlx5_0"
DMABUF: Mapping[str, Any] = {"registration": "dmabuf"}
MIB, GIB = 1 << 20, 1 << 30
NOT_SUPPORTED = "CUDA_ERROR_NOT_SUPPORTED"
CLIENTS = "sys/kernel/mm/memory_peers"
Change = Callable[[Attempt], Attempt]


def refused(
    stage: Stage,
    errno: int | None = None,
    cuda: str | None = None,
    *,
    after: int = 0,
    length_bytes: int = 64 << 10,
    **support: Any,
) -> Change:
    """The attempt ended at ``stage``, when ranges up to ``after`` bytes had registered."""

    def change(made: Attempt) -> Attempt:
        refusal = Refusal(stage, f"{stage} was refused", errno, cuda, "whole", length_bytes)
        return replace(
            made,
            refusal=refusal,
            regions=tuple(one for one in made.regions if one.requested_bytes <= after),
            growth=made.growth if after else None,
            support=replace(made.support, **support),
        )

    return change


def regions(change: Callable[[Region], Region]) -> Change:
    """Everything registered, and each region came back as ``change`` makes it."""
    return lambda made: replace(made, regions=tuple(map(change, made.regions)))


def _same_keys(region: Region) -> Region:
    return replace(region, lkey=7, rkey=7) if "neighbour" in region.range else region


def _succeeds(made: Attempt) -> Attempt:
    """It works although the facts say that it cannot."""
    sample = Region("whole", 1, 64 << 10, 1, 64 << 10, 9, 9, None, None, 1.0, 1.0)
    return replace(made, refusal=None, regions=(sample,))


def _leaks(made: Attempt) -> Attempt:
    assert made.growth is not None
    return replace(made, growth=replace(made.growth, fds_after=made.growth.fds_after + 64))


def _mig(code: str, change: Change, *edits: Edit, **promise: Any) -> Twin:
    """Registration by peermem, which the profile names."""
    wrong = Wrong(attempts={f"{MIG0} peermem": change})
    return _twin(code, "mig", MIG0_PLACE, wrong, edits=edits, promise=promise)


def _vm(code: str, change: Change) -> Twin:
    """Registration by dma-buf, which the profile names."""
    return _twin(code, "vm", VM0_PLACE, Wrong(attempts={f"{VM0} dmabuf": change}), promise=DMABUF)


def _twin(code: str, machine: str, place: str, wrong: Wrong, **fields: Any) -> Twin:
    blocks = fields.pop("blocks", ("gpu_memory_moves",))
    return Twin(code=code, machine=machine, places=(place,), wrong=wrong, blocks=blocks, **fields)


def _no_method(code: str, edits: tuple[Edit, ...], also_dmabuf: str, dmabuf: Change) -> Twin:
    """Neither method works, and one of them must: each tells why."""
    return _twin(
        code,
        "vm",
        VM0_PLACE,
        Wrong(attempts={f"{VM0} dmabuf": dmabuf}),
        edits=edits,
        also=((also_dmabuf, VM0_PLACE),),
    )


REGISTRATIONS = (
    _vm(
        "MR-DMABUF-NO-GPU",
        refused("export", cuda=NOT_SUPPORTED, dmabuf_attribute=False),
    ),
    _vm("MR-DMABUF-KERNEL", refused("register", 93, dmabuf_errno=93)),
    _vm("MR-DMABUF-PROVIDER", refused("register", 95, dmabuf_errno=95)),
    _vm("MR-DMABUF-EXPORT", refused("export", cuda=NOT_SUPPORTED)),
    _vm("MR-DMABUF-TOPOLOGY", refused("register", 524)),
    _vm(
        "MR-GPU-NO-GDR",
        refused("export", cuda=NOT_SUPPORTED, dmabuf_attribute=False, gdr_attribute=False),
    ),
    _vm("MR-GPU-DENIED", refused("register", 13)),
    _vm("MR-GPU-FAILED", refused("register", 5)),
    _vm("MR-LEAK", _leaks),
    _vm("MR-WRONG-RANGE", regions(lambda one: replace(one, length_bytes=4096))),
    _vm("MR-WRONG-KEY", regions(_same_keys)),
    _mig("MR-PEERMEM-REFUSED", refused("register", 22)),
    _mig(
        "MR-BAR1-FULL",
        refused("register", 14, after=2 * MIB, length_bytes=GIB),
        answer("0000:45:00.0", bar1_total_bytes=256 * MIB),
        expect={"bar1_bytes": None},
    ),
    _mig(
        "MR-ENOMEM-MEMLOCK",
        refused("register", 12, after=2 * MIB, length_bytes=GIB),
        put("proc/self/limits", f"Max locked memory         {GIB >> 1}  {GIB >> 1}  bytes"),
        put("proc/self/status", "Uid:\t0\t0\t0\t0\nCapEff:\t0000000000000000"),
    ),
    _no_method(
        "MR-PEERMEM-ABSENT",
        (),
        "MR-DMABUF-PROVIDER",
        refused("register", 95, dmabuf_errno=95),
    ),
    _no_method(
        "MR-PEERMEM-UNREGISTERED",
        (
            put("sys/module/nvidia_peermem/srcversion", "00000000000000000000000"),
            put("sys/module/nvidia_peermem/initstate", "live"),
            put(f"{CLIENTS}/nvme/version", "1"),
        ),
        "MR-DMABUF-KERNEL",
        refused("register", 93, dmabuf_errno=93),
    ),
    _twin(
        "MR-NOT-GPU-MEMORY",
        "vm",
        VM0_PLACE,
        Wrong(attempts={f"{VM0} peermem": _succeeds}),
    ),
    # Only a warning: what registers slowly moves all the same.
    _twin(
        "MR-SLOW",
        "mig",
        MIG0_PLACE,
        Wrong(attempts={f"{MIG0} peermem": regions(lambda one: replace(one, register_us=5e6))}),
        blocks=(),
    ),
    # A GPU that goes away while its memory registers is found once, whatever NIC was tried.
    _twin(
        "GPU-GONE",
        "mig",
        "node1/gpu0",
        Wrong(attempts={f"{MIG0} dmabuf": refused("allocate", cuda="CUDA_ERROR_UNKNOWN")}),
        name="between two registrations",
        blocks=("gpu_memory_registers", "gpu_memory_moves"),
    ),
)


def _moved(change: Callable[[Moved], Moved]) -> Callable[[Movement], Movement]:
    return lambda made: replace(made, moved=(*made.moved[:-1], change(made.moved[-1])))


def _ended(made: Movement) -> Movement:
    return replace(
        made,
        moved=made.moved[:1],
        refusal=Refusal("move", "RDMA READ: completed with REM_OP_ERR", length_bytes=65_537),
        way="gpu to gpu",
        operation="READ",
        status="REM_OP_ERR",
        vendor_error=0x51,
    )


def _wrong_move(
    code: str, change: Callable[[Movement], Movement], method: Method = "dmabuf", name: str = ""
) -> Twin:
    place = VM0 if method == "dmabuf" else MIG0
    wrong = Wrong(movements={f"{place} {method}": change})
    if method == "dmabuf":
        return _twin(code, "vm", VM0_PLACE, wrong, blocks=(), name=name)
    return _twin(code, "mig", MIG0_PLACE, wrong, blocks=(), name=name)


MOVEMENTS = (
    _wrong_move("MR-MOVE-FAILED", _ended),
    _wrong_move("MR-MOVE-FAILED", _ended, "peermem"),
    _wrong_move(
        "MR-DATA-WRONG",
        _moved(lambda one: replace(one, by_gpu=one_byte(1), by_cpu=one_byte(1))),
    ),
    _wrong_move(
        "MR-DATA-WRONG",
        lambda made: replace(
            made,
            moved=tuple(
                one if one.sink_is_gpu else replace(one, by_cpu=one_byte(0)) for one in made.moved
            ),
        ),
        "peermem",
        name="in host memory",
    ),
    _wrong_move(
        "MR-DATA-SPILLED",
        _moved(lambda one: replace(one, spilled="byte 65537 after the range changed")),
    ),
    _wrong_move(
        "GPU-VERIFIERS-DISAGREE",
        _moved(lambda one: replace(one, by_cpu=one_byte(1))),
        name="after a transfer",
    ),
)
