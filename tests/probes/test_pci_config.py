"""The configuration space: what it says, and that no bytes can break the parser."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.facts import Acs, PciSettings, Unreadable
from gdrcheck.probes.pci_config import parse

EXPRESS_AT, ACS_AT, ATS_AT = 0x60, 0x148, 0x200
ENDPOINT, ROOT_PORT, DOWNSTREAM = 0x0, 0x4, 0x6


def space(
    *,
    size: int = 4096,
    port_type: int = ENDPOINT,
    capabilities: int = 0,
    control: int = 0,
    acs: int | None = None,
    ats: int | None = None,
) -> bytearray:
    """Power management, then PCI Express; extended: errors, then ACS, then ATS."""
    data = bytearray(4096)
    struct.pack_into("<HHHH", data, 0, 0x15B3, 0x1021, 0, 0x0010)
    data[0x34] = 0x40
    struct.pack_into("<BB", data, 0x40, 0x01, EXPRESS_AT)
    struct.pack_into("<BBH", data, EXPRESS_AT, 0x10, 0, 2 | port_type << 4)
    struct.pack_into("<IH", data, EXPRESS_AT + 4, capabilities, control)
    chain = [(0x100, 0x0001, None), (ACS_AT, 0x000D, acs), (ATS_AT, 0x000F, ats)]
    chain = [one for one in chain if one[2] is not None or one[1] == 0x0001]
    for (at, kind, value), after in zip(chain, [*chain[1:], (0,)], strict=True):
        struct.pack_into("<IHH", data, at, kind | 1 << 16 | after[0] << 20, 0x7F, value or 0)
    return data[:size]


def parsed(data: bytes) -> PciSettings:
    settings = parse(bytes(data))
    assert isinstance(settings, PciSettings), settings
    return settings


def why(data: bytes) -> str:
    settings = parse(bytes(data))
    assert isinstance(settings, Unreadable), settings
    assert not settings.privilege
    return settings.unreadable


def test_device_control_of_an_endpoint_is_read() -> None:
    settings = parsed(space(capabilities=2, control=0x0010 | 1 << 5 | 5 << 12))
    assert settings == PciSettings(
        port_type="endpoint",
        relaxed_ordering=True,
        max_payload_bytes=256,
        max_payload_supported_bytes=512,
        max_read_request_bytes=4096,
        acs=None,
        ats_enabled=None,
    )


def test_relaxed_ordering_off_is_off() -> None:
    assert parsed(space(control=0xFFFF & ~0x7010 & ~0xE0)).relaxed_ordering is False


@pytest.mark.parametrize(("kind", "name"), [(ROOT_PORT, "root port"), (0x5, "upstream port")])
def test_ports_are_told_by_their_type(kind: int, name: str) -> None:
    assert parsed(space(port_type=kind)).port_type == name


def test_access_control_is_read_as_lspci_names_it() -> None:
    settings = parsed(space(port_type=DOWNSTREAM, acs=0x1D))
    assert settings.acs == Acs(enabled=("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"))
    assert settings.acs.redirects


@pytest.mark.parametrize("control", [0x00, 0x01, 0x13 & ~0x0C])
def test_access_control_without_redirection_does_not_redirect(control: int) -> None:
    acs = parsed(space(acs=control)).acs
    assert isinstance(acs, Acs)
    assert not acs.redirects


@pytest.mark.parametrize(("control", "enabled"), [(0x8000, True), (0x7FFF, False)])
def test_address_translation_is_one_bit(control: int, enabled: bool) -> None:
    assert parsed(space(acs=0, ats=control)).ats_enabled is enabled


def test_of_256_bytes_only_the_extended_part_is_unreadable() -> None:
    settings = parsed(space(size=256, control=0x10))
    assert settings.relaxed_ordering
    assert isinstance(settings.acs, Unreadable)
    assert isinstance(settings.ats_enabled, Unreadable)


def test_a_function_without_capabilities_has_no_settings() -> None:
    data = space(size=64)
    data[0x06] = 0
    assert parse(bytes(data)) is None


def test_a_conventional_function_has_no_settings() -> None:
    data = space(size=256)
    data[0x41] = 0
    assert parse(bytes(data)) is None


def test_the_header_alone_says_that_it_is_cut_off() -> None:
    assert "cut off at 64 bytes" in why(space(size=64))


@pytest.mark.parametrize("size", [0, 1, 63, 65, 255, 257, 4095])
def test_a_size_that_no_kernel_gives_is_no_configuration_space(size: int) -> None:
    assert f"{size} bytes" in why(space(size=size))


@pytest.mark.parametrize("byte", [b"\xff", b"\x00"])
def test_a_function_that_has_left_the_bus_does_not_answer(byte: bytes) -> None:
    assert "does not answer" in why(byte * 4096)


def test_a_circle_of_capabilities_is_seen() -> None:
    data = space()
    data[EXPRESS_AT] = 0x05
    data[EXPRESS_AT + 1] = 0x40
    assert "astray" in why(data)


def test_a_circle_of_extended_capabilities_is_seen() -> None:
    data = space()
    struct.pack_into("<I", data, 0x100, 0x0001 | 0x100 << 20)
    assert "astray" in why(data)


def test_a_capability_inside_the_header_is_seen() -> None:
    data = space()
    data[0x34] = 0x10
    assert "astray" in why(data)


@pytest.mark.parametrize("control", [6 << 5, 7 << 12])
def test_a_reserved_size_is_not_a_size(control: int) -> None:
    assert "reserved" in why(space(control=control))


@given(
    st.sampled_from((64, 256, 4096)).flatmap(lambda size: st.binary(min_size=size, max_size=size))
)
def test_no_bytes_break_the_parser(data: bytes) -> None:
    assert parse(data) is None or isinstance(parse(data), PciSettings | Unreadable)


@given(
    st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 255)), max_size=12),
    st.integers(0, 4096),
)
def test_a_damaged_configuration_space_does_not_break_the_parser(
    damage: list[tuple[int, int]], size: int
) -> None:
    data = space(acs=0x1D, ats=0x8000)
    for position, value in damage:
        data[position] = value
    result = parse(bytes(data[:size]))
    assert result is None or isinstance(result, PciSettings | Unreadable)
