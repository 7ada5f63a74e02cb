"""From errno and evidence to the cause: every combination has one, and none contradicts itself."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import get_args

import pytest

from gdrcheck.findings import catalogue
from gdrcheck.registration import METHODS, Method, Stage
from gdrcheck.rules.cuda_cause import CODES, GONE, cuda_cause
from gdrcheck.rules.registration_cause import (
    ENOTSUPP,
    Evidence,
    cause,
    standing,
    success_against,
    unsupported,
)

MIB, GIB = 1 << 20, 1 << 30
ERRNOS = (None, *range(1, 134), ENOTSUPP)
STAGES: tuple[Stage, ...] = get_args(Stage)
CUDA = (
    *(None, *CODES, *GONE, "CUDA_ERROR_NOT_PERMITTED", "CUDA_ERROR_NOT_SUPPORTED"),
    *("CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_LAUNCH_FAILED", "CUDA error 12345"),
)
UNKNOWN_OR = (None, True, False)
ATTRIBUTES = ((None, None), *product((True, False), repeat=2))
# At the other steps an errno says less than the step does: a part of the combinations will do.
BY_ERRNO = ("probe", "register", "repeat")


def around(method: Method) -> Iterator[Evidence]:
    """The evidence that is there beside a refusal, in every combination that matters."""
    base = Evidence(method=method, length_bytes=GIB)
    registered = (0, 64 << 10, GIB)
    bar1 = (None, 256 * MIB, 256 * GIB)
    for (gdr, dmabuf), bytes_, size in product(ATTRIBUTES, registered, bar1):
        one = replace(
            base,
            gdr_attribute=gdr,
            dmabuf_attribute=dmabuf,
            registered_bytes=bytes_,
            bar1_total_bytes=size,
        )
        if method == "peermem":
            for loaded, client, limited in product(UNKNOWN_OR, UNKNOWN_OR, (True, False)):
                yield replace(
                    one,
                    peermem_loaded=loaded,
                    peermem_registered=client,
                    memlock_limited=limited,
                    virtual_gpu=limited,
                )
        else:
            probes = (None, errno.EBADF, errno.EPROTONOSUPPORT, errno.EOPNOTSUPP)
            lines = (None, "NVRM: dma-buf attach failed: PCI topology not supported for dma-buf")
            for probe, line, far in product(probes, lines, ("PIX", "SYS", None)):
                yield replace(one, dmabuf_errno=probe, attach_refused=line, distance=far)


AROUND = {method: tuple(around(method)) for method in METHODS}


def first(one: Evidence) -> bool:
    """Whether nothing had registered before."""
    return not one.registered_bytes


def by_peermem(one: Evidence) -> bool:
    return one.method == "peermem"


def stack_says(one: Evidence, number: int) -> bool:
    """Whether the probe, or without it the refusal itself, gave this errno."""
    given = one.errno if one.dmabuf_errno is None else one.dmabuf_errno
    return not by_peermem(one) and given == number and first(one)


# For each code, whether the evidence leaves it possible; what is not here nothing rules out.
POSSIBLE: dict[str, Callable[[Evidence], bool]] = {
    "MR-PEERMEM-ABSENT": lambda e: by_peermem(e) and e.peermem_loaded is not True and first(e),
    "MR-PEERMEM-UNREGISTERED": lambda e: (
        by_peermem(e)
        and e.peermem_loaded is not False
        and e.peermem_registered is not True
        and first(e)
    ),
    "MR-PEERMEM-REFUSED": lambda e: by_peermem(e) and e.peermem_loaded is not False,
    "MR-DMABUF-NO-GPU": lambda e: not by_peermem(e) and e.dmabuf_attribute is False,
    "MR-DMABUF-EXPORT": lambda e: not by_peermem(e),
    "MR-DMABUF-KERNEL": lambda e: stack_says(e, errno.EPROTONOSUPPORT),
    "MR-DMABUF-PROVIDER": lambda e: stack_says(e, errno.EOPNOTSUPP),
    "MR-DMABUF-TOPOLOGY": lambda e: (
        not by_peermem(e) and (e.errno == ENOTSUPP or e.distance not in ("PIX", "PXB"))
    ),
    "MR-GPU-NO-GDR": lambda e: (
        (e.gdr_attribute is False and e.dmabuf_attribute is False)
        or (e.virtual_gpu and e.gdr_attribute is not True)
    ),
    "MR-BAR1-FULL": lambda e: e.bar1_has_room is not True,
    "MR-ENOMEM-MEMLOCK": lambda e: e.memlock_limited and e.errno == errno.ENOMEM,
    "MR-GPU-DENIED": lambda e: (
        e.errno in (errno.EPERM, errno.EACCES) or e.cuda == "CUDA_ERROR_NOT_PERMITTED"
    ),
    "MR-NOT-GPU-MEMORY": lambda e: success_against(e) is not None,
    "MR-LEAK": lambda e: e.registered_bytes >= e.length_bytes,
    "MR-MOVE-FAILED": lambda e: e.stage in ("connect", "move"),
    "GPU-MEMORY-KIND": lambda e: e.gpu_memory is False,
    "GPU-GONE": lambda e: e.cuda in GONE,
}


def require_fit(codes: tuple[str, ...], evidence: Evidence) -> None:
    """Fails unless there is a cause, and each is known and possible."""
    assert codes, evidence
    assert len(set(codes)) == len(codes)
    for code in codes:
        assert code in catalogue.ENTRIES_BY_CODE
        assert code not in POSSIBLE or POSSIBLE[code](evidence), (code, evidence)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("stage", STAGES)
def test_every_refusal_has_a_cause_that_fits(method: Method, stage: Stage) -> None:
    for one in AROUND[method][:: 1 if stage in BY_ERRNO else 11]:
        for number in ERRNOS:
            refused = replace(one, stage=stage, errno=number)
            require_fit(cause(refused), refused)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("stage", STAGES)
def test_every_error_of_cuda_has_a_cause_that_fits(method: Method, stage: Stage) -> None:
    for one in AROUND[method]:
        for name, memory in product(CUDA, UNKNOWN_OR):
            refused = replace(one, stage=stage, cuda=name, gpu_memory=memory)
            require_fit(cause(refused), refused)


def peermem(number: int | None = errno.EFAULT, **changes: object) -> Evidence:
    """A refusal by ibv_reg_mr on a machine where peermem works and nothing else is wrong."""
    values: dict[str, object] = {
        "stage": "register",
        "length_bytes": 64 << 10,
        "gpu_memory": True,
        "gdr_attribute": True,
        "dmabuf_attribute": True,
        "peermem_loaded": True,
        "peermem_registered": True,
        "bar1_total_bytes": 256 * GIB,
        "distance": "PIX",
    }
    return Evidence(method="peermem", errno=number, **(values | changes))


def dmabuf(number: int | None = errno.EINVAL, **changes: object) -> Evidence:
    """A refusal by ibv_reg_dmabuf_mr on a machine where dma-buf works and nothing else is wrong."""
    changes = {"dmabuf_errno": errno.EBADF, "peermem_loaded": False, **changes}
    return replace(peermem(number, **changes), method="dmabuf")


def exported(name: str, **changes: object) -> Evidence:
    return dmabuf(None, stage="export", cuda=f"CUDA_ERROR_{name}", **changes)


OFF = {"gdr_attribute": False, "dmabuf_attribute": False}
ABSENT = {"peermem_loaded": False, "peermem_registered": None}
INERT = {"peermem_registered": False}
BIG = {"length_bytes": GIB, "registered_bytes": 2 * MIB}
ATTACH = "NVRM: dma-buf attach failed: PCI topology not supported for dma-buf"
FORCED = "NVRM: dma-buf attach failed: topology not supported for mapping type FORCE_PCIE"


@pytest.mark.parametrize(
    ("row", "evidence", "codes"),
    [
        (1, peermem(**ABSENT), "MR-PEERMEM-ABSENT"),
        (30, peermem(errno.EINVAL, **ABSENT), "MR-PEERMEM-ABSENT"),
        (5, peermem(**INERT), "MR-PEERMEM-UNREGISTERED"),
        (
            5,
            peermem(peermem_registered=None),
            "MR-PEERMEM-REFUSED MR-PEERMEM-UNREGISTERED",
        ),
        (1, peermem(), "MR-PEERMEM-REFUSED"),
        (7, dmabuf(93, stage="probe", dmabuf_errno=93), "MR-DMABUF-KERNEL"),
        (7, dmabuf(93, dmabuf_errno=None), "MR-DMABUF-KERNEL"),
        (8, dmabuf(95, stage="probe", dmabuf_errno=95), "MR-DMABUF-PROVIDER"),
        (8, dmabuf(95, dmabuf_errno=None), "MR-DMABUF-PROVIDER"),
        # Both are true, and either alone would be enough.
        (
            8,
            dmabuf(95, dmabuf_errno=95, dmabuf_attribute=False),
            "MR-DMABUF-PROVIDER MR-DMABUF-NO-GPU",
        ),
        # The call is there, so that this is another refusal.
        (8, dmabuf(95), "MR-GPU-FAILED"),
        (9, exported("NOT_SUPPORTED", dmabuf_attribute=False), "MR-DMABUF-NO-GPU MR-DMABUF-EXPORT"),
        (9, exported("NOT_SUPPORTED"), "MR-DMABUF-EXPORT"),
        (11, dmabuf(ENOTSUPP), "MR-DMABUF-TOPOLOGY"),
        (
            11,
            dmabuf(errno.EINVAL, attach_refused=ATTACH, distance="SYS"),
            "MR-DMABUF-TOPOLOGY MR-GPU-FAILED",
        ),
        (11, dmabuf(errno.EINVAL, distance="PHB"), "MR-DMABUF-TOPOLOGY MR-GPU-FAILED"),
        # Below one switch the driver refuses nobody: the line is of another NIC.
        (11, dmabuf(errno.EINVAL, attach_refused=ATTACH), "MR-GPU-FAILED"),
        (11, dmabuf(errno.EINVAL, distance="SYS", topology_allowed=True), "MR-GPU-FAILED"),
        (12, dmabuf(ENOTSUPP, attach_refused=FORCED), "MR-DMABUF-TOPOLOGY"),
        (
            14,
            peermem(errno.ENOMEM, memlock_limited=True),
            "MR-ENOMEM-MEMLOCK MR-GPU-FAILED",
        ),
        (
            14,
            peermem(errno.ENOMEM, memlock_limited=True, **ABSENT),
            "MR-ENOMEM-MEMLOCK MR-PEERMEM-ABSENT",
        ),
        (19, exported("INVALID_VALUE", gpu_memory=False), "GPU-MEMORY-KIND MR-DMABUF-EXPORT"),
        (19, peermem(None, stage="prove", gpu_memory=False), "GPU-MEMORY-KIND"),
        (20, exported("INVALID_VALUE"), "MR-DMABUF-EXPORT"),
        (
            22,
            peermem(bar1_total_bytes=256 * MIB, **BIG),
            "MR-BAR1-FULL MR-PEERMEM-REFUSED",
        ),
        (22, dmabuf(12, bar1_total_bytes=256 * MIB, **BIG), "MR-BAR1-FULL MR-GPU-FAILED"),
        (
            22,
            peermem(bar1_total_bytes=None, **BIG),
            "MR-BAR1-FULL MR-PEERMEM-REFUSED",
        ),
        # NVML said that it would fit, before others may have mapped more.
        (
            22,
            peermem(bar1_total_bytes=2 * GIB, **BIG),
            "MR-BAR1-FULL MR-PEERMEM-REFUSED",
        ),
        # There is room for it a hundred times over.
        (22, peermem(**BIG), "MR-PEERMEM-REFUSED"),
        (22, dmabuf(12, **BIG), "MR-GPU-FAILED"),
        (23, peermem(**OFF), "MR-GPU-NO-GDR MR-PEERMEM-REFUSED"),
        (23, exported("NOT_SUPPORTED", **OFF), "MR-GPU-NO-GDR MR-DMABUF-EXPORT"),
        (
            24,
            peermem(virtual_gpu=True, gdr_attribute=None),
            "MR-GPU-NO-GDR MR-PEERMEM-REFUSED",
        ),
        (
            26,
            exported("NOT_SUPPORTED", dmabuf_attribute=False),
            "MR-DMABUF-NO-GPU MR-DMABUF-EXPORT",
        ),
        (27, peermem(errno.EACCES), "MR-GPU-DENIED MR-GPU-FAILED"),
        (27, dmabuf(errno.EPERM), "MR-GPU-DENIED MR-GPU-FAILED"),
        (27, exported("NOT_PERMITTED"), "MR-GPU-DENIED GPU-CUDA-FAILED"),
        (0, dmabuf(errno.EREMOTEIO), "MR-GPU-FAILED"),
        (0, peermem(errno.ETIMEDOUT), "MR-GPU-FAILED"),
        (0, dmabuf(None, stage="allocate", cuda="CUDA_ERROR_OUT_OF_MEMORY"), "GPU-MEMORY-FULL"),
        (0, exported("OUT_OF_MEMORY", **BIG), "MR-DMABUF-EXPORT"),
        (
            22,
            exported("OUT_OF_MEMORY", bar1_total_bytes=256 * MIB, **BIG),
            "MR-BAR1-FULL MR-DMABUF-EXPORT",
        ),
        (0, exported("UNKNOWN"), "GPU-GONE GPU-CUDA-FAILED"),
        (
            0,
            dmabuf(errno.EMFILE, registered_bytes=64 << 10),
            "MR-LEAK MR-GPU-FAILED",
        ),
        (0, dmabuf(errno.EIO, stage="deregister"), "MR-GPU-FAILED"),
        (13, dmabuf(None, stage="move"), "MR-MOVE-FAILED"),
        (0, peermem(errno.ENOMEM, registered_bytes=MIB, **ABSENT), "MR-NOT-GPU-MEMORY MR-LEAK"),
    ],
)
def test_the_rows_of_what_is_known_to_fail(row: int, evidence: Evidence, codes: str) -> None:
    """``row`` is the failure mode's number in the collection that the table was made from."""
    found = cause(evidence)
    assert found[: len(codes.split())] == tuple(codes.split()), row


