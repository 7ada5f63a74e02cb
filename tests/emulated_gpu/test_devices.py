"""What the emulated driver says of its GPUs: as the file has it, else as an H200 does."""

from __future__ import annotations

from typing import Any

import pytest
from cuda.bindings import driver

from lab.emulated_gpu.config import EmulatedGpu
from tests.emulated_gpu.emulation import Emulation, result, status

pytestmark = pytest.mark.usefixtures("emulation")

GPU = EmulatedGpu(
    slot="0000:ab:00.0",
    uuid="GPU-01234567-89ab-cdef-0123-456789abcdef",
    name="NVIDIA Something",
    memory_mib=96,
    attributes={124: 0, 110: None, 118: 200},
)


def device_attribute(number: int) -> Any:
    return result(driver.cuDeviceGetAttribute, driver.CUdevice_attribute(number), 0)


def test_identity_is_that_of_the_file(emulation: Emulation) -> None:
    emulation.set([GPU])
    assert result(driver.cuDeviceGetCount) == 1
    assert result(driver.cuDeviceGetName, 64, 0).rstrip(b"\0 ") == b"NVIDIA Something"
    uuid = getattr(driver, "cuDeviceGetUuid_v2", driver.cuDeviceGetUuid)
    assert result(uuid, 0).bytes.hex() == "0123456789abcdef0123456789abcdef"
    assert result(driver.cuDeviceGetPCIBusId, 16, 0).startswith(b"0000:AB:00.0\0")
    assert result(driver.cuDeviceTotalMem, 0) == 96 << 20


@pytest.mark.parametrize(
    ("number", "value"),
    [(75, 9), (76, 0), (16, 132), (110, 1), (116, 1), (117, 1), (118, 100), (124, 1), (33, 0x24)],
)
def test_attributes_are_those_of_an_h200(number: int, value: int) -> None:
    assert device_attribute(number) == value


def test_the_file_changes_attributes_or_makes_them_unknown(emulation: Emulation) -> None:
    emulation.set([GPU])
    assert device_attribute(124) == 0
    assert device_attribute(118) == 200
    unknown = driver.CUdevice_attribute(110)
    assert status(driver.cuDeviceGetAttribute, unknown, 0) == 1


def test_the_version_is_that_of_the_file(emulation: Emulation) -> None:
    emulation.set(cuda_version=12020)
    assert result(driver.cuDriverGetVersion) == 12020


def test_a_gpu_that_is_not_there_is_an_invalid_device() -> None:
    assert status(driver.cuDeviceGet, 2) == 101
    assert status(driver.cuDeviceTotalMem, 2) == 101
    assert status(driver.cuDevicePrimaryCtxRetain, -1) == 101


def test_without_gpus_there_is_no_device(emulation: Emulation) -> None:
    emulation.set([])
    assert status(driver.cuInit, 0) == 100


def test_errors_have_the_names_of_cuda() -> None:
    for error in (2, 46, 201, 218, 700, 802, 999):
        name = result(driver.cuGetErrorName, driver.CUresult(error))
        assert name.decode() == driver.CUresult(error).name
        assert result(driver.cuGetErrorString, driver.CUresult(error))
