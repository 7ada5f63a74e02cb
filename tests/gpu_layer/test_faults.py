"""Each fault of driver and GPU reads back as one error that names it. On the emulated driver."""

from __future__ import annotations

import gc
import os

import pytest

from gdrcheck.gpu import library
from gdrcheck.gpu.buffers import allocate, prove
from gdrcheck.gpu.compat import call, driver
from gdrcheck.gpu.context import open_gpu
from gdrcheck.gpu.devices import enumerate_gpus, start, survey
from gdrcheck.gpu.engine import engine_of
from gdrcheck.gpu.errors import CudaError, DriverTooOld, LibraryMissing
from gdrcheck.gpu.export import export
from gdrcheck.gpu.flush import flush_remote_writes
from gdrcheck.registration import BufferKind
from tests.gpu_layer.bodies import MIB, open_descriptors
from tests.gpu_layer.emulation import SLOTS, Emulation

EXPORT = "cuMemGetHandleForAddressRange"


def test_the_emulated_driver_says_so(emulation: Emulation) -> None:
    emulation.set()
    assert start().emulated


def test_both_gpus_are_there_with_their_identity(emulation: Emulation) -> None:
    emulation.set()
    start()
    gpus = enumerate_gpus()
    assert [gpu.slot for gpu in gpus] == list(SLOTS)
    assert len({gpu.uuid for gpu in gpus}) == 2
    assert all(gpu.attributes.dmabuf and gpu.attributes.gdr for gpu in gpus)


def test_a_driver_that_is_too_old_is_one_error_before_cuda_starts(emulation: Emulation) -> None:
    emulation.set(cuda=11080, faults=["fail cuInit = 999"])
    with pytest.raises(DriverTooOld) as caught:
        start()
    assert caught.value.found == (11, 8)
    assert caught.value.name == "CUDA_ERROR_INSUFFICIENT_DRIVER"


@pytest.mark.parametrize(
    ("status", "name", "words"),
    [
        (100, "CUDA_ERROR_NO_DEVICE", "no GPU"),
        (802, "CUDA_ERROR_SYSTEM_NOT_READY", "fabric manager"),
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "different driver versions"),
        (999, "CUDA_ERROR_UNKNOWN", "fallen off the bus"),
    ],
)
def test_a_driver_that_does_not_start(
    emulation: Emulation, status: int, name: str, words: str
) -> None:
    emulation.set(faults=[f"fail cuInit = {status}"])
    with pytest.raises(CudaError, match=words) as caught:
        start()
    assert (caught.value.function, caught.value.name) == ("cuInit", name)


def test_no_gpu_at_all(emulation: Emulation) -> None:
    emulation.set(gpus=0)
    with pytest.raises(CudaError) as caught:
        start()
    assert caught.value.name == "CUDA_ERROR_NO_DEVICE"


def test_a_machine_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_NAME", "libgdrcheck-is-not-here.so.1")
    with pytest.raises(LibraryMissing, match=r"no NVIDIA driver on the host"):
        start()


def test_a_gpu_that_does_not_answer_hides_no_other(emulation: Emulation) -> None:
    emulation.set(faults_of={1: ["gone = 1"]})
    start()
    seen = survey()
    assert [gpu.slot for gpu in seen.gpus] == [SLOTS[0]]
    (lost,) = seen.lost
    assert lost.name == "CUDA_ERROR_UNKNOWN"


def test_attributes_are_the_drivers_own(emulation: Emulation) -> None:
    emulation.set(attributes={124: 0, 116: 0, 117: 0, 118: 0})
    start()
    attributes = enumerate_gpus()[0].attributes
    assert (attributes.dmabuf, attributes.gdr) == (False, False)
    assert (attributes.flush_options, attributes.writes_ordering) == (0, 0)


def test_an_attribute_that_the_driver_does_not_know_is_none(emulation: Emulation) -> None:
    emulation.set(attributes={124: None, 118: None})
    start()
    attributes = enumerate_gpus()[0].attributes
    assert (attributes.dmabuf, attributes.writes_ordering) == (None, None)
    assert attributes.gdr is True


