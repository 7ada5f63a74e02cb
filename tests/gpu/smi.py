"""What ``nvidia-smi`` prints, as the probe says the same: made for comparing the two.

``N/A``, and what a version of the tool does not print, is None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

GPU_LINE = re.compile(r"GPU [0-9A-Fa-f]{8}:")
LINK_HEAD = re.compile(r"GPU \d+: .*\(UUID: (\S+)\)")
LINK_LINE = re.compile(r"\s+Link (\d+): (.+)")
# A row of the tool with the steps of what it is below: ("ECC Mode", "Current").
Path = tuple[str, ...]
Rows = Mapping[Path, str]
RECOVERY_ACTIONS = {
    "None": "none",
    "Reset": "reset",
    "Reboot": "reboot",
    "Drain P2P": "drain_p2p",
    "Drain and Reset": "drain_and_reset",
}


def gpus(text: str) -> dict[str, Rows]:
    """``nvidia-smi -q``: by the GPU's UUID, the rows by their path."""
    found: dict[str, Rows] = {}
    rows: dict[Path, str] = {}
    path: list[str] = []
    for line in [*text.splitlines(), "GPU 00000000:"]:
        if GPU_LINE.match(line):
            if ("GPU UUID",) in rows:
                found[rows["GPU UUID",]] = rows
            rows, path = {}, []
            continue
        depth = (len(line) - len(line.lstrip())) // 4 - 1
        if depth < 0:
            continue
        key, colon, value = (part.strip() for part in line.partition(" : "))
        path = [*path[:depth], key]
        if colon:
            rows[tuple(path)] = value
    return found


def health(rows: Rows) -> dict[str, object]:
    """What the tool says of one GPU's health, by the paths of the facts."""
    ecc = _word(rows, "ECC Mode", "Current")
    remapped = "Remapped Rows"
    values: dict[str, object] = {
        "vbios": _word(rows, "VBIOS Version"),
        "board_part": _word(rows, "Board Part Number"),
        "gsp_firmware": _word(rows, "GSP Firmware Version"),
        "persistence": {"Enabled": "on", "Disabled": "off"}[rows["Persistence Mode",]],
        "recovery_action": _recovery_action(rows),
        "clocks.max_graphics_mhz": _whole(rows, "Max Clocks", "Graphics"),
        "clocks.max_memory_mhz": _whole(rows, "Max Clocks", "Memory"),
        "power.limit_w": _number(rows, "GPU Power Readings", "Current Power Limit"),
        "power.default_w": _number(rows, "GPU Power Readings", "Default Power Limit"),
        "power.max_w": _number(rows, "GPU Power Readings", "Max Power Limit"),
        "pcie.width": _whole(rows, "PCI", "GPU Link Info", "Link Width", "Current"),
        "pcie.max_width": _whole(rows, "PCI", "GPU Link Info", "Link Width", "Max"),
        "pcie.max_generation": _whole(rows, "PCI", "GPU Link Info", "PCIe Generation", "Max"),
    }
    if ecc is None:
        values["ecc"] = None
    else:
        values |= {"ecc.mode": ecc.lower(), "ecc.pending": rows["ECC Mode", "Pending"].lower()}
        for name in ("Volatile", "Aggregate"):
            for kind in ("Correctable", "Uncorrectable"):
                values[f"ecc.{name.lower()}.{kind.lower()}"] = _ecc_errors(rows, name, kind)
        values["ecc.sram_threshold_exceeded"] = _yes(
            rows, "ECC Errors", "Aggregate", "SRAM Threshold Exceeded"
        )
    if _word(rows, remapped, "Pending") is None:
        values["row_remap"] = None
    else:
        values |= {
            "row_remap.correctable": _whole(rows, remapped, "Correctable Error"),
            "row_remap.uncorrectable": _whole(rows, remapped, "Uncorrectable Error"),
            "row_remap.pending": _yes(rows, remapped, "Pending"),
            "row_remap.failed": _yes(rows, remapped, "Remapping Failure Occurred"),
        }
    if _word(rows, "Retired Pages", "Single Bit ECC") is None:
        values["retired_pages"] = None
    else:
        values |= {
            "retired_pages.single_bit": _whole(rows, "Retired Pages", "Single Bit ECC"),
            "retired_pages.double_bit": _whole(rows, "Retired Pages", "Double Bit ECC"),
            "retired_pages.pending": _yes(rows, "Retired Pages", "Pending Page Blacklist"),
        }
    return values


def moving(rows: Rows) -> dict[str, float | None]:
    """Values that are others a moment later, by the paths of the facts."""
    return {
        "temperature.gpu_c": _whole(rows, "Temperature", "GPU Current Temp"),
        "temperature.memory_c": _whole(rows, "Temperature", "Memory Current Temp"),
        "pcie.replays": _whole(rows, "PCI", "Replays Since Reset"),
    }


def link_speeds(text: str) -> dict[str, dict[int, float | None]]:
    """``nvidia-smi nvlink -s``: by UUID, the GB/s of each link; None for one that is down."""
    return {
        uuid: {
            number: float(said.removesuffix(" GB/s")) if said.endswith(" GB/s") else None
            for number, said in links
        }
        for uuid, links in _links(text).items()
    }


def link_errors(text: str) -> dict[str, dict[tuple[int, str], int]]:
    """``nvidia-smi nvlink -e``: by UUID, the counts by link and ``Replay`` or the like."""
    return {
        uuid: {
            (number, kind.removesuffix(" Errors")): int(count)
            for number, said in links
            for kind, _, count in [said.partition(": ")]
            if count.isdecimal()
        }
        for uuid, links in _links(text).items()
    }


def _links(text: str) -> dict[str, list[tuple[int, str]]]:
    found: dict[str, list[tuple[int, str]]] = {}
    links: list[tuple[int, str]] = []
    for line in text.splitlines():
        if head := LINK_HEAD.match(line):
            links = found.setdefault(head[1], [])
        elif row := LINK_LINE.match(line):
            links.append((int(row[1]), row[2].strip()))
    return found


def _ecc_errors(rows: Rows, name: str, kind: str) -> int | None:
    """All errors of a kind: the tool counts SRAM and DRAM, parity and SEC-DED on their own."""
    counts = [
        int(value)
        for path, value in rows.items()
        if path[:2] == ("ECC Errors", name) and kind in path[-1].split() and value.isdecimal()
    ]
    return sum(counts) if counts else None


def _recovery_action(rows: Rows) -> str | None:
    # "None" is an action, and the tool's word for a GPU that has no such thing is "N/A".
    said = rows.get(("GPU Recovery Action",), "N/A")
    return None if said == "N/A" else RECOVERY_ACTIONS[said]


def _word(rows: Rows, *path: str) -> str | None:
    said = rows.get(path, "N/A")
    return None if said == "N/A" else said


def _number(rows: Rows, *path: str) -> float | None:
    said = _word(rows, *path)
    return None if said is None else float(said.split()[0].removesuffix("x"))


def _whole(rows: Rows, *path: str) -> int | None:
    number = _number(rows, *path)
    return None if number is None else int(number)


def _yes(rows: Rows, *path: str) -> bool | None:
    said = _word(rows, *path)
    return None if said is None else {"Yes": True, "No": False}[said]
