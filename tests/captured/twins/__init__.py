"""Broken twins: for each code that facts can show, a healthy machine with one thing wrong."""

from __future__ import annotations

from tests.captured.twins.cuda import CUDA
from tests.captured.twins.gpu_health import GPU_HEALTH
from tests.captured.twins.gpu_load import LOADS
from tests.captured.twins.gpu_peers import GPU_PEERS
from tests.captured.twins.gpus import GPUS
from tests.captured.twins.model import Twin
from tests.captured.twins.pci import PCI_FUNCTIONS
from tests.captured.twins.ports import PORTS
from tests.captured.twins.registration import MOVEMENTS, REGISTRATIONS
from tests.captured.twins.software import DRIVERS, HOST

__all__ = ["TWINS", "Twin"]

TWINS = (
    *HOST,
    *DRIVERS,
    *GPUS,
    *GPU_HEALTH,
    *PCI_FUNCTIONS,
    *PORTS,
    *CUDA,
    *LOADS,
    *GPU_PEERS,
    *REGISTRATIONS,
    *MOVEMENTS,
)
