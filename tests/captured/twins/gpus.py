"""Twins with a wrong or missing GPU."""

from __future__ import annotations

from tests.captured import edits
from tests.captured.edits import gone, put
from tests.captured.gpus import NVML_RECORD
from tests.captured.twins.model import Twin

GPUS = (
    Twin(
        code="GPU-MISSING",
        machine="vm",
        places=("node1/gpu1",),
        edits=(edits.unplugged("0000:00:06.0"), edits.not_answering("0000:00:06.0", None)),
        blocks=("gpu_answers", "gpu_model", "gpu_bar1"),
    ),
    Twin(
        code="GPU-MISSING",
        machine="vm",
        name="all",
        places=("node1/gpu0", "node1/gpu1"),
        edits=(
            edits.unplugged("0000:00:05.0"),
            edits.unplugged("0000:00:06.0"),
            gone("sys/module/nvidia", "proc/driver/nvidia", "dev/nvidiactl"),
        ),
        blocks=("nvidia_driver", "module_loaded", "nvml_answers", "gpu_answers", "rail_distance"),
    ),
    Twin(
        code="GPU-MISSING",
        machine="dgx",
        name="the fourth of eight",
        places=("node1/gpu7",),
        edits=(edits.unplugged("0000:61:00.0"), edits.not_answering("0000:61:00.0", None)),
        blocks=("gpu_answers", "rail_distance", "acs"),
    ),
    Twin(
        code="GPU-EXTRA",
        machine="vm",
        promise={"gpus": {"count": 1}, "rails": {"count": 1, "nics": [{"name": "mlx5_ib0"}]}},
        blocks=("rail_distance", "acs"),
    ),
    Twin(
        code="GPU-MODEL",
        machine="roce",
        places=("node1/gpu2",),
        edits=(edits.answer("0000:91:00.0", model="NVIDIA H100 PCIe"),),
    ),
    Twin(
        code="GPU-LOST",
        machine="dgx",
        places=("node1/gpu5",),
        edits=(edits.not_answering("0000:c3:00.0", "GPU is lost"),),
        blocks=("gpu_model", "gpu_mig", "gpu_bar1"),
    ),
    Twin(
        code="GPU-LOST",
        machine="vm",
        name="not listed",
        places=("node1/gpu0",),
        edits=(edits.not_answering("0000:00:05.0", None),),
        blocks=("gpu_model", "gpu_bar1"),
    ),
    Twin(
        code="GPU-MIG",
        machine="dgx",
        places=("node1/gpu3",),
        edits=(edits.answer("0000:61:00.0", mig="enabled"),),
    ),
    Twin(
        code="GPU-MIG",
        machine="mig",
        name="off",
        places=("node1/gpu0",),
        edits=(edits.answer("0000:45:00.0", mig="disabled", mig_devices=[]),),
    ),
    Twin(
        code="GPU-BAR1-SMALL",
        machine="grace",
        places=("node1/gpu0",),
        edits=(edits.answer("0009:01:00.0", bar1_total_bytes=256 << 20),),
    ),
    Twin(
        code="GPU-NVML-FAILED",
        machine="vm",
        edits=(put(NVML_RECORD, '{"unreadable": "NVML: Driver/library version mismatch"}'),),
        promise={"expect": {"cuda": None}},
        blocks=("gpu_answers", "gpu_model", "gpu_bar1"),
    ),
)
