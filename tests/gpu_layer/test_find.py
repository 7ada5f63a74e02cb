"""A GPU is told by its UUID; by its slot where nothing can be confused; never by its number."""

from __future__ import annotations

import uuid

from gdrcheck.gpu.devices import Attributes, GpuDevice, find

SLOT, OTHER_SLOT = "0000:24:00.0", "0000:61:00.0"


def device(ordinal: int, slot: str = SLOT) -> GpuDevice:
    return GpuDevice(
        ordinal=ordinal,
        uuid=str(uuid.UUID(int=0xABC0 + ordinal)),
        slot=slot,
        name="NVIDIA H200",
        total_bytes=1 << 37,
        capability=(9, 0),
        attributes=Attributes(True, True, True, 1, 100),
    )


ONE, TWO = device(0), device(1, OTHER_SLOT)
SLICES = (device(0), device(1))


def test_by_uuid_as_nvml_writes_it() -> None:
    assert find([ONE, TWO], slot=SLOT, uuids=[f"GPU-{TWO.uuid.upper()}"]) is TWO


def test_the_uuid_decides_against_the_slot() -> None:
    assert find([ONE, TWO], slot=OTHER_SLOT, uuids=[f"GPU-{ONE.uuid}"]) is ONE


def test_a_slice_by_its_own_uuid() -> None:
    gpu = str(uuid.UUID(int=5))
    assert find(SLICES, slot=SLOT, uuids=[f"GPU-{gpu}", f"MIG-{SLICES[1].uuid}"]) is SLICES[1]


def test_an_unknown_uuid_finds_nothing_even_at_the_right_slot() -> None:
    assert find([ONE], slot=SLOT, uuids=[f"GPU-{uuid.UUID(int=5)}"]) is None


def test_by_slot_when_no_uuid_is_known_and_one_device_has_it() -> None:
    assert find([ONE, TWO], slot=OTHER_SLOT, uuids=[]) is TWO


def test_slices_are_not_told_apart_by_their_slot() -> None:
    assert find(SLICES, slot=SLOT, uuids=[]) is None


def test_no_device_at_the_slot() -> None:
    assert find([ONE], slot=OTHER_SLOT, uuids=[]) is None
    assert find([], slot=SLOT, uuids=[]) is None
