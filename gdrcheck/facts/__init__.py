"""Facts: what the probes read from a node. Frozen, typed, serialised to ``facts.json``.

A value that could not be read is an ``Unreadable`` that says why: never absent, never zero.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gdrcheck.facts.base import (
    DEVICE_NAME_PATTERN,
    SLOT_PATTERN,
    DeviceName,
    FactsModel,
    LinkLayer,
    Slot,
    Unreadable,
)
from gdrcheck.facts.cabling import Neighbour
from gdrcheck.facts.driver import NvidiaDriver, Peermem, Provider, RdmaStack
from gdrcheck.facts.gpu import Gpu, GpuProcess, MigDevice, Nvml
from gdrcheck.facts.gpu_health import (
    Clocks,
    Ecc,
    EccCounts,
    GpuHealth,
    GpuPeer,
    NvLink,
    PcieLink,
    Power,
    RetiredPages,
    RowRemap,
    Temperature,
)
from gdrcheck.facts.host import (
    Collector,
    Host,
    HugePages,
    Iommu,
    Limits,
    LogLine,
    Module,
)
from gdrcheck.facts.pci import Acs, Link, PciFunction, PciSettings, PciTree
from gdrcheck.facts.rdma import (
    CountersAfter,
    DeviceCounters,
    GidEntry,
    Netdev,
    Port,
    RdmaDevice,
    VerbsDevice,
    VerbsPort,
)

__all__ = [
    "DEVICE_NAME_PATTERN",
    "SLOT_PATTERN",
    "Acs",
    "Clocks",
    "Collector",
    "CountersAfter",
    "DeviceCounters",
    "DeviceName",
    "Ecc",
    "EccCounts",
    "Facts",
    "FactsModel",
    "GidEntry",
    "Gpu",
    "GpuHealth",
    "GpuPeer",
    "GpuProcess",
    "Host",
    "HugePages",
    "Iommu",
    "Limits",
    "Link",
    "LinkLayer",
    "LogLine",
    "MigDevice",
    "Module",
    "Neighbour",
    "Netdev",
    "NvLink",
    "NvidiaDriver",
    "Nvml",
    "PciFunction",
    "PciSettings",
    "PciTree",
    "PcieLink",
    "Peermem",
    "Port",
    "Power",
    "Provider",
    "RdmaDevice",
    "RdmaStack",
    "RetiredPages",
    "RowRemap",
    "Slot",
    "Temperature",
    "Unreadable",
    "VerbsDevice",
    "VerbsPort",
]


class Facts(FactsModel):
    """Everything that the probes read on one node.

    ``collector`` Unreadable: the host collector left no files, and why. ``nvidia`` None: NVIDIA's
    driver is not loaded. ``nvml`` None: there is no driver that could answer.
    """

    schema_version: Literal[3] = 3
    node: str
    collector: Collector | Unreadable
    host: Host
    limits: Limits
    nvidia: NvidiaDriver | Unreadable | None
    nvml: Nvml | Unreadable | None
    rdma_stack: RdmaStack
    rdma_devices: tuple[RdmaDevice, ...] | Unreadable
    pci: PciTree | Unreadable
    emulated: bool
    versions: dict[str, str] = Field(default_factory=dict)

    def rdma_device(self, name: str) -> RdmaDevice | None:
        """The RDMA device called ``name``; None when the facts hold none."""
        if isinstance(self.rdma_devices, Unreadable):
            return None
        return next((device for device in self.rdma_devices if device.name == name), None)
