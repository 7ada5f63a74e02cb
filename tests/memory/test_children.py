"""Exchanges between two endpoint children: real code at both ends, over emulated GPUs and a
simulated NIC."""

from __future__ import annotations

import ctypes

import pytest

from gdrcheck.registration import METHODS
from gdrcheck.transfer import (
    ATOMICS,
    MODES,
    OPERATIONS,
    Mode,
    Operation,
    RegionKey,
    Role,
    variants,
)
from gdrcheck.verbs import protocol
from tests.gpu_layer.emulation import SLOTS, Emulation
from tests.memory.children import (
    BUFFER_BYTES,
    Children,
    children,
    connected,
    gpu_of,
    renewed,
)
from tests.verbs import fake_pyverbs

GPU_SINKS: tuple[Mode, ...] = ("host-gpu", "gpu-gpu")
BOTH: tuple[Role, ...] = ("source", "sink")


def wrong_byte(address: int, length: int) -> None:
    """Spoils the last byte of a message of 4097 bytes."""
    if length == 4097:
        ctypes.c_uint8.from_address(address + length - 1).value ^= 1


# --- right data -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("operation", [*OPERATIONS, *ATOMICS])
def test_every_message_is_verified(pair: Children, operation: Operation, mode: Mode) -> None:
    source, sink = pair.exchange(operation, mode)
    assert source.completed, source
    assert sink.completed, sink
    ways = len(variants(mode, METHODS, METHODS))
    assert {size.iterations_verified for size in sink.sizes} == {2 * ways}
    assert source.sizes == sink.sizes
    # And what was moved went through the NIC.
    verb = "SEND" if operation.startswith("SEND") else operation
    moved = [size for name, size in fake_pyverbs.nic.transfers if name == verb]
    assert len(moved) == 2 * ways * len(sink.sizes)


def test_the_same_queue_pairs_serve_one_exchange_after_the_other(pair: Children) -> None:
    made = [one for one in fake_pyverbs.nic.alive if one in ("qp", "cq", "mr")]
    for mode in MODES:
        for operation in ("SEND", "WRITE", "READ"):
            assert pair.exchange(operation, mode)[1].completed  # type: ignore[arg-type]
    assert [one for one in fake_pyverbs.nic.alive if one in ("qp", "cq", "mr")] == made


def test_work_requests_are_built_once(pair: Children) -> None:
    pair.exchange("SEND", "gpu-gpu")
    before = fake_pyverbs.nic.alive.count("work request")
    assert pair.exchange("SEND", "gpu-gpu", run_tag=43)[1].completed
    assert fake_pyverbs.nic.alive.count("work request") == before


def test_each_memory_is_registered_each_way_and_regions_begin_inside_of_pages(
    own_emulation: Emulation,
) -> None:
    with children(own_emulation) as both:
        both.open(gpu=False)
        told, _ = both.ask(*(gpu_of(end) for end in range(2)))
        info, _ = both.ask(protocol.CreateQp(queue_pairs=3))
        lengths = {region.length for region in fake_pyverbs.nic.regions.values()}
    assert len(info.queue_pairs) == 3
    assert {region.key for region in info.regions} == {
        RegionKey(memory=memory, method=method, relaxed=relaxed)  # type: ignore[arg-type]
        for memory, method in (("host", "host"), ("gpu", "dmabuf"), ("gpu", "peermem"))
        for relaxed in (False, True)
    }
    assert all(region.length_bytes == BUFFER_BYTES for region in info.regions)
    assert lengths == {BUFFER_BYTES + 2 * 4096 - 2 * 57}
    assert [region.mapping for region in told.regions] == ["plain", "plain", "", ""]
    # A dma-buf is addressed by the offset in it, device memory by its pointer.
    assert [region.address < 1 << 20 for region in told.regions] == [True, True, False, False]
    assert told.flush == "not needed (writes ordering 100)"
    assert (told.slot, told.emulated, told.far_refused) == (SLOTS[0], True, "")


def test_host_memory_is_measured_without_cuda(own_emulation: Emulation) -> None:
    with connected(own_emulation, gpu=False) as both:
        source, sink = both.exchange("WRITE_WITH_IMM", "host-host")
        assert source.completed
        assert sink.completed
        with pytest.raises(protocol.WorkerFailure, match="has not registered GPU memory by dmabuf"):
            both.exchange("WRITE", "host-gpu")


@pytest.mark.parametrize("mode", GPU_SINKS)
def test_a_gpu_without_a_flush_is_read_back_through_the_nic(
    own_emulation: Emulation, mode: Mode
) -> None:
    with children(own_emulation) as both:
        own_emulation.set(attributes={117: 0, 118: 0})
        both.open(gpu=False)
        told = both.ask(*(gpu_of(end) for end in range(2)))
        both.connect()
        source, sink = both.exchange("SEND", mode)
        assert [one.flush for one in told] == ["by read", "by read"]
        assert sink.completed
        assert source.completed
        reads = [size for name, size in fake_pyverbs.nic.transfers if name == "READ"]
    # One for each message.
    assert reads == [1] * sum(size.iterations_verified for size in sink.sizes)


