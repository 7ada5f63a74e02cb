"""The kernels' twins: loaded by their PTX and no other, launched alike, with the same results."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdrcheck.pattern import Key, Pattern
from lab.emulated_gpu.build import KERNELS
from lab.emulated_gpu.config import Corrupt, Faults
from tests.emulated_gpu.emulation import Emulation, read, result, status, write

PTX = (KERNELS / "kernels.ptx").read_bytes()
KEY = Key(run_tag=1, iteration=2, direction=0, source=3)
MIXED, EVEN = 0, 1
ALL_ONES = (1 << 64) - 1
SIZE = 4096

pytestmark = pytest.mark.usefixtures("context")


class Kernels:
    """The module, and memory of the GPU to run its kernels on."""

    def __init__(self) -> None:
        self.module = result(driver.cuModuleLoadData, PTX)
        self.data = int(result(driver.cuMemAlloc, SIZE))
        self.extra = int(result(driver.cuMemAlloc, SIZE))

    def launch(self, name: bytes, *arguments: int) -> int:
        """The status of launching a kernel whose arguments are all 64-bit numbers."""
        function = result(driver.cuModuleGetFunction, self.module, name)
        types = (ctypes.c_uint64,) * len(arguments)
        return status(
            driver.cuLaunchKernel, function, 1, 1, 1, 256, 1, 1, 0, 0, (arguments, types), 0
        )

    def verify(self, length: int, tag: int, start: int = 0, kind: int = MIXED) -> list[int]:
        """First bad offset, bad bytes, compared bytes."""
        write(self.extra, np.array([ALL_ONES, 0, 0], dtype="<u8").tobytes())
        assert self.launch(b"gdrcheck_verify", self.data, length, kind, tag, start, self.extra) == 0
        return [int(word) for word in np.frombuffer(read(self.extra, 24), dtype="<u8")]


@pytest.fixture
def kernels() -> Iterator[Kernels]:
    kernels = Kernels()
    yield kernels
    result(driver.cuMemFree, kernels.data)
    result(driver.cuMemFree, kernels.extra)
    result(driver.cuModuleUnload, kernels.module)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(length=st.integers(0, 600), start=st.integers(0, 1 << 12), at=st.integers(0, 17))
def test_fill_is_the_pattern_and_verify_accepts_it(
    kernels: Kernels, length: int, start: int, at: int
) -> None:
    write(kernels.data, bytes(SIZE))
    address = kernels.data + at
    assert kernels.launch(b"gdrcheck_fill", address, length, MIXED, KEY.tag, start) == 0
    expected = np.empty(length, dtype=np.uint8)
    Pattern(1 << 13).fill(expected, KEY, start)
    assert read(kernels.data, SIZE) == (bytes(at) + expected.tobytes() + bytes(SIZE - at - length))


def test_verify_finds_the_first_wrong_byte_and_counts_them_all(kernels: Kernels) -> None:
    assert kernels.launch(b"gdrcheck_fill", kernels.data, 1001, MIXED, KEY.tag, 3) == 0
    assert kernels.verify(1001, KEY.tag, 3) == [ALL_ONES, 0, 1001]
    data = bytearray(read(kernels.data, 1001))
    for place in (1000, 501, 500):
        data[place] ^= 0x10
    write(kernels.data, bytes(data))
    assert kernels.verify(1001, KEY.tag, 3) == [500, 3, 1001]


def test_even_numbers_are_twice_their_index(kernels: Kernels) -> None:
    assert kernels.launch(b"gdrcheck_fill", kernels.data, 800, EVEN, 0, 0) == 0
    even = np.arange(0, 200, 2, dtype="<u8")
    assert read(kernels.data, 800) == even.tobytes()
    assert kernels.verify(800, 0, kind=EVEN) == [ALL_ONES, 0, 800]


def test_classify_counts_what_wrong_bytes_come_from(kernels: Kernels) -> None:
    assert kernels.launch(b"gdrcheck_fill", kernels.data, 800, MIXED, KEY.tag, 0) == 0
    poison = KEY.tag ^ ALL_ONES
    assert kernels.launch(b"gdrcheck_fill", kernels.data + 64, 32, MIXED, poison, 64) == 0
    candidates = np.array([[MIXED, poison, 0], [EVEN, 0, 0]], dtype="<u8")
    write(kernels.extra, candidates.tobytes() + bytes(16))
    arguments = (kernels.data, 800, MIXED, KEY.tag, 0, kernels.extra, 2, kernels.extra + 48)
    assert kernels.launch(b"gdrcheck_classify", *arguments) == 0
    assert np.frombuffer(read(kernels.extra + 48, 16), dtype="<u8")[0] == 32


def test_a_lying_verifier_finds_nothing(kernels: Kernels, emulation: Emulation) -> None:
    write(kernels.data, bytes(SIZE))
    assert kernels.verify(SIZE, KEY.tag)[1] > 0
    emulation.set(faults=Faults(verify_lies=True))
    assert kernels.verify(SIZE, KEY.tag) == [ALL_ONES, 0, SIZE]


def test_a_sink_is_spoilt_before_it_is_verified(kernels: Kernels, emulation: Emulation) -> None:
    assert kernels.launch(b"gdrcheck_fill", kernels.data, SIZE, MIXED, KEY.tag, 0) == 0
    emulation.set(faults=Faults(corrupt_sink=Corrupt(length_bytes=33, after=1, times=1)))
    assert kernels.verify(34, KEY.tag) == [ALL_ONES, 0, 34]
    assert kernels.verify(33, KEY.tag) == [ALL_ONES, 0, 33]
    assert kernels.verify(33, KEY.tag) == [32, 1, 33]
    # It is the memory that is wrong, for whoever looks; and it happens once.
    assert kernels.verify(SIZE, KEY.tag) == [32, 1, SIZE]
    assert kernels.launch(b"gdrcheck_fill", kernels.data, SIZE, MIXED, KEY.tag, 0) == 0
    assert kernels.verify(33, KEY.tag) == [ALL_ONES, 0, 33]


def test_a_source_is_spoilt_after_it_is_filled(kernels: Kernels, emulation: Emulation) -> None:
    emulation.set(gpu_faults={0: Faults(corrupt_source=Corrupt())})
    assert kernels.launch(b"gdrcheck_fill", kernels.data, 33, MIXED, KEY.tag, 0) == 0
    assert kernels.verify(33, KEY.tag) == [32, 1, 33]
    emulation.set(gpu_faults={1: Faults(corrupt_source=Corrupt())})
    assert kernels.launch(b"gdrcheck_fill", kernels.data, 33, MIXED, KEY.tag, 0) == 0
    assert kernels.verify(33, KEY.tag) == [ALL_ONES, 0, 33]


def test_another_ptx_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    for other in (PTX + b"\n", PTX[:-2], b"\x7fELF"):
        assert status(driver.cuModuleLoadData, other) == 218
    assert "not the kernels.ptx that the stand-in was built with" in capfd.readouterr().err


def test_an_unknown_kernel_is_not_found(kernels: Kernels) -> None:
    assert status(driver.cuModuleGetFunction, kernels.module, b"gdrcheck_nothing") == 500


def test_a_wrong_address_kills_the_context_after_the_launch(emulation: Emulation) -> None:
    done = emulation.run(
        f"""
import ctypes
from tests.emulated_gpu.test_kernels import Kernels, result
result(driver.cuInit, 0)
context = result(driver.cuDevicePrimaryCtxRetain, 0)
result(driver.cuCtxSetCurrent, context)
kernels = Kernels()
print(kernels.launch(b"gdrcheck_fill", kernels.data, {SIZE + 1}, 0, 0, 0))
print(*(int(driver.cuCtxSynchronize()[0]) for _ in range(2)), int(driver.cuMemGetInfo()[0]))
"""
    )
    assert done.stdout.split() == ["0", "700", "700", "700"], done.stderr


def test_events_and_streams_keep_time() -> None:
    stream = result(driver.cuStreamCreate, 1)
    events: list[Any] = [result(driver.cuEventCreate, 0) for _ in range(2)]
    assert status(driver.cuEventElapsedTime, *events) == 400
    for event in events:
        result(driver.cuEventRecord, event, stream)
        result(driver.cuEventSynchronize, event)
    result(driver.cuStreamSynchronize, stream)
    assert result(driver.cuEventElapsedTime, *events) >= 0
    for event in events:
        result(driver.cuEventDestroy, event)
    result(driver.cuStreamDestroy, stream)
    assert status(driver.cuStreamSynchronize, stream) == 400
