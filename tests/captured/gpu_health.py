"""The healthy, idle GPU as NVML tells of it, for each model of the captured machines.

The H200's numbers were read from one; those of the others are what NVIDIA's data sheets say.
Identities (VBIOS, board part) have the right form and are not of a particular board.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

IDLE_MHZ = 345
IDLE_C = 41
# Of one NVLink, one way; by the version of NVLink that NVML counts.
SPEEDS_MBYTES_PER_S = {4: 25_000, 6: 26_562}


@dataclass(frozen=True)
class Board:
    """What a model has of its own."""

    vbios: str
    part: str
    watts: int
    graphics_mhz: int
    memory_mhz: int
    generation: int = 5
    width: int = 16


BOARDS = {
    "NVIDIA H200": Board("96.00.A5.00.1A", "692-2G520-0282-001", 700, 1980, 3201),
    "NVIDIA H100 80GB HBM3": Board("96.00.99.00.01", "692-2G520-0200-000", 700, 1980, 2619),
    "NVIDIA H100 NVL": Board("96.00.A8.00.04", "900-21010-0020-000", 400, 1785, 2619),
    "NVIDIA GH200 480GB": Board(
        "96.00.B4.00.02", "699-2G530-0206-000", 900, 1980, 2619, generation=4, width=1
    ),
    "NVIDIA L40S": Board("95.02.66.00.02", "900-2G133-0080-000", 350, 2520, 9001, generation=4),
    "NVIDIA A100-SXM4-80GB": Board(
        "92.00.45.00.03", "692-2G506-0212-002", 400, 1410, 1593, generation=4
    ),
}


def healthy(
    model: str, *, nvlinks: Sequence[dict[str, Any]] = (), **changes: Any
) -> dict[str, Any]:
    """Health of an idle GPU without an error; ``changes`` replace whole values of it."""
    board = BOARDS[model]
    none = {"correctable": 0, "uncorrectable": 0}
    values: dict[str, Any] = {
        "vbios": board.vbios,
        "board_part": board.part,
        "gsp_firmware": "580.95.05",
        "persistence": "on",
        "ecc": {
            "mode": "enabled",
            "pending": "enabled",
            "volatile": none,
            "aggregate": none,
            "sram_threshold_exceeded": False,
        },
        "row_remap": none | {"pending": False, "failed": False},
        "retired_pages": None,
        "recovery_action": "none",
        "clocks": {
            "graphics_mhz": IDLE_MHZ,
            "memory_mhz": board.memory_mhz,
            "max_graphics_mhz": board.graphics_mhz,
            "max_memory_mhz": board.memory_mhz,
        },
        "clock_limits": ["idle"],
        "power": {
            "draw_w": 81.6,
            "limit_w": float(board.watts),
            "default_w": float(board.watts),
            "max_w": float(board.watts),
        },
        "temperature": {
            "gpu_c": IDLE_C,
            "memory_c": IDLE_C,
            "slowdown_c": 89,
            "shutdown_c": 95,
        },
        "pcie": {
            "generation": 1,
            "width": board.width,
            "max_generation": board.generation,
            "max_width": board.width,
            # A few since the last reset are what healthy GPUs show.
            "replays": 2,
        },
        "nvlinks": list(nvlinks),
    }
    return values | changes


def to_switches(count: int, version: int = 6) -> list[dict[str, Any]]:
    """NVLinks that are up and end at NVSwitches, whose slots the driver does not tell."""
    return [_link(number, "switch", None, version) for number in range(count)]


def to_gpus(count: int, version: int, *peers: str) -> list[dict[str, Any]]:
    """NVLinks that are up, as many to each of ``peers``, which are slots."""
    return [
        _link(number, "gpu", peers[number * len(peers) // count], version)
        for number in range(count)
    ]


def down(number: int) -> dict[str, Any]:
    """An NVLink that is down: the driver tells nothing but that."""
    return {"number": number, "active": False}


def _link(number: int, remote: str, slot: str | None, version: int) -> dict[str, Any]:
    return {
        "number": number,
        "active": True,
        "remote": remote,
        "remote_slot": slot,
        "version": version,
        "speed_mbytes_per_s": SPEEDS_MBYTES_PER_S[version],
        "replay_errors": 0,
        "recovery_errors": 0,
        "crc_errors": 0,
    }


def peers(gpus: Sequence[dict[str, Any]], over_pcie: str = "ok") -> list[dict[str, Any]]:
    """What NVML says of each two of ``gpus``, both ways.

    ``over_pcie``: what it says of those that no NVLink connects. GPUs in MIG mode have no peers.
    """
    return [
        _peer(one, other, over_pcie)
        for one in gpus
        for other in gpus
        if one["slot"] != other["slot"]
    ]


def _peer(one: dict[str, Any], other: dict[str, Any], over_pcie: str) -> dict[str, Any]:
    nvlink = _connected(one, other)
    split = "enabled" in (one["mig"], other["mig"])
    way = "not supported" if split else "ok" if nvlink else over_pcie
    return {
        "slot": one["slot"],
        "peer": other["slot"],
        "read": way,
        "write": way,
        "nvlink": "ok" if nvlink and not split else "not supported",
    }


def _connected(one: dict[str, Any], other: dict[str, Any]) -> bool:
    ends = [
        {(link["remote"], link["remote_slot"]) for link in gpu["health"]["nvlinks"]}
        for gpu in (one, other)
    ]
    switched = all(("switch", None) in remotes for remotes in ends)
    return switched or ("gpu", other["slot"]) in ends[0]