def test_a_gpu_without_dmabuf_refuses_the_export(emulation: Emulation) -> None:
    gpu_set = emulation.opened(attributes={124: 0})
    with gpu_set as gpu, allocate(gpu, MIB) as buffer:
        before = open_descriptors()
        with pytest.raises(CudaError) as caught, export(buffer, 0, MIB):
            pass
        assert caught.value.name == "CUDA_ERROR_NOT_SUPPORTED"
        assert caught.value.function == EXPORT
        assert SLOTS[0] in str(caught.value)
        assert open_descriptors() == before


def test_the_plain_mapping_is_used_where_the_other_is_not_supported(emulation: Emulation) -> None:
    with emulation.opened() as gpu, allocate(gpu, MIB) as buffer, export(buffer, 0, MIB) as made:
        assert made.flag == "plain"
        (refused,) = made.refused
        assert "(pcie)" in refused
        assert "CUDA_ERROR_NOT_SUPPORTED" in refused


def test_another_refusal_is_never_answered_by_another_mapping(emulation: Emulation) -> None:
    with emulation.opened() as gpu, allocate(gpu, MIB) as buffer:
        emulation.set(faults=[f"fail {EXPORT} = 2"])
        with pytest.raises(CudaError, match=r"\(pcie\)") as caught, export(buffer, 0, MIB):
            pass
        assert caught.value.name == "CUDA_ERROR_OUT_OF_MEMORY"


def test_a_driver_older_than_the_flag_is_not_asked_for_it(emulation: Emulation) -> None:
    with (
        emulation.opened(cuda=12040) as gpu,
        allocate(gpu, MIB) as buffer,
        export(buffer, 0, MIB) as made,
    ):
        assert (made.flag, made.refused) == ("plain", ())


@pytest.mark.parametrize(
    "fault",
    [
        "fail cuPointerSetAttribute = 801",
        "fail cuPointerSetAttribute = 1",
    ],
)
def test_memory_without_synchronous_copies_is_refused_and_freed(
    emulation: Emulation, fault: str
) -> None:
    with emulation.opened() as gpu:
        free, _ = gpu.memory_info()
        emulation.set(faults=[fault])
        with pytest.raises(CudaError, match="SYNC_MEMOPS"), allocate(gpu, MIB):
            pass
        assert gpu.memory_info()[0] == free


@pytest.mark.parametrize("function", ["cuMemCreate", "cuMemMap", "cuMemSetAccess"])
def test_vmm_memory_that_is_made_halfway_leaves_nothing(
    emulation: Emulation, function: str
) -> None:
    with emulation.opened() as gpu:
        free, _ = gpu.memory_info()
        emulation.set(faults=[f"fail {function} = 2"])
        with pytest.raises(CudaError) as caught, allocate(gpu, 4 * MIB, "gpu-vmm"):
            pass
        assert caught.value.function == function
        emulation.set()
        assert gpu.memory_info()[0] == free
        with allocate(gpu, 4 * MIB, "gpu-vmm") as buffer:
            assert prove(buffer).gpu_memory


def test_memory_that_the_driver_calls_managed_is_no_gpu_memory(emulation: Emulation) -> None:
    with emulation.opened() as gpu, allocate(gpu, MIB) as buffer:
        emulation.set(faults=["managed = 1"])
        proof = prove(buffer)
        assert proof.managed
        assert not proof.gpu_memory


def test_a_gpu_that_disappears_is_named_by_the_call_that_missed_it(emulation: Emulation) -> None:
    def used_after_it_is_gone() -> None:
        with emulation.opened() as gpu, allocate(gpu, MIB):
            emulation.set(faults_of={0: ["gone = 1"]})
            gpu.synchronize()

    with pytest.raises(CudaError) as caught:
        used_after_it_is_gone()
    assert caught.value.name == "CUDA_ERROR_UNKNOWN"
    assert caught.value.step.startswith("cuCtx")
    assert caught.value.step.endswith(SLOTS[0])
    # What could not be given back either is told beside it, not instead.
    assert any("cuMemFree" in note for note in caught.value.__notes__)


