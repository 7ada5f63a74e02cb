"""GPUs that reach into each other's memory, as CUDA documents it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from cuda.bindings import driver

from lab.emulated_gpu.config import Corrupt, Faults
from tests.emulated_gpu.emulation import Emulation, read, result, status, write
from tests.emulated_gpu.test_kernels import ALL_ONES, KEY, MIXED, SIZE, Kernels

UNSUPPORTED, ALREADY, NOT_ENABLED = 217, 704, 705
INVALID_VALUE, INVALID_DEVICE, INVALID_CONTEXT = 1, 101, 201
ACCESS_SUPPORTED = driver.CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED


@dataclass(frozen=True)
class End:
    """One GPU: its context, kernels that run there, and memory of it."""

    context: Any
    kernels: Kernels

    @property
    def data(self) -> int:
        """An address of the GPU's memory, of SIZE bytes."""
        return self.kernels.data

    @contextmanager
    def current(self) -> Iterator[None]:
        """Its context is current."""
        result(driver.cuCtxPushCurrent, self.context)
        try:
            yield
        finally:
            result(driver.cuCtxPopCurrent)

    def sees(self, address: int) -> list[int]:
        """What its verifying kernel finds at an address: first bad offset, bad bytes."""
        extra = self.kernels.extra
        with self.current():
            write(extra, ALL_ONES.to_bytes(8, "little") + bytes(16))
            arguments = (address, SIZE, MIXED, KEY.tag, 0, extra)
            assert self.kernels.launch(b"gdrcheck_verify", *arguments) == 0
            found = read(extra, 16)
        return [int.from_bytes(found[at : at + 8], "little") for at in (0, 8)]

    def fill(self) -> None:
        """The pattern into its memory."""
        with self.current():
            arguments = (self.data, SIZE, MIXED, KEY.tag, 0)
            assert self.kernels.launch(b"gdrcheck_fill", *arguments) == 0


GOOD, LAST_IS_BAD = [ALL_ONES, 0], [SIZE - 1, 1]


@pytest.fixture
def ends(emulation: Emulation) -> Iterator[list[End]]:
    """Both GPUs; no context is current."""
    made = []
    for number in range(2):
        context = result(driver.cuDevicePrimaryCtxRetain, number)
        result(driver.cuCtxPushCurrent, context)
        made.append(End(context, Kernels()))
        result(driver.cuCtxPopCurrent)
    yield made
    emulation.set()
    for number in range(2):
        result(driver.cuDevicePrimaryCtxRelease, number)


def test_each_reaches_the_other_and_none_itself(ends: list[End]) -> None:
    assert len(ends) == 2
    for one, other in ((0, 1), (1, 0)):
        assert result(driver.cuDeviceCanAccessPeer, one, other) == 1
        assert result(driver.cuDeviceGetP2PAttribute, ACCESS_SUPPORTED, one, other) == 1
    assert result(driver.cuDeviceCanAccessPeer, 0, 0) == 0
    assert status(driver.cuDeviceCanAccessPeer, 0, 2) == INVALID_DEVICE
    assert status(driver.cuDeviceGetP2PAttribute, ACCESS_SUPPORTED, 1, 1) == INVALID_DEVICE


def test_access_is_of_one_way_and_is_enabled_once(ends: list[End]) -> None:
    near, far = ends
    with near.current():
        assert status(driver.cuCtxEnablePeerAccess, near.context, 0) == INVALID_CONTEXT
        assert status(driver.cuCtxEnablePeerAccess, far.context, 1) == INVALID_VALUE
        assert status(driver.cuCtxEnablePeerAccess, far.context, 0) == 0
        assert status(driver.cuCtxEnablePeerAccess, far.context, 0) == ALREADY
    with far.current():
        assert status(driver.cuCtxDisablePeerAccess, near.context) == NOT_ENABLED
    with near.current():
        assert status(driver.cuCtxDisablePeerAccess, far.context) == 0
        assert status(driver.cuCtxDisablePeerAccess, far.context) == NOT_ENABLED


def test_a_kernel_reads_a_peer_in_place(ends: list[End]) -> None:
    near, far = ends
    far.fill()
    with near.current():
        result(driver.cuCtxEnablePeerAccess, far.context, 0)
    assert near.sees(far.data) == GOOD
    assert near.sees(near.data) != GOOD


