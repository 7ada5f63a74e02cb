"""The recorded answer of NVML about a machine's GPUs. UUIDs are invented: zero but for a number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.captured.gpu_health import healthy, peers
from tests.captured.tree import Tree

NVML_RECORD = "run/gdrcheck/recorded/nvml.json"
GIB = 1 << 30


def gpu(number: int, slot: str, model: str, memory_gib: int, **changes: Any) -> dict[str, Any]:
    """An idle, healthy GPU without MIG mode enabled; BAR1 is as large as its memory, rounded up.

    ``health`` among the changes replaces all of it: make it by ``gpu_health.healthy``.
    """
    values = {
        "slot": slot,
        "uuid": f"GPU-00000000-0000-0000-0000-{number:012d}",
        "model": model,
        "memory_total_bytes": memory_gib * GIB,
        "bar1_total_bytes": 1 << (memory_gib * GIB - 1).bit_length(),
        "bar1_used_bytes": 1 << 20,
        "mig": "disabled",
        "mig_devices": [],
        "processes": [],
        "compute_mode": "default",
        "fabric_state": None,
        "health": changes.get("health") or healthy(model),
    }
    return values | changes


def mig_devices(gpu_number: int, count: int, profile: str) -> list[dict[str, str]]:
    """``count`` MIG devices of one GPU."""
    return [
        {"uuid": f"MIG-00000000-0000-0000-{gpu_number:04d}-{number:012d}", "name": profile}
        for number in range(count)
    ]


def write_nvml(
    tree: Tree,
    driver: str,
    cuda: str,
    gpus: Sequence[dict[str, Any]],
    peers_over_pcie: str = "ok",
) -> None:
    """Adds the record to ``tree``; ``peers_over_pcie``: what NVML says of GPUs without NVLink."""
    record = {
        "driver_version": driver,
        "cuda_version": cuda,
        "gpus": list(gpus),
        "lost": {},
        "peers": peers(gpus, peers_over_pcie),
    }
    folder, _, name = NVML_RECORD.rpartition("/")
    tree.put(folder, {name: json.dumps(record, indent=1)})