def test_a_gpu_that_disappears_after_some_calls_leaves_the_other_alone(
    emulation: Emulation,
) -> None:
    emulation.set()
    start()
    first, second = enumerate_gpus()

    def used_until_it_is_gone() -> None:
        with open_gpu(first) as gpu:
            emulation.set(faults_of={0: ["gone = 1 after 5"]})
            for _ in range(20):
                with allocate(gpu, MIB):
                    pass

    with open_gpu(second) as other:
        with pytest.raises(CudaError) as caught:
            used_until_it_is_gone()
        assert SLOTS[0] in str(caught.value)
        with allocate(other, MIB) as buffer:
            assert prove(buffer).gpu_memory


def test_two_gpus_open_at_once_each_get_their_own_memory(emulation: Emulation) -> None:
    emulation.set()
    start()
    first, second = enumerate_gpus()
    with (
        open_gpu(first) as one,
        open_gpu(second) as two,
        allocate(one, MIB) as in_one,
        allocate(two, MIB) as in_two,
    ):
        assert prove(in_one).ordinal == first.ordinal
        assert prove(in_two).ordinal == second.ordinal
        assert prove(in_one).gpu_memory
        assert prove(in_two).gpu_memory


@pytest.mark.parametrize("kind", ["gpu", "gpu-vmm", "pinned", "managed"])
def test_a_gpu_that_was_opened_and_closed_meanwhile_is_in_nobodys_way(
    emulation: Emulation, kind: BufferKind
) -> None:
    emulation.set()
    start()
    first, second = enumerate_gpus()
    with open_gpu(first) as one:
        engine_of(one)
        free, _ = one.memory_info()
        with allocate(one, MIB, kind), open_gpu(second) as two, allocate(two, MIB):
            engine_of(two)
        assert one.memory_info()[0] == free


def test_what_lives_as_long_as_a_context_ends_in_that_context(emulation: Emulation) -> None:
    emulation.set()
    start()
    first, second = enumerate_gpus()
    with open_gpu(first) as one:
        one.stack.callback(call, "cuCtxSynchronize", driver.cuCtxSynchronize)
        with open_gpu(second):
            pass


@pytest.mark.parametrize(
    ("ordering", "options", "done"),
    [
        (0, 1, "flushed"),
        (0, 3, "flushed"),
        (0, 2, "by read"),
        (0, 0, "by read"),
        (100, 1, "not needed (writes ordering 100)"),
        (200, 0, "not needed (writes ordering 200)"),
        (None, 1, "flushed"),
        (None, None, "by read"),
    ],
)
def test_the_flush_follows_the_attributes(
    emulation: Emulation, ordering: int | None, options: int | None, done: str
) -> None:
    with emulation.opened(attributes={118: ordering, 117: options}) as gpu:
        assert flush_remote_writes(gpu) == done


def test_a_flush_that_is_refused_is_an_error(emulation: Emulation) -> None:
    with emulation.opened(attributes={118: 0}) as gpu:
        emulation.set(attributes={118: 0}, faults=["fail cuFlushGPUDirectRDMAWrites = 801"])
        with pytest.raises(CudaError, match="cuFlushGPUDirectRDMAWrites"):
            flush_remote_writes(gpu)


def test_a_status_from_a_newer_driver_keeps_its_number(emulation: Emulation) -> None:
    with emulation.opened() as gpu:
        emulation.set(faults=["fail cuMemAlloc = 9876"])
        with pytest.raises(CudaError, match="CUDA error 9876"), allocate(gpu, MIB):
            pass


def test_a_function_that_this_driver_lacks_is_named(emulation: Emulation) -> None:
    with (
        emulation.opened(),
        pytest.raises(CudaError, match="this NVIDIA driver has no cuProfilerStart") as caught,
    ):
        call("cuProfilerStart", driver.cuProfilerStart)
    assert caught.value.name == "CUDA_ERROR_NOT_SUPPORTED"


def test_exports_leak_neither_descriptors_nor_memory(emulation: Emulation) -> None:
    with emulation.opened() as gpu:
        free, descriptors = gpu.memory_info()[0], open_descriptors()
        for _ in range(50):
            with allocate(gpu, MIB) as buffer, export(buffer, 4096, 8192) as made:
                os.fstat(made.fd)
        gc.collect()
        # The emulated memory itself is a descriptor, made once and used again.
        assert len(open_descriptors()) <= len(descriptors) + 1
        assert gpu.memory_info()[0] == free