def test_messages_beyond_2_gib_need_more_memory_than_there_is(own_emulation: Emulation) -> None:
    with children(own_emulation) as both:
        both.open(gpu=False)
        # Once it would fit, but each registration may take as much of it again.
        told, _ = both.ask(*(gpu_of(end, far=True, bar1_bytes=4 << 30) for end in range(2)))
        assert told.payload_bytes == BUFFER_BYTES
        assert "BAR1 has 1 GiB" in told.far_refused
        assert "registered 4 times" in told.far_refused
        both.connect()
        with pytest.raises(protocol.WorkerFailure, match="do not fit into a payload"):
            both.exchange("WRITE", "gpu-gpu", far=True)


# --- wrong data -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_wrong_byte_is_found_by_gpu_and_cpu(
    pair: Children, operation: Operation, mode: Mode
) -> None:
    fake_pyverbs.nic.spoil = wrong_byte
    source, sink = pair.exchange(operation, mode)
    assert sink.mismatch is not None
    assert (sink.mismatch.first_bad_offset, sink.mismatch.bad_bytes) == (4096, 1)
    assert (sink.mismatch_size_bytes, sink.mismatch_iteration) == (4097, 0)
    assert sink.mismatch_variant == variants(mode, METHODS, METHODS)[0]
    assert sink.verdicts_differ is None
    assert sink.guard_broken is None
    assert source.stopped_by_peer
    assert source.source_changed is None
    assert sink.port_state == source.port_state == "ACTIVE"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_only_one_way_of_registering_may_be_wrong(pair: Children, operation: Operation) -> None:
    ways = variants("gpu-gpu", METHODS, METHODS)
    seen: list[int] = []

    def third_way(address: int, length: int) -> None:
        if length == 4097:
            seen.append(address)
            if len(seen) > 2 * 2:
                wrong_byte(address, length)

    fake_pyverbs.nic.spoil = third_way
    _, sink = pair.exchange(operation, ways)
    assert sink.mismatch_variant == ways[2]
    assert ways[2].sink.relaxed
    done = {size.size_bytes: size.iterations_verified for size in sink.sizes}
    assert done[4097] == 4


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("place", "where"), [(-1, "before"), (1, "behind")])
def test_a_byte_beside_the_message_is_found(
    pair: Children, mode: Mode, place: int, where: str
) -> None:
    def spill(address: int, length: int) -> None:
        at = address - 1 if place < 0 else address + length
        ctypes.c_uint8.from_address(at).value ^= 1

    fake_pyverbs.nic.spoil = spill
    source, sink = pair.exchange("WRITE", mode)
    assert sink.mismatch is None
    assert sink.guard_broken is not None
    assert f"of the 128 bytes {where} the message 1 changed" in sink.guard_broken
    assert source.stopped_by_peer


@pytest.mark.parametrize("mode", MODES)
def test_what_lands_in_a_guard_page_is_found_and_told_once(pair: Children, mode: Mode) -> None:
    def far_off(address: int, length: int) -> None:
        # Message 1 lies 256 bytes into the payload, before which the guard is.
        if length == 1:
            ctypes.c_uint8.from_address(address - 1000).value ^= 1

    fake_pyverbs.nic.spoil = far_off
    _, sink = pair.exchange("SEND", mode)
    assert sink.mismatch is None
    assert "guard before the payload" in (sink.guard_broken or "")
    fake_pyverbs.nic.spoil = None
    renewed(pair)
    assert pair.exchange("SEND", mode)[1].completed


@pytest.mark.parametrize("mode", GPU_SINKS)
def test_a_gpu_that_lies_is_a_disagreement(
    pair: Children, own_emulation: Emulation, mode: Mode
) -> None:
    own_emulation.set(faults=["verify_lies = 1"])
    fake_pyverbs.nic.spoil = wrong_byte
    _, sink = pair.exchange("SEND", mode)
    assert sink.verdicts_differ is not None
    assert "every byte right" in sink.verdicts_differ
    assert sink.mismatch is not None


@pytest.mark.parametrize("mode", ["gpu-host", "gpu-gpu"])
def test_a_source_whose_gpu_memory_changed_is_told_by_itself(
    pair: Children, own_emulation: Emulation, mode: Mode
) -> None:
    own_emulation.set(faults_of={0: ["corrupt source = 1 length 4097 times 1"]})
    source, sink = pair.exchange("WRITE", mode)
    assert sink.mismatch is not None
    assert source.source_changed is not None
    assert "the first at offset 4096" in source.source_changed


@pytest.mark.parametrize("mode", GPU_SINKS)
def test_memory_that_changes_under_the_sink_only_at_the_last_message_is_found(
    pair: Children, own_emulation: Emulation, mode: Mode
) -> None:
    ways = variants(mode, METHODS, METHODS)
    last = 2 * len(ways) - 1
    own_emulation.set(faults_of={1: [f"corrupt sink = 1 length 4097 after {last}"]})
    source, sink = pair.exchange("SEND_WITH_IMM", mode)
    assert sink.mismatch is not None
    assert sink.mismatch.first_bad_offset == 4096
    assert sink.mismatch_variant == ways[-1]
    assert sink.mismatch_iteration == 1
    assert sink.verdicts_differ is None
    assert source.source_changed is None
    assert source.stopped_by_peer
