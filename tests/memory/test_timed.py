"""Latency, bandwidth and the staged comparison between two endpoint children."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gdrcheck.transfer import MODES, Mode, Variant, variants
from gdrcheck.verbs import protocol
from gdrcheck.verbs.protocol import ExchangeResult, Staged, StagedResult, Timed, TimedResult
from tests.gpu_layer.emulation import Emulation
from tests.memory.children import ROLES, Children, children
from tests.verbs import fake_pyverbs

SIZE = 9001
NUMBERS = ("median_us", "p99_us", "min_us", "max_us", "gbps")


@pytest.fixture
def pair(own_emulation: Emulation) -> Iterator[Children]:
    """Two connected ends with four queue pairs."""
    with children(own_emulation) as both:
        both.open(completion_s=5)
        both.connect(4)
        yield both


def way(mode: Mode, number: int = 0) -> Variant:
    return variants(mode, ("dmabuf", "peermem"), ("peermem", "dmabuf"))[number]


def timed(pair: Children, kind: str, mode: Mode, **more: Any) -> tuple[TimedResult, TimedResult]:
    fields = {
        "kind": kind,
        "variant": way(mode),
        "size_bytes": SIZE,
        "iterations": 300,
        "depth": 8,
        **more,
    }
    return pair.ask(*(Timed.model_validate({**fields, "role": role}) for role in ROLES))


def staged(pair: Children, **more: Any) -> tuple[StagedResult, StagedResult]:
    fields = {
        "variant": way("gpu-gpu"),
        "size_bytes": SIZE,
        "iterations": 3,
        "run_tag": 5,
        **more,
    }
    return pair.ask(*(Staged.model_validate({**fields, "role": role}) for role in ROLES))


def numbers(result: TimedResult) -> set[str]:
    return {name for name in NUMBERS if getattr(result, name) is not None}


def both_completed(*ends: TimedResult | StagedResult | ExchangeResult) -> bool:
    return [end.completed for end in ends] == [True, True]


def spoil_when(number: int, byte: int = 0) -> None:
    """Spoil a byte of the message with this number, counted from 1 among those of its size."""
    left = [number]

    def spoil(address: int, length: int) -> None:
        if length == SIZE:
            left[0] -= 1
            if left[0] == 0:
                ctypes.c_uint8.from_address(address + byte).value ^= 0x80

    fake_pyverbs.nic.spoil = spoil


@pytest.mark.parametrize("mode", MODES)
def test_latency_has_its_quantiles_at_the_source(pair: Children, mode: Mode) -> None:
    source, sink = timed(pair, "latency", mode)
    assert both_completed(source, sink)
    assert numbers(source) == {"median_us", "p99_us", "min_us", "max_us"}
    assert source.min_us
    assert source.median_us
    assert source.p99_us
    assert source.max_us
    assert 0 < source.min_us <= source.median_us <= source.p99_us <= source.max_us
    assert numbers(sink) == set()
    there_and_back = 2 * (source.iterations)
    assert fake_pyverbs.nic.transfers.count(("SEND", SIZE)) == there_and_back


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("queue_pairs", [1, 4])
def test_bandwidth_is_the_sources(pair: Children, mode: Mode, queue_pairs: int) -> None:
    source, sink = timed(pair, "bandwidth", mode, queue_pairs=queue_pairs)
    assert both_completed(source, sink)
    assert numbers(source) == {"gbps"}
    assert numbers(sink) == set()
    assert 300 <= source.iterations == sink.iterations
    assert fake_pyverbs.nic.transfers.count(("WRITE", SIZE)) == source.iterations


def test_relaxed_ordering_uses_its_own_regions(pair: Children) -> None:
    source, sink = timed(pair, "bandwidth", "gpu-gpu", variant=way("gpu-gpu", 2))
    assert way("gpu-gpu", 2).sink.relaxed
    assert both_completed(source, sink)


def test_both_ways_each_end_has_a_number(pair: Children) -> None:
    source, sink = timed(pair, "bandwidth", "host-gpu", both_ways=True, queue_pairs=2)
    assert both_completed(source, sink)
    assert numbers(source) == numbers(sink) == {"gbps"}
    sent = source.iterations + sink.iterations
    assert fake_pyverbs.nic.transfers.count(("WRITE", SIZE)) == sent


def test_seconds_are_the_least_as_well(pair: Children) -> None:
    source, _ = timed(pair, "bandwidth", "host-host", iterations=1, seconds=0.3)
    assert source.completed
    assert source.duration_s >= 0.3
    assert source.iterations > 1


def test_fewer_messages_than_slots_are_all_verified(pair: Children) -> None:
    source, sink = timed(pair, "bandwidth", "gpu-gpu", iterations=1, depth=1)
    assert both_completed(source, sink)
    assert source.iterations == sink.iterations == 1


def test_the_queue_pairs_go_on_afterwards(pair: Children) -> None:
    """Every queue pair is at rest again: also for an exchange."""
    for _ in range(3):
        assert both_completed(*timed(pair, "latency", "gpu-host"))
        assert both_completed(*timed(pair, "bandwidth", "gpu-gpu", both_ways=True, queue_pairs=4))
        assert both_completed(*staged(pair))
    source, sink = pair.exchange("WRITE_WITH_IMM", "gpu-gpu")
    assert both_completed(source, sink)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["latency", "bandwidth"])
def test_a_wrong_byte_of_the_last_message_is_no_number(
    pair: Children, kind: str, mode: Mode
) -> None:
    # Of a ping-pong the source's last message is the last but one; the sink judges that.
    spoil_when(2 * 400 - 1 if kind == "latency" else 300, byte=SIZE - 1)
    source, sink = timed(pair, kind, mode, iterations=300, depth=4)
    assert sink.mismatch is not None
    assert (sink.completed, sink.mismatch.bad_bytes) == (False, 1)
    assert sink.mismatch.first_bad_offset % SIZE == SIZE - 1
    assert numbers(sink) == set()
    if kind == "bandwidth":
        assert (source.completed, numbers(source)) == (False, set())


def test_both_ways_what_is_wrong_is_named_where_it_arrived(pair: Children) -> None:
    senders = list[int]()

    def spoil(address: int, length: int) -> None:
        senders.append(threading.get_ident())
        # All that the end sends that was the first to send.
        if length == SIZE and senders[-1] == senders[0]:
            ctypes.c_uint8.from_address(address).value ^= 0x80

    fake_pyverbs.nic.spoil = spoil
    source, sink = timed(pair, "bandwidth", "gpu-gpu", both_ways=True)
    wrong = [end for end in (source, sink) if end.mismatch is not None]
    assert len(wrong) == 1
    assert not source.completed
    assert not sink.completed
    assert numbers(source) == numbers(sink) == set()


def test_a_write_beside_the_messages_is_seen(pair: Children) -> None:
    def spoil(address: int, length: int) -> None:
        if length == SIZE:
            ctypes.c_uint8.from_address(address - 1).value ^= 0x80

    fake_pyverbs.nic.spoil = spoil
    source, sink = timed(pair, "bandwidth", "gpu-gpu", iterations=1, depth=1)
    assert sink.mismatch is None
    assert sink.guard_broken
    assert "before the message" in sink.guard_broken
    assert not source.completed
    assert not sink.completed


def test_a_failed_completion_ends_it_with_its_status(pair: Children) -> None:
    # IBV_WC_RETRY_EXC_ERR
    fake_pyverbs.nic.status, fake_pyverbs.nic.vendor_error = 12, 0x81
    source, sink = timed(pair, "bandwidth", "host-host")
    for end in (source, sink):
        assert end.completion_error is not None
        assert not end.completed
        assert (end.completion_error.status, end.completion_error.vendor_error) == (
            "RETRY_EXC_ERR",
            0x81,
        )
    with pytest.raises(protocol.WorkerFailure, match="used up"):
        timed(pair, "bandwidth", "host-host")


def test_silence_ends_it_at_the_deadline(own_emulation: Emulation) -> None:
    with children(own_emulation) as both:
        both.open(gpu=False, completion_s=0.2)
        both.connect(1)
        fake_pyverbs.nic.status = None
        for end in timed(both, "latency", "host-host"):
            assert end.completion_error is not None
            assert end.completion_error.status == "DEADLINE"


def test_ends_that_were_told_otherwise_do_not_measure(pair: Children) -> None:
    fields = {"kind": "bandwidth", "variant": way("host-host"), "iterations": 5}
    source, sink = pair.ask(
        Timed.model_validate({**fields, "role": "source", "size_bytes": 64}),
        Timed.model_validate({**fields, "role": "sink", "size_bytes": 65}),
    )
    for end in (source, sink):
        assert end.completion_error is not None
        assert end.completion_error.status == "PROTOCOL"
    assert fake_pyverbs.nic.transfers == []


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"kind": "latency", "size_bytes": 1 << 16}, "latency of 65536 B needs a payload of"),
        ({"kind": "bandwidth", "size_bytes": 1 << 17}, "131072 B does not fit into"),
        ({"kind": "bandwidth", "queue_pairs": 5}, "5 queue pairs are asked for, there are 4"),
    ],
)
def test_what_cannot_be_is_refused_and_costs_nothing(
    pair: Children, changes: dict[str, Any], complaint: str
) -> None:
    kind = changes.pop("kind")
    with pytest.raises(protocol.WorkerFailure, match=complaint):
        timed(pair, kind, "host-host", **changes)
    assert both_completed(*timed(pair, "bandwidth", "host-host"))


def test_a_missing_region_is_named(own_emulation: Emulation) -> None:
    with children(own_emulation) as both:
        both.open(methods=("peermem",))
        both.connect(1)
        with pytest.raises(protocol.WorkerFailure, match="has not registered GPU memory by dmabuf"):
            timed(both, "bandwidth", "gpu-gpu")
        with pytest.raises(protocol.WorkerFailure, match="has not registered GPU memory by dmabuf"):
            staged(both)


def test_staged_and_direct_are_both_verified_and_timed(pair: Children) -> None:
    source, sink = staged(pair)
    assert both_completed(source, sink)
    assert source.staged
    assert source.direct
    assert source.staged.copy_us > 0
    assert source.staged.median_us > source.staged.copy_us
    assert source.direct.copy_us == 0
    assert source.direct.gbps > 0
    assert sink.staged is None
    assert sink.direct is None
    # Four of each way, the first not counted.
    assert fake_pyverbs.nic.transfers.count(("WRITE_WITH_IMM", SIZE)) == 8


def test_staged_says_what_the_nic_was_given(pair: Children) -> None:
    source, sink = staged(pair)
    for end, direct in ((source, "offset 8192 of the dma-buf"), (sink, "device pointer 0x")):
        assert end.staged_address.startswith("host address 0x")
        assert end.direct_address.startswith(direct)
    assert source.direct
    assert source.direct.address == source.direct_address


@pytest.mark.parametrize(("number", "named"), [(7, "staged"), (8, "direct")])
def test_a_wrong_byte_names_the_way(pair: Children, number: int, named: str) -> None:
    spoil_when(number, byte=SIZE - 1)
    source, sink = staged(pair)
    assert sink.mismatch is not None
    assert (sink.wrong_way, sink.mismatch.first_bad_offset) == (named, SIZE - 1)
    for end in (source, sink):
        assert not end.completed
        assert end.staged is None
        assert end.direct is None


def test_staged_is_of_gpu_memory_only(pair: Children) -> None:
    with pytest.raises(protocol.WorkerFailure, match="only GPU memory"):
        staged(pair, variant=way("host-gpu"))
