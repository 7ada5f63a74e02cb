"""Builders of attempts to register GPU memory, and of transfers: all works, but what a test says.

The GPU and the NIC are those of the healthy node of ``tests.facts``.
"""

from __future__ import annotations

from typing import Any

from gdrcheck.facts import Facts
from gdrcheck.profile import Profile
from gdrcheck.rails import GpuNic, gpu_nic_pairs
from gdrcheck.registration import (
    WAYS,
    Attempt,
    Growth,
    Moved,
    Movement,
    Proof,
    RangeKind,
    Refusal,
    Region,
    Support,
)
from tests import facts as builders

SIZES_BYTES = (64 << 10, 2 << 20, 1 << 30)
PARTS: tuple[RangeKind, ...] = ("interior", "first neighbour", "second neighbour")
EBADF = 9


def pair(profile: Profile, facts: Facts) -> GpuNic:
    """GPU 0 with the NIC of rail 0."""
    return gpu_nic_pairs(profile, facts)[0]


def with_peermem(**changes: object) -> Facts:
    """The healthy node with nvidia-peermem loaded and registered, or as ``changes`` say."""
    values = {"loaded": True, "module": "nvidia_peermem", "clients": ("nv_mem",), **changes}
    driver = builders.nvidia_driver(peermem=builders.peermem(**values))
    return builders.facts(nvidia=driver)


def proof(**changes: Any) -> Proof:
    """Memory of the GPU."""
    values: dict[str, Any] = {
        "kind": "gpu",
        "memory_type": "device",
        "managed": False,
        "ordinal": 0,
        "expected_ordinal": 0,
        "gdr_capable": True,
        "range_bytes": 2 << 20,
        "length_bytes": 2 << 20,
    }
    return Proof(**(values | changes))


def region(kind: RangeKind = "whole", key: int = 1, **changes: Any) -> Region:
    """A region that came back as it was asked for, with ``key`` as both keys."""
    values: dict[str, Any] = {
        "range": kind,
        "requested_address": 12_345,
        "requested_bytes": 64 << 10,
        "address": 12_345,
        "length_bytes": 64 << 10,
        "lkey": key,
        "rkey": key,
        "flag": "plain",
        "export_us": 15.0,
        "register_us": 900.0,
        "deregister_us": 300.0,
    }
    return Region(**(values | changes))


def regions() -> tuple[Region, ...]:
    """Every size as a whole, and every kind of part."""
    whole = [
        region("whole", number, requested_bytes=size, length_bytes=size)
        for number, size in enumerate(SIZES_BYTES, 1)
    ]
    parts = [region(kind, number) for number, kind in enumerate(PARTS, 10)]
    return (*whole, *parts)


def growth(**changes: Any) -> Growth:
    """64 times, and nothing left behind."""
    values: dict[str, Any] = {
        "times": 64,
        "fds_before": 20,
        "fds_after": 20,
        "rss_before_bytes": 300 << 20,
        "rss_after_bytes": 301 << 20,
        "free_before_bytes": 100 << 30,
        "free_after_bytes": 100 << 30,
        "first_us": 900.0,
        "last_us": 950.0,
    }
    return Growth(**(values | changes))


def attempt(method: str = "dmabuf", **changes: Any) -> Attempt:
    """An attempt in which everything worked."""
    values: dict[str, Any] = {
        "method": method,
        "support": Support(dmabuf_errno=EBADF, dmabuf_attribute=True, gdr_attribute=True),
        "sizes_bytes": SIZES_BYTES,
        "limited_by": "",
        "proof": proof(),
        "regions": regions(),
        "growth": growth(),
        "refusal": None,
    }
    return Attempt(**(values | changes))


def refused(method: str = "dmabuf", refusal: Refusal | None = None, **changes: Any) -> Attempt:
    """An attempt whose first registration was refused: with EFAULT, or as ``refusal`` says."""
    refusal = refusal or Refusal(
        "register", "ibv_reg_mr of 64 KiB: Bad address", 14, range="whole", length_bytes=64 << 10
    )
    return attempt(method, **({"regions": (), "growth": None, "refusal": refusal} | changes))


def moved(**changes: Any) -> Moved:
    """A transfer of which every byte is right."""
    values: dict[str, Any] = {
        "way": "gpu to gpu",
        "operation": "WRITE",
        "length_bytes": 65,
        "sink_is_gpu": True,
        "by_gpu": None,
        "by_cpu": None,
        "spilled": None,
        "flushed": "not needed (writes ordering 100)",
    }
    return Moved(**(values | changes))


def movement(method: str = "dmabuf", **changes: Any) -> Movement:
    """Every way by both operations, all right."""
    values: dict[str, Any] = {
        "method": method,
        "moved": tuple(
            moved(way=way, operation=operation, sink_is_gpu=way != "gpu to host")
            for way in WAYS
            for operation in ("WRITE", "READ")
        ),
        "refusal": None,
    }
    return Movement(**(values | changes))
