"""The configuration space of a PCI function: what PCI Express says of it beyond sysfs.

Source: PCI Express base specification, 7.5 (PCI Express capability), 7.7.11 (Access Control
Services), 10.5.1 (Address Translation Services); Linux include/uapi/linux/pci_regs.h.
"""

from __future__ import annotations

from gdrcheck.facts import Acs, PciSettings, Unreadable

# What sysfs gives: without privilege, of conventional PCI, of PCI Express.
SIZES = (64, 256, 4096)
HEADER_BYTES, _, EXPRESS_BYTES = SIZES

STATUS, STATUS_CAPABILITIES = 0x06, 0x10
HEADER_TYPE, CARDBUS = 0x0E, 2
FIRST_CAPABILITY = 0x34
FIRST_EXTENDED = 0x100

CAPABILITY_EXPRESS = 0x10
DEVICE_CAPABILITIES, DEVICE_CONTROL = 0x04, 0x08
RELAXED_ORDERING = 0x0010
PORT_TYPES = {
    0x0: "endpoint",
    0x1: "legacy endpoint",
    0x4: "root port",
    0x5: "upstream port",
    0x6: "downstream port",
    0x7: "PCIe to PCI bridge",
    0x8: "PCI to PCIe bridge",
    0x9: "integrated endpoint",
    0xA: "event collector",
}
LARGEST_SIZE_CODE = 5  # 128 << 5 is 4096 bytes; 6 and 7 are reserved

EXTENDED_ACS, EXTENDED_ATS = 0x000D, 0x000F
CONTROL = 0x06  # of both: the upper half of the first register
ATS_ENABLE = 0x8000
ACS_CONTROLS = (
    "SrcValid",
    "TransBlk",
    "ReqRedir",
    "CmpltRedir",
    "UpstreamFwd",
    "EgressCtrl",
    "DirectTrans",
)


class _Broken(Exception):
    """The bytes are no configuration space; the message says why."""


def parse(data: bytes) -> PciSettings | Unreadable | None:
    """The settings in a raw configuration space of 64, 256 or 4096 bytes.

    None for a function without a PCI Express capability. Unreadable, with the reason, for anything
    that is cut off, goes in a circle or holds reserved values. Of 256 bytes the extended
    capabilities alone are Unreadable.
    """
    try:
        _check_header(data)
        express = _capability(data, CAPABILITY_EXPRESS)
        return None if express is None else _settings(data, express)
    except _Broken as error:
        return Unreadable(unreadable=str(error))


def _check_header(data: bytes) -> None:
    if len(data) not in SIZES:
        sizes = ", ".join(map(str, SIZES))
        raise _Broken(f"{len(data)} bytes, expected one of {sizes}")
    if _word(data, 0) in (0x0000, 0xFFFF):
        raise _Broken(f"vendor {_word(data, 0):#06x}: the function does not answer")


def _settings(data: bytes, express: int) -> PciSettings:
    kind = _word(data, express + 2) >> 4 & 0xF
    able = _long(data, express + DEVICE_CAPABILITIES)
    control = _word(data, express + DEVICE_CONTROL)
    reaches_extended = len(data) == EXPRESS_BYTES
    unreached = Unreadable(
        unreadable=f"the configuration space ends at {len(data)} bytes, before its extended part"
    )
    return PciSettings(
        port_type=PORT_TYPES.get(kind, f"unknown type {kind:#x}"),
        relaxed_ordering=bool(control & RELAXED_ORDERING),
        max_payload_bytes=_size("maximum payload", control >> 5),
        max_payload_supported_bytes=_size("supported payload", able),
        max_read_request_bytes=_size("read request", control >> 12),
        acs=_acs(data) if reaches_extended else unreached,
        ats_enabled=_ats_enabled(data) if reaches_extended else unreached,
    )


def _acs(data: bytes) -> Acs | None:
    position = _extended(data, EXTENDED_ACS)
    if position is None:
        return None
    control = _word(data, position + CONTROL)
    return Acs(enabled=tuple(name for bit, name in enumerate(ACS_CONTROLS) if control >> bit & 1))


def _ats_enabled(data: bytes) -> bool | None:
    position = _extended(data, EXTENDED_ATS)
    return None if position is None else bool(_word(data, position + CONTROL) & ATS_ENABLE)


def _capability(data: bytes, wanted: int) -> int | None:
    """Where the capability starts; None when the list does not hold it."""
    if not _word(data, STATUS) & STATUS_CAPABILITIES:
        return None
    if data[HEADER_TYPE] & 0x7F >= CARDBUS:
        raise _Broken(f"header type {data[HEADER_TYPE] & 0x7F} is no device and no bridge")
    seen: set[int] = set()
    position = data[FIRST_CAPABILITY] & 0xFC
    while position:
        if position < HEADER_BYTES or position in seen:
            raise _Broken(f"the list of capabilities goes astray at {position:#x}")
        seen.add(position)
        word = _word(data, position)
        if word & 0xFF == wanted:
            return position
        position = word >> 8 & 0xFC
    return None


def _extended(data: bytes, wanted: int) -> int | None:
    """Where the extended capability starts; None when the list does not hold it."""
    seen: set[int] = set()
    position = FIRST_EXTENDED
    while position:
        if position < FIRST_EXTENDED or position in seen:
            raise _Broken(f"the list of extended capabilities goes astray at {position:#x}")
        seen.add(position)
        header = _long(data, position)
        if header == 0xFFFFFFFF:
            raise _Broken(f"extended capability at {position:#x}: the function does not answer")
        if header & 0xFFFF == wanted:
            return position
        position = header >> 20 & 0xFFC
    return None


def _size(what: str, code: int) -> int:
    """Bytes of the three-bit ``code`` at the low end."""
    if code & 7 > LARGEST_SIZE_CODE:
        raise _Broken(f"{what} has the reserved value {code & 7}")
    return 128 << (code & 7)


def _word(data: bytes, position: int) -> int:
    return _number(data, position, 2)


def _long(data: bytes, position: int) -> int:
    return _number(data, position, 4)


def _number(data: bytes, position: int, length: int) -> int:
    field = data[position : position + length]
    if len(field) < length:
        raise _Broken(f"cut off at {len(data)} bytes, {position:#x} is needed")
    return int.from_bytes(field, "little")
