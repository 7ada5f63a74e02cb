"""Twins whose GPU shows only under load what is wrong with it."""

from __future__ import annotations

from gdrcheck.gpu_load import GpuGone, Load
from tests.captured import edits, loads
from tests.captured.gpu_stand_in import Wrong
from tests.captured.twins.model import Twin

GPU0, GPU1 = "0000:00:05.0", "0000:00:06.0"  # of the machine ``vm``
LATER = ("gpu_memory_registers", "gpu_memory_moves")


def _lost(_load: Load) -> Load:
    raise GpuGone("NVML_ERROR_GPU_IS_LOST (15): GPU is lost", step="NVML")


def _slow_and_hot(load: Load) -> Load:
    return loads.held("hw_thermal")(loads.link(generation=3)(load))


LOADS = (
    Twin(
        code="PCI-LINK-SPEED",
        machine="vm",
        name="under load",
        places=("node1/gpu1",),
        wrong=Wrong(loads={GPU1: loads.link(generation=1)}),
    ),
    Twin(
        code="PCI-LINK-WIDTH",
        machine="vm",
        name="under load",
        places=("node1/gpu0",),
        wrong=Wrong(loads={GPU0: loads.link(width=8)}),
    ),
    # The link is judged by sysfs first: it is one fault.
    Twin(
        code="PCI-LINK-WIDTH",
        machine="roce",
        name="gpu, also under load",
        places=("node1/gpu1",),
        edits=(edits.link("0000:30:01.0", "0000:31:00.0", width=4),),
        blocks=("gpu_under_load",),
        wrong=Wrong(loads={"0000:31:00.0": loads.link(width=4)}),
    ),
    Twin(
        code="GPU-THROTTLED",
        machine="vm",
        places=("node1/gpu0",),
        wrong=Wrong(loads={GPU0: loads.held("sw_power_cap", "hw_power_brake")}),
    ),
    Twin(
        code="GPU-THROTTLED",
        machine="vm",
        name="and slow",
        places=("node1/gpu1",),
        wrong=Wrong(loads={GPU1: _slow_and_hot}),
    ),
    Twin(
        code="GPU-PCIE-REPLAYS",
        machine="vm",
        places=("node1/gpu1",),
        wrong=Wrong(loads={GPU1: loads.link(replays=40)}),
    ),
    Twin(
        code="GPU-GONE",
        machine="vm",
        name="under load",
        places=("node1/gpu1",),
        blocks=LATER,
        wrong=Wrong(loads={GPU1: _lost}),
    ),
)
