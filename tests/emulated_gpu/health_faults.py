"""Faults of a GPU's health as the file says them, and what each alone is found to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gdrcheck.findings.model import Severity
from lab.emulated_gpu.config import Config, Faults

# What the faulty GPU is called in results; the other one is healthy.
FAULTY, PLACE = 1, "gpu1"


@dataclass(frozen=True)
class HealthFault:
    """One fault of GPU 1, or of the driver, beside a GPU 0 that is healthy.

    ``expect``: what the profile promises; without it, the fault is found all the same. ``place``:
    where, after the node's name; empty for the node itself. ``code`` None: nothing is wrong.
    """

    name: str
    code: str | None
    values: Mapping[str, int | str] = field(default_factory=dict)
    expect: Mapping[str, Any] = field(default_factory=dict)
    compute_mode: int = 0
    confidential: bool | None = None
    gone: bool = False
    place: str = PLACE
    severity: Severity = Severity.FAIL

    def on(self, healthy: Config) -> Config:
        """The file of a healthy node with this fault."""
        gpus = list(healthy.gpus)
        gpus[FAULTY] = replace(gpus[FAULTY], values=self.values, compute_mode=self.compute_mode)
        faults = {FAULTY: Faults(gone=True)} if self.gone else {}
        return replace(healthy, gpus=gpus, confidential=self.confidential, gpu_faults=faults)

    @property
    def found(self) -> set[tuple[str, str, Severity]]:
        """Code, place and severity of what is to be found, and nothing else."""
        return {(self.code, self.place, self.severity)} if self.code else set()


_PROMISED = {
    "vbios": "96.00.*",
    "ecc": "enabled",
    "compute_mode": "default",
    "persistence": "on",
    "power_limit_w": 700,
    "nvlinks": 18,
}
HEALTHY = (
    HealthFault("healthy", None),
    HealthFault("healthy, as promised", None, expect=_PROMISED),
    HealthFault("with errors of former days", None, {"ecc aggregate uncorrectable": 4}),
    HealthFault("with rows that were replaced", None, {"row remap uncorrectable": 2}),
    HealthFault("without what others have", None, {"ecc mode": "unsupported"}),
)
FAULTS: Sequence[HealthFault] = (
    HealthFault("ecc", "GPU-ECC-UNCORRECTABLE", {"ecc volatile uncorrectable": 1}),
    HealthFault("sram", "GPU-ECC-UNCORRECTABLE", {"sram threshold exceeded": "yes"}),
    HealthFault("ecc off", "GPU-ECC-MODE", {"ecc mode": "off"}, {"ecc": "enabled"}),
    HealthFault("row pending", "GPU-ROW-REMAP", {"row remap pending": "yes"}),
    HealthFault("row failed", "GPU-ROW-REMAP", {"row remap failed": "yes"}),
    HealthFault(
        "page pending",
        "GPU-PAGES-RETIRED",
        {"retired single bit": 0, "retired double bit": 1, "retired pending": "yes"},
    ),
    HealthFault("reset", "GPU-RESET-NEEDED", {"recovery action": "reset"}),
    HealthFault("vbios", "GPU-VBIOS", {"vbios": "95.00.01.00.01"}, {"vbios": "96.00.*"}),
    HealthFault(
        "exclusive", "GPU-COMPUTE-MODE", expect={"compute_mode": "default"}, compute_mode=3
    ),
    HealthFault("not persistent", "GPU-PERSISTENCE", {"persistence": "off"}, {"persistence": "on"}),
    HealthFault(
        "low power, promised", "GPU-POWER-LIMIT", {"power limit w": 400}, {"power_limit_w": 700}
    ),
    HealthFault("low power", "GPU-POWER-LIMIT", {"power limit w": 400}, severity=Severity.WARN),
    HealthFault("link down", "GPU-NVLINK-DOWN", {"nvlink 3": "down"}),
    HealthFault("link down, promised", "GPU-NVLINK-DOWN", {"nvlink 17": "down"}, {"nvlinks": 18}),
    HealthFault("links missing", "GPU-NVLINK-DOWN", {"nvlinks": 16}),
    HealthFault("no links", "GPU-NVLINK-DOWN", {"nvlinks": 0}),
    HealthFault(
        "confidential",
        "GPU-CONFIDENTIAL",
        expect={"confidential_computing": "off"},
        confidential=True,
        place="",
    ),
    HealthFault("gone", "GPU-LOST", gone=True),
)
