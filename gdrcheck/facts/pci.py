"""Facts about PCI Express: the tree of functions, links, and settings on the way."""

from __future__ import annotations

from functools import cached_property

from gdrcheck.facts.base import FactsModel, Slot, Unreadable

NVIDIA_VENDOR = 0x10DE
MELLANOX_VENDOR = 0x15B3
# Base class and sub-class of a class code. Source: PCI Code and ID Assignment Specification.
DISPLAY_CLASSES = (0x0300, 0x0302)  # VGA and 3D controller
NETWORK_CLASSES = (0x0200, 0x0207)  # Ethernet and InfiniBand controller
BRIDGE_CLASS = 0x0604
NVSWITCH_CLASS = 0x0680  # other bridge


def slot_order(slot: str) -> tuple[int, ...]:
    """``slot`` as numbers (domain, bus, device, function), to sort by."""
    return tuple(int(part, 16) for part in slot.replace(".", ":").split(":"))


class Link(FactsModel):
    """A function's view of its link to the port above. Speeds in GT/s, widths in lanes.

    None stands for a function without a link (one that is integrated in the root complex).
    """

    current_gts: float | Unreadable
    max_gts: float | Unreadable
    current_width: int | Unreadable
    max_width: int | Unreadable


class Acs(FactsModel):
    """Access Control Services of a port: the enabled controls (PCIe base spec., 7.7.11).

    Names as lspci(8) prints them: SrcValid, TransBlk, ReqRedir, CmpltRedir, UpstreamFwd,
    EgressCtrl, DirectTrans.
    """

    enabled: tuple[str, ...]

    @property
    def redirects(self) -> bool:
        """Whether peer-to-peer requests or completions are sent up to the root complex."""
        return any(name in ("ReqRedir", "CmpltRedir") for name in self.enabled)


class PciSettings(FactsModel):
    """What only the extended configuration space tells (host collector).

    ``acs`` and ``ats_enabled`` are None when the function lacks the capability, Unreadable when the
    kernel reaches the first 256 bytes only. Source: PCI Express base specification, chapter 7;
    Linux include/uapi/linux/pci_regs.h.
    """

    port_type: str
    relaxed_ordering: bool
    max_payload_bytes: int
    max_payload_supported_bytes: int
    max_read_request_bytes: int
    acs: Acs | Unreadable | None
    ats_enabled: bool | Unreadable | None


class PciFunction(FactsModel):
    """One function. ``parent`` is the bridge above, None below a host bridge (``root_bus``).

    ``numa_node`` None: the firmware names none. ``link`` None: no PCIe link, or none that
    the function tells of (a virtual function in a virtual machine). ``aer_fatal`` and
    ``aer_nonfatal`` are the totals of uncorrectable errors since boot, None when the device has
    no such file. ``iommu_group_type`` None: in no group. ``bars_bytes``: sizes of the memory BARs.
    ``settings`` None: the function has no PCI Express capability.
    """

    slot: Slot
    vendor: int
    device: int
    class_code: int
    driver: str | None
    parent: Slot | None
    root_bus: str
    numa_node: int | Unreadable | None
    link: Link | None
    aer_fatal: int | Unreadable | None
    aer_nonfatal: int | Unreadable | None
    iommu_group_type: str | Unreadable | None
    bars_bytes: tuple[int, ...] | Unreadable
    settings: PciSettings | Unreadable | None

    @property
    def is_nvidia_gpu(self) -> bool:
        """Whether this is a GPU of NVIDIA's (display class)."""
        return self.vendor == NVIDIA_VENDOR and self.class_code >> 8 in DISPLAY_CLASSES

    @property
    def is_nvswitch(self) -> bool:
        """Whether this is an NVSwitch of NVIDIA's."""
        return self.vendor == NVIDIA_VENDOR and self.class_code >> 8 == NVSWITCH_CLASS

    @property
    def is_mellanox_nic(self) -> bool:
        """Whether this is a network controller of Mellanox's (NVIDIA's): all of them do RDMA."""
        return self.vendor == MELLANOX_VENDOR and self.class_code >> 8 in NETWORK_CLASSES

    @property
    def is_bridge(self) -> bool:
        """Whether this is a PCI-to-PCI bridge: a root port or a port of a switch."""
        return self.class_code >> 8 == BRIDGE_CLASS


class PciTree(FactsModel):
    """GPUs, NVSwitches, RDMA NICs and every bridge above them, by slot order.

    ``misplaced`` names functions that could not be placed, each with the reason.
    """

    functions: tuple[PciFunction, ...]
    misplaced: dict[str, str]

    def function(self, slot: str) -> PciFunction | None:
        """The function at ``slot``, the first one if several claim it; None without any."""
        functions, by_slot = self._index
        if functions is not self.functions:
            # A copy with other functions takes what was cached along.
            by_slot = _by_slot(self.functions)
        return by_slot.get(slot)

    @cached_property
    def _index(self) -> tuple[tuple[PciFunction, ...], dict[str, PciFunction]]:
        return self.functions, _by_slot(self.functions)

    @property
    def nvidia_gpus(self) -> tuple[PciFunction, ...]:
        """NVIDIA's GPUs in slot order: the N-th is ``gpuN`` in names."""
        return tuple(one for one in self.functions if one.is_nvidia_gpu)


def _by_slot(functions: tuple[PciFunction, ...]) -> dict[str, PciFunction]:
    return {one.slot: one for one in reversed(functions)}
