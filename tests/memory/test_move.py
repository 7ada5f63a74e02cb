"""Data between emulated GPU memory and host memory through a simulated NIC's loop-back."""

from __future__ import annotations

import ctypes

import pytest

from gdrcheck.registration import METHODS, WAYS, Method, Movement
from tests.gpu_layer.bodies import open_descriptors
from tests.memory.conftest import World


def move(
    world: World, method: Method = "dmabuf", *, completion_s: float = 5, fault: str = ""
) -> Movement:
    """The result, after which neither the GPU nor the NIC holds anything."""
    device, gid = world.load("verbs.device"), world.load("verbs.gid")
    path = world.load("verbs.queue_pair").Path(
        port=device.PortInfo(1, "ACTIVE", "LinkUp", "ethernet", 0, 0, 4096),
        gid=gid.GidChoice(1, "::ffff:192.0.2.1", "RoCE v2", "eth1"),
        pkey_index=0,
        traffic_class=0,
        service_level=0,
        promised_mtu=None,
        completion_s=completion_s,
    )
    # Loads the kernels, which stay as long as the context.
    world.load("memory.ends").engine_of(world.gpu)
    free_before, _ = world.gpu.memory_info()
    if fault:
        world.emulation.set(faults=[fault])
    files = open_descriptors()
    result: Movement = world.load("memory.move").move(world.gpu, world.device, path, method)
    assert open_descriptors() == files
    if "dereg_mr" not in world.nic.refuses:
        assert world.nic.alive == world.at_rest
    world.emulation.set()
    assert world.gpu.memory_info()[0] == free_before
    return result


@pytest.mark.parametrize("method", METHODS)
def test_every_way_moves_by_write_and_by_read_and_every_byte_is_right(
    world: World, method: Method
) -> None:
    result = move(world, method)
    assert result.refusal is None
    assert (result.way, result.operation, result.status) == (None, None, None)
    assert result.flag == ("plain" if method == "dmabuf" else None)
    assert all(moved.right for moved in result.moved)
    done = [(moved.way, moved.operation) for moved in result.moved]
    assert set(done) == {(way, operation) for way in WAYS for operation in ("WRITE", "READ")}
    lengths = {moved.length_bytes for moved in result.moved}
    assert {1, 8, 63, 4096, 65537, (1 << 20) + 13} == lengths
    assert len(result.moved) == len(world.nic.transfers) == 36
    for moved in result.moved:
        assert moved.sink_is_gpu is (moved.way != "gpu to host")
        flushed = "not needed (writes ordering 100)" if moved.sink_is_gpu else None
        assert moved.flushed == (flushed or "not needed (host memory)")


def test_the_queue_pairs_go_first_then_regions_descriptors_and_memory(world: World) -> None:
    move(world)
    order = [
        step for step in world.steps if step.startswith(("ibv_destroy", "ibv_dereg", "cuMemFree"))
    ]
    assert [step.split()[0] for step in order] == [
        "ibv_destroy_qp",
        "ibv_destroy_qp",
        "ibv_destroy_cq",
        "ibv_destroy_comp_channel",
        *["ibv_dereg_mr"] * 4,
        "cuMemFree",
    ]


def test_a_flush_by_read_reads_a_byte_of_the_sink_through_the_nic(world: World) -> None:
    with world.emulation.opened(attributes={117: 0, 118: 0}) as gpu:
        world.gpu = gpu
        world.emulation.set(attributes={117: 0, 118: 0})
        result = move(world)
    assert {moved.flushed for moved in result.moved if moved.sink_is_gpu} == {"by read"}
    reads = [transfer for transfer in world.nic.transfers if transfer == ("READ", 1)]
    # The shape of one byte by READ, three ways; and one for each transfer to the GPU.
    assert len(reads) == 3 + 24
    assert all(moved.right for moved in result.moved)


def spoiled(result: Movement) -> set[str]:
    return {moved.way for moved in result.moved if moved.by_cpu is not None}


def test_one_wrong_byte_is_found_by_both_verifiers_and_does_not_end_it(world: World) -> None:
    def flip_last(sink: int, source: int, length: int) -> None:
        ctypes.memmove(sink, source, length)
        ctypes.c_uint8.from_address(sink + length - 1).value ^= 1

    world.nic.copy = flip_last
    result = move(world)
    assert result.refusal is None
    assert len(result.moved) == 36
    for moved in result.moved:
        assert moved.by_cpu is not None
        assert moved.by_cpu.bad_bytes == 1
        assert moved.by_cpu.first_bad_offset == moved.length_bytes - 1
        assert moved.by_gpu == (moved.by_cpu if moved.sink_is_gpu else None)
        assert not moved.right
        assert not moved.disagree


