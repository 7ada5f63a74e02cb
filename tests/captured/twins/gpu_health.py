"""Twins with a sick GPU, or with one that is set otherwise than its like."""

from __future__ import annotations

from typing import Any

from tests.captured import edits
from tests.captured.gpu_health import down
from tests.captured.twins.model import Twin

DGX_GPU3, DGX_GPU5 = "0000:61:00.0", "0000:c3:00.0"
VM_GPU0, VM_GPU1 = "0000:00:05.0", "0000:00:06.0"
GRACE_GPU = "0009:01:00.0"
NOT_COUNTED = {"correctable": None, "uncorrectable": None}


def _log(topic: str, *texts: str) -> edits.Edit:
    """The kernel log holds these lines of one topic."""
    lines: list[dict[str, Any]] = [
        {"topic": topic, "seconds_since_boot": 100.5 + at, "text": text}
        for at, text in enumerate(texts)
    ]
    return edits.collected("kernel_log", lines)


MEMORY = (
    Twin(
        code="GPU-ECC-UNCORRECTABLE",
        machine="dgx",
        places=("node1/gpu3",),
        edits=(edits.health(DGX_GPU3, "ecc.volatile", uncorrectable=1),),
    ),
    Twin(
        code="GPU-ECC-UNCORRECTABLE",
        machine="vm",
        name="threshold",
        places=("node1/gpu1",),
        edits=(edits.health(VM_GPU1, "ecc", sram_threshold_exceeded=True),),
    ),
    Twin(
        code="GPU-ECC-UNCORRECTABLE",
        machine="vm",
        name="logged as well",
        places=("node1/gpu0",),
        edits=(
            edits.health(VM_GPU0, "ecc.volatile", uncorrectable=1),
            _log("xid", "NVRM: Xid (PCI:0000:00:05): 48, pid=1, DBE (double bit error)"),
        ),
        blocks=("gpu_xids",),
    ),
    Twin(
        code="GPU-ECC-MODE",
        machine="vm",
        places=("node1/gpu0",),
        promise={"expect": {"ecc": "enabled"}},
        edits=(edits.health(VM_GPU0, "ecc", mode="disabled", volatile=NOT_COUNTED),),
    ),
    Twin(
        code="GPU-ECC-MODE",
        machine="vm",
        name="none",
        promise={"expect": {"ecc": "enabled"}},
        places=("node1/gpu0",),
        edits=(edits.health(VM_GPU0, ecc=None),),
    ),
    Twin(
        code="GPU-ROW-REMAP",
        machine="roce",
        name="pending",
        places=("node1/gpu2",),
        edits=(
            edits.health("0000:91:00.0", "row_remap", pending=True, uncorrectable=1),
            edits.health("0000:91:00.0", recovery_action="drain_and_reset"),
        ),
        blocks=("gpu_recovery",),
    ),
    Twin(
        code="GPU-ROW-REMAP",
        machine="vm",
        name="failed",
        places=("node1/gpu1",),
        edits=(edits.health(VM_GPU1, "row_remap", failed=True),),
    ),
    Twin(
        code="GPU-PAGES-RETIRED",
        machine="grace",
        places=("node1/gpu0",),
        edits=(
            edits.health(
                GRACE_GPU,
                row_remap=None,
                retired_pages={"single_bit": 0, "double_bit": 1, "pending": True},
            ),
        ),
    ),
)
ERRORS = (
    Twin(
        code="GPU-RESET-NEEDED",
        machine="vm",
        places=("node1/gpu1",),
        edits=(edits.health(VM_GPU1, recovery_action="reset"),),
    ),
    Twin(
        code="GPU-XID",
        machine="roce",
        places=("node1/gpu2",),
        edits=(
            _log(
                "xid",
                "NVRM: Xid (PCI:0000:91:00): 119, pid=7, Timeout after 6s of waiting for RPC",
                "NVRM: Xid (PCI:0000:52:00): 31, pid=7, MMU Fault",
            ),
        ),
    ),
    Twin(
        code="GPU-NVSWITCH-ERROR",
        machine="dgx",
        edits=(
            _log(
                "sxid",
                "nvidia-nvswitch1: SXid (PCI:0000:04:00.0): 19084, Non-fatal, Link 29 AN1",
                "nvidia-nvswitch0: SXid (PCI:0000:03:00.0): 20034, Fatal, Link 28 LTSSM Fault Up",
            ),
        ),
    ),
    Twin(
        code="GPU-NVLINK-DOWN",
        machine="dgx",
        places=("node1/gpu3",),
        edits=(edits.health(DGX_GPU3, nvlinks=[down(number) for number in range(18)]),),
        name="all of one GPU",
    ),
    Twin(
        code="GPU-NVLINK-DOWN",
        machine="dgx",
        name="without a promise",
        places=("node1/gpu5",),
        promise={"expect": {"nvlinks": None, "peer_access": None}},
        edits=(
            edits.health(
                DGX_GPU5,
                "nvlinks.3",
                active=False,
                remote=None,
                version=None,
                speed_mbytes_per_s=None,
                replay_errors=None,
                recovery_errors=None,
                crc_errors=None,
            ),
        ),
    ),
    Twin(
        code="GPU-NVLINK-DOWN",
        machine="vm",
        name="none there",
        places=("node1/gpu0", "node1/gpu1"),
        promise={"expect": {"nvlinks": 12}},
    ),
)
SETTINGS = (
    Twin(
        code="GPU-COMPUTE-MODE",
        machine="vm",
        places=("node1/gpu1",),
        promise={"expect": {"compute_mode": "default"}},
        edits=(edits.answer(VM_GPU1, compute_mode="exclusive_process"),),
    ),
    Twin(
        code="GPU-PERSISTENCE",
        machine="vm",
        places=("node1/gpu1",),
        promise={"expect": {"persistence": "on"}},
        edits=(edits.health(VM_GPU1, persistence="off"),),
    ),
    Twin(
        code="GPU-POWER-LIMIT",
        machine="vm",
        places=("node1/gpu1",),
        promise={"expect": {"power_limit_w": 700}},
        edits=(edits.health(VM_GPU1, "power", limit_w=500.0),),
    ),
    Twin(
        code="GPU-VBIOS",
        machine="vm",
        places=("node1/gpu1",),
        promise={"expect": {"vbios": "96.00.A5.*"}},
        edits=(edits.health(VM_GPU1, vbios="96.00.74.00.11"),),
    ),
    Twin(
        code="GPU-CONFIDENTIAL",
        machine="vm",
        promise={"expect": {"confidential_computing": "off"}},
        edits=(edits.driver_said(confidential_computing="on"),),
    ),
)
GPU_HEALTH = (*MEMORY, *ERRORS, *SETTINGS)
