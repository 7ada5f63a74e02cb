"""Encodes the configuration space of a PCI Express function.

Layout: PCI Local Bus specification, chapter 6; PCI Express Base specification, chapter 7; the names
and numbers are in Linux include/uapi/linux/pci_regs.h.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

PORT_TYPES = {
    "endpoint": 0x0,
    "root port": 0x4,
    "upstream port": 0x5,
    "downstream port": 0x6,
    "integrated endpoint": 0x9,
}
ACS_CONTROLS = (
    "SrcValid",
    "TransBlk",
    "ReqRedir",
    "CmpltRedir",
    "UpstreamFwd",
    "EgressCtrl",
    "DirectTrans",
)
CONFIG_BYTES = 4096
HEADER_BYTES = 64

_STATUS_CAPABILITY_LIST = 0x10
_POWER_MANAGEMENT, _EXPRESS = 0x01, 0x10
_POWER_MANAGEMENT_AT, _EXPRESS_AT = 0x40, 0x60
_AER, _ACS, _ATS = 0x0001, 0x000D, 0x000F
_AER_AT, _ACS_AT, _ATS_AT = 0x100, 0x150, 0x180
_RELAXED_ORDERING = 1 << 4
_ATS_ENABLE = 1 << 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Express:
    """What the PCI Express capabilities of a function say.

    ``acs`` are the enabled controls, None without the capability; ``ats`` whether it is enabled,
    None without the capability.
    """

    port_type: str = "endpoint"
    relaxed_ordering: bool = True
    payload: int = 256
    payload_supported: int = 512
    read_request: int = 512
    acs: tuple[str, ...] | None = None
    ats: bool | None = None


def encode(vendor: int, device: int, class_code: int, express: Express | None) -> bytes:
    """The configuration space; with ``express`` None that of a conventional PCI function."""
    space = bytearray(CONFIG_BYTES if express else 256)
    struct.pack_into("<HH", space, 0x00, vendor, device)
    struct.pack_into("<I", space, 0x08, class_code << 8)
    space[0x0E] = 1 if class_code >> 8 == 0x0604 else 0
    if express is None:
        return bytes(space)
    struct.pack_into("<H", space, 0x06, _STATUS_CAPABILITY_LIST)
    space[0x34] = _POWER_MANAGEMENT_AT
    struct.pack_into("<BB", space, _POWER_MANAGEMENT_AT, _POWER_MANAGEMENT, _EXPRESS_AT)
    _express(space, express)
    _extended(space, express)
    return bytes(space)


def _express(space: bytearray, express: Express) -> None:
    capabilities = 2 | PORT_TYPES[express.port_type] << 4
    control = _size(express.payload) << 5 | _size(express.read_request) << 12
    control |= _RELAXED_ORDERING if express.relaxed_ordering else 0
    struct.pack_into("<BBH", space, _EXPRESS_AT, _EXPRESS, 0, capabilities)
    struct.pack_into("<I", space, _EXPRESS_AT + 4, _size(express.payload_supported))
    struct.pack_into("<H", space, _EXPRESS_AT + 8, control)


def _extended(space: bytearray, express: Express) -> None:
    """The chain of extended capabilities; the first one must stand at 0x100."""
    chain = [(_AER_AT, _AER, 0, 0)]
    if express.acs is not None:
        bits = sum(1 << ACS_CONTROLS.index(name) for name in express.acs)
        chain.append((_ACS_AT, _ACS, 0x5F, bits))
    if express.ats is not None:
        chain.append((_ATS_AT, _ATS, 0, _ATS_ENABLE if express.ats else 0))
    following = [at for at, *_ in chain[1:]] + [0]
    for (at, number, capability, control), after in zip(chain, following, strict=True):
        struct.pack_into("<I", space, at, number | 1 << 16 | after << 20)
        if number != _AER:
            struct.pack_into("<HH", space, at + 4, capability, control)


def _size(size_bytes: int) -> int:
    """The three bits that stand for 128, 256, ... 4096 bytes."""
    return size_bytes.bit_length() - 8
