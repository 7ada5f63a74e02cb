"""Broken twins: for each code that facts can show, a healthy machine with one thing wrong."""

from __future__ import annotations

from tests.captured.twins.cuda import CUDA
from tests.captured.twins.gpus import GPUS
from tests.captured.twins.model import Twin
from tests.captured.twins.pci import PCI_FUNCTIONS
from tests.captured.twins.ports import PORTS
from tests.captured.twins.registration import MOVEMENTS, REGISTRATIONS
from tests.captured.twins.software import DRIVERS, HOST

__all__ = ["TWINS", "Twin"]

TWINS = (*HOST, *DRIVERS, *GPUS, *PCI_FUNCTIONS, *PORTS, *CUDA, *REGISTRATIONS, *MOVEMENTS)