def test_a_kernel_without_access_kills_its_context(emulation: Emulation) -> None:
    done = emulation.run(
        """
from tests.emulated_gpu.test_kernels import Kernels, result
result(driver.cuInit, 0)
contexts = [result(driver.cuDevicePrimaryCtxRetain, number) for number in range(2)]
result(driver.cuCtxSetCurrent, contexts[1])
far = Kernels()
result(driver.cuCtxEnablePeerAccess, contexts[0], 0)
result(driver.cuCtxSetCurrent, contexts[0])
print(Kernels().launch(b"gdrcheck_fill", far.data, 8, 0, 0, 0), driver.cuCtxSynchronize()[0].value)
result(driver.cuCtxSetCurrent, contexts[1])
print(driver.cuCtxSynchronize()[0].value)
"""
    )
    assert done.stdout.split() == ["0", "700", "0"], done.stderr


def test_copies_go_both_ways_with_and_without_access(ends: list[End]) -> None:
    near, far = ends
    near.fill()
    ways: list[tuple[Any, ...]] = [
        (driver.cuMemcpyDtoD, far.data, near.data, SIZE),
        (driver.cuMemcpyDtoDAsync, far.data, near.data, SIZE, 0),
        (driver.cuMemcpyPeer, far.data, far.context, near.data, near.context, SIZE),
        (driver.cuMemcpyPeerAsync, far.data, far.context, near.data, near.context, SIZE, 0),
    ]
    for end in ends:
        for copy, *arguments in ways:
            with far.current():
                result(driver.cuMemsetD8, far.data, 0, SIZE)
            assert far.sees(far.data) != GOOD
            with end.current():
                assert status(copy, *arguments) == 0
            assert far.sees(far.data) == GOOD


def test_a_copy_between_contexts_names_the_right_ones(ends: list[End]) -> None:
    near, far = ends
    with near.current():
        wrong = (far.data, near.context, near.data, near.context, 8)
        assert status(driver.cuMemcpyPeer, *wrong) == INVALID_VALUE
        none = (far.data, driver.CUcontext(0), near.data, near.context, 8)
        assert status(driver.cuMemcpyPeer, *none) == INVALID_CONTEXT


def test_what_a_gpu_reads_of_another_can_arrive_changed(
    emulation: Emulation, ends: list[End]
) -> None:
    near, far = ends
    with near.current():
        result(driver.cuCtxEnablePeerAccess, far.context, 0)
    far.fill()
    emulation.set(gpu_faults={0: Faults(peer_corrupt=Corrupt())})
    # It is right where it lies, for its owner, also after the other one has looked.
    assert near.sees(far.data) == LAST_IS_BAD
    assert far.sees(far.data) == GOOD
    with near.current():
        result(driver.cuMemcpyDtoD, near.data, far.data, SIZE)
        assert read(near.data, SIZE) != read(far.data, SIZE)
    assert near.sees(near.data) == LAST_IS_BAD
    # The other way, and within a GPU, nothing is changed.
    near.fill()
    with near.current():
        result(driver.cuMemcpyDtoD, far.data, near.data, SIZE)
        result(driver.cuMemcpyDtoD, near.kernels.extra, near.data, SIZE)
        assert read(near.kernels.extra, SIZE) == read(near.data, SIZE)
    assert far.sees(far.data) == GOOD


def test_a_gpu_that_refuses_its_peers(emulation: Emulation, ends: list[End]) -> None:
    near, far = ends
    emulation.set(gpu_faults={0: Faults(peer_refuse=True)})
    assert result(driver.cuDeviceCanAccessPeer, 0, 1) == 0
    assert result(driver.cuDeviceGetP2PAttribute, ACCESS_SUPPORTED, 0, 1) == 0
    assert result(driver.cuDeviceCanAccessPeer, 1, 0) == 1
    with near.current():
        assert status(driver.cuCtxEnablePeerAccess, far.context, 0) == UNSUPPORTED
    with far.current():
        assert status(driver.cuCtxEnablePeerAccess, near.context, 0) == 0


def test_access_ends_with_the_context(ends: list[End]) -> None:
    near, far = ends
    with near.current():
        result(driver.cuCtxEnablePeerAccess, far.context, 0)
    result(driver.cuDevicePrimaryCtxRelease, 1)
    result(driver.cuDevicePrimaryCtxRetain, 1)
    with near.current():
        assert status(driver.cuCtxEnablePeerAccess, far.context, 0) == 0