@pytest.mark.parametrize(
    ("evidence", "how"),
    [
        (Evidence(method="dmabuf"), "works"),
        (peermem(**ABSENT), "not supported"),
        (peermem(**INERT), "not supported"),
        (peermem(gdr_attribute=False), "not supported"),
        # It may work unseen, so that it does not is no absence.
        (peermem(peermem_registered=None), "broken"),
        (peermem(), "broken"),
        (dmabuf(95, stage="probe", dmabuf_errno=95), "not supported"),
        (dmabuf(93, dmabuf_errno=93), "not supported"),
        (exported("NOT_SUPPORTED", dmabuf_attribute=False), "not supported"),
        (exported("NOT_SUPPORTED"), "broken"),
        (dmabuf(95), "broken"),
        (dmabuf(errno.EINVAL), "broken"),
        # What was refused has nothing to do with the method.
        (peermem(None, stage="allocate", cuda="CUDA_ERROR_OUT_OF_MEMORY", **ABSENT), "broken"),
        (peermem(registered_bytes=MIB, **ABSENT), "broken"),
    ],
)
def test_what_is_absent_is_told_from_what_is_broken(evidence: Evidence, how: str) -> None:
    assert standing(evidence) == how
    if how == "not supported":
        assert unsupported(evidence)


@pytest.mark.parametrize("name", [*CODES, *GONE, "CUDA_ERROR_LAUNCH_FAILED", "CUDA error 4711"])
def test_every_error_of_cuda_has_a_code_at_any_time(name: str) -> None:
    for phase in ("start", "open", "use"):
        codes = cuda_cause(name, phase)
        assert codes
        assert set(codes) <= set(catalogue.ENTRIES_BY_CODE)


def test_a_gpu_is_gone_only_after_it_was_there() -> None:
    assert cuda_cause("CUDA_ERROR_UNKNOWN", "use")[0] == "GPU-GONE"
    assert "GPU-GONE" not in cuda_cause("CUDA_ERROR_UNKNOWN", "start")
    assert cuda_cause("CUDA_ERROR_UNKNOWN", "open")[0] == "GPU-CUDA-FAILED"