def test_a_transfer_that_did_nothing_is_seen_as_poison(world: World) -> None:
    world.nic.copy = lambda _sink, _source, _length: None
    result = move(world)
    for moved in result.moved:
        assert moved.by_cpu is not None
        assert moved.by_cpu.looks_like == "poison"
        assert moved.by_cpu.bad_bytes == moved.length_bytes


def test_a_byte_beside_the_message_is_seen(world: World) -> None:
    def one_too_many(sink: int, source: int, length: int) -> None:
        ctypes.memmove(sink, source, length)
        ctypes.c_uint8.from_address(sink + length).value ^= 1

    world.nic.copy = one_too_many
    result = move(world)
    for moved in result.moved:
        assert moved.by_cpu is None
        assert moved.spilled is not None
        assert "after the message" in moved.spilled
        assert "1 changed" in moved.spilled
        assert not moved.right


def test_an_offset_that_is_ignored_is_seen_in_the_neighbour(world: World) -> None:
    """The known bug: data goes to the beginning of the dma-buf, where others' memory is."""
    shift_bytes = 12_345 % 4096

    def to_the_page(sink: int, source: int, length: int) -> None:
        ctypes.memmove(sink - shift_bytes, source, length)

    world.nic.copy = to_the_page
    result = move(world)
    by_way = {(moved.way, moved.length_bytes): moved for moved in result.moved}
    small = by_way["gpu to gpu", 8]
    assert small.by_cpu is not None
    assert small.by_cpu.looks_like == "poison"
    assert small.spilled is not None
    assert not any(moved.right for moved in result.moved)


def test_a_read_of_the_wrong_place_looks_like_the_neighbour(world: World) -> None:
    def beside(sink: int, source: int, length: int) -> None:
        ctypes.memmove(sink, source - 10_000, length)

    world.nic.copy = beside
    result = move(world)
    page = [moved for moved in result.moved if moved.length_bytes == 4096]
    assert {moved.by_cpu.looks_like for moved in page if moved.by_cpu} == {"neighbour"}
    # A single byte can be right by chance.
    assert not any(moved.right for moved in result.moved if moved.length_bytes > 1)


def test_a_lying_gpu_is_a_disagreement(world: World) -> None:
    world.nic.copy = lambda _sink, _source, _length: None
    result = move(world, fault="verify_lies = 1")
    assert {moved.way for moved in result.moved if moved.disagree} == {"gpu to gpu", "host to gpu"}


def test_a_completion_with_an_error_ends_it_and_is_named(world: World) -> None:
    world.nic.status, world.nic.vendor_error = 4, 0x51
    result = move(world)
    assert result.moved == ()
    assert (result.way, result.operation) == ("gpu to gpu", "WRITE")
    assert (result.status, result.vendor_error) == ("LOC_PROT_ERR", 0x51)
    assert result.refusal is not None
    assert result.refusal.stage == "move"
    assert result.refusal.length_bytes == 1


def test_a_completion_that_never_comes_ends_it_at_the_deadline(world: World) -> None:
    world.nic.status = None
    result = move(world, completion_s=0.05)
    assert result.status == "DEADLINE"
    assert result.refusal is not None
    assert "not completed within 0.05 s" in result.refusal.text


@pytest.mark.parametrize(
    ("call", "stage"), [("to_rtr", "connect"), ("create_qp", "connect"), ("post_send", "move")]
)
def test_a_refused_call_is_told_with_its_errno(world: World, call: str, stage: str) -> None:
    world.nic.refuses[call] = 22
    result = move(world)
    assert result.refusal is not None
    assert (result.refusal.stage, result.refusal.errno) == (stage, 22)
    assert result.moved == ()


def test_regions_that_cannot_be_deregistered_do_not_hide_why_it_ended(world: World) -> None:
    world.nic.status, world.nic.refuses["dereg_mr"] = 10, 16
    result = move(world)
    assert result.refusal is not None
    assert result.refusal.stage == "move"
    assert result.status == "REM_ACCESS_ERR"
    assert result.refusal.text.count("while undoing it: ibv_dereg_mr on sim0: EBUSY") == 4
    world.nic.refuses.clear()


@pytest.mark.parametrize(
    ("fault", "stage", "name"),
    [
        ("fail cuMemAlloc = 2", "allocate", "CUDA_ERROR_OUT_OF_MEMORY"),
        ("fail cuMemGetHandleForAddressRange = 801", "export", "CUDA_ERROR_NOT_SUPPORTED"),
        ("fail cuLaunchKernel = 719", "move", "CUDA_ERROR_LAUNCH_FAILED"),
        ("managed = 1", "prove", None),
    ],
)
def test_a_refusal_of_the_gpu_has_the_name_of_its_error(
    world: World, fault: str, stage: str, name: str | None
) -> None:
    result = move(world, fault=fault)
    assert result.refusal is not None
    assert (result.refusal.stage, result.refusal.cuda) == (stage, name)
    assert result.moved == ()
