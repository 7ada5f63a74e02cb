"""Builds the PCI part of a machine: host bridges, ports of switches, and what is plugged in.

A builder of a port or function returns its ``Place``, below which the next one is put.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.captured.config_space import HEADER_BYTES, Express, encode
from tests.captured.tree import Tree

PCI = "sys/bus/pci"
COLLECTED = "run/gdrcheck/host/config"
# Vendor, device and class, the latter of a PCI-to-PCI bridge.
ROOT_PORT = (0x8086, 0x352A, 0x060400)
SWITCH = (0x1000, 0xC030, 0x060400)
# IORESOURCE_MEM, and the same as prefetchable 64-bit memory: Linux include/linux/ioport.h.
MEMORY_FLAGS, WIDE_FLAGS = 0x40200, 0x14220C
FATAL = (
    "Undefined DLP SDES TLP FCP CmpltTO CmpltAbrt UnxCmplt RxOF MalfTLP ECRC UnsupReq ACSViol "
    "UncorrIntErr BlockedTLP AtomicOpBlocked TLPBlockedErr PoisonTLPBlocked"
)
CORRECTABLE = "RxErr BadTLP BadDLLP Rollover Timeout NonFatalErr CorrIntErr HeaderOF"
GENERATION_GTS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}


@dataclass(frozen=True, slots=True)
class Lanes:
    """A link as a function shows it: generation and width, now and at most.

    Generation 0 and width 0 are what a virtual function shows for ``now``.
    """

    generation: int
    width: int
    max_generation: int | None = None
    max_width: int | None = None

    def files(self) -> dict[str, str | int]:
        """The four files of the link."""
        return {
            "current_link_speed": _speed(self.generation),
            "current_link_width": self.width,
            "max_link_speed": _speed(self.max_generation or self.generation),
            "max_link_width": self.max_width or self.width,
        }


@dataclass(frozen=True, slots=True)
class Place:
    """Where the next function goes: a folder of ``sys/devices`` and the NUMA node."""

    folder: str
    numa_node: int

    @property
    def slot(self) -> str:
        """The PCI address of the function here."""
        return self.folder.rpartition("/")[2]


class Pci:
    """Adds functions to ``tree``. ``collected``: the host collector left configuration spaces.

    ``group_type`` is the type of every IOMMU group, None without an IOMMU.
    """

    def __init__(
        self, tree: Tree, *, collected: bool = True, group_type: str | None = None
    ) -> None:
        self._tree = tree
        self._collected = collected
        self._group_type = group_type
        self._groups = 0

    def host_bridge(self, bus: str, numa_node: int = -1) -> Place:
        """The root bus ``bus``, for example ``0000:15``."""
        return Place(f"sys/devices/pci{bus}", numa_node)

    def root_port(
        self, above: Place, slot: str, lanes: Lanes | None, acs: tuple[str, ...] = ()
    ) -> Place:
        """A root port of a host bridge; ``acs`` are the enabled controls."""
        express = Express(port_type="root port", acs=acs, read_request=128)
        return self._bridge(above, slot, ROOT_PORT, lanes, express)

    def upstream(self, above: Place, slot: str, lanes: Lanes | None) -> Place:
        """The port of a switch that looks up; such a port has no ACS."""
        express = Express(port_type="upstream port", read_request=128)
        return self._bridge(above, slot, SWITCH, lanes, express)

    def downstream(self, above: Place, slot: str, lanes: Lanes | None) -> Place:
        """A port of a switch that looks down, with ACS off."""
        express = Express(port_type="downstream port", acs=(), read_request=128)
        return self._bridge(above, slot, SWITCH, lanes, express)

    def _bridge(
        self,
        above: Place,
        slot: str,
        kind: tuple[int, int, int],
        lanes: Lanes | None,
        express: Express,
    ) -> Place:
        return self.function(above, slot, kind, "pcieport", lanes=lanes, express=express)

    def gpu(
        self,
        above: Place,
        slot: str,
        device: int,
        bar1_bytes: int,
        *,
        lanes: Lanes | None,
        express: Express | None = None,
    ) -> Place:
        """A GPU of NVIDIA's, bound to its driver."""
        kind, bars = (0x10DE, device, 0x030200), (16 << 20, bar1_bytes, 32 << 20)
        settings = express or Express(read_request=4096)
        return self.function(
            above, slot, kind, "nvidia", lanes=lanes, bars_bytes=bars, express=settings
        )

    def function(
        self,
        above: Place,
        slot: str,
        kind: tuple[int, int, int],
        driver: str | None,
        *,
        lanes: Lanes | None = None,
        bars_bytes: Sequence[int] = (),
        express: Express | None = None,
    ) -> Place:
        """Any function; ``kind`` is vendor, device and class."""
        place = replace(above, folder=f"{above.folder}/{slot}")
        vendor, device, class_code = kind
        self._tree.put(
            place.folder,
            {
                "vendor": f"{vendor:#06x}",
                "device": f"{device:#06x}",
                "class": f"{class_code:#08x}",
                "revision": "0x00",
                "subsystem_vendor": f"{vendor:#06x}",
                "subsystem_device": "0x0000",
                "numa_node": place.numa_node,
                "enable": 1,
                "resource": _resource(bars_bytes),
            },
        )
        self._express(place, lanes, express)
        self._config_space(place, encode(vendor, device, class_code, express))
        self._tree.link(f"{PCI}/devices/{slot}", place.folder)
        self._tree.link(f"{place.folder}/subsystem", PCI)
        if driver:
            self._tree.folder(f"{PCI}/drivers/{driver}")
            self._tree.link(f"{place.folder}/driver", f"{PCI}/drivers/{driver}")
        self._iommu_group(place)
        return place

    def _express(self, place: Place, lanes: Lanes | None, express: Express | None) -> None:
        if lanes is not None:
            self._tree.put(place.folder, lanes.files())
        if express is not None and lanes is not None:
            self._tree.put(
                place.folder,
                {
                    "aer_dev_correctable": _errors(CORRECTABLE, "COR"),
                    "aer_dev_fatal": _errors(FATAL, "FATAL"),
                    "aer_dev_nonfatal": _errors(FATAL, "NONFATAL"),
                },
            )

    def _config_space(self, place: Place, space: bytes) -> None:
        # What a process without privileges gets to see.
        self._tree.put(place.folder, {"config": space[:HEADER_BYTES]})
        if self._collected:
            self._tree.put(COLLECTED, {place.slot: space})

    def _iommu_group(self, place: Place) -> None:
        if self._group_type is None:
            return
        group = f"sys/kernel/iommu_groups/{self._groups}"
        self._groups += 1
        self._tree.put(group, {"type": self._group_type})
        self._tree.link(f"{group}/devices/{place.slot}", place.folder)
        self._tree.link(f"{place.folder}/iommu_group", group)


def _speed(generation: int) -> str:
    return f"{GENERATION_GTS[generation]} GT/s PCIe" if generation else "Unknown"


def _errors(names: str, kind: str) -> str:
    return "\n".join([*(f"{name} 0" for name in names.split()), f"TOTAL_ERR_{kind} 0"])


def _resource(bars_bytes: Sequence[int]) -> str:
    """The thirteen lines of ``resource``: six BARs, the ROM, and the windows of a bridge."""
    lines, start = [], 1 << 40
    for size_bytes in bars_bytes:
        # A 64-bit BAR takes the place of two: the second line is empty.
        flags = MEMORY_FLAGS if size_bytes <= 16 << 20 else WIDE_FLAGS
        lines.append(f"{start:#018x} {start + size_bytes - 1:#018x} {flags:#018x}")
        lines += [_NOTHING] if flags == WIDE_FLAGS else []
        start += 2 * max(bars_bytes)
    return "\n".join([*lines, *[_NOTHING] * (13 - len(lines))])


_NOTHING = " ".join(["0x0000000000000000"] * 3)
