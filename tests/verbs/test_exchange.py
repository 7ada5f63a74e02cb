"""The exchange over a simulated pair: all is verified, and every fault ends it with its name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdrcheck.pattern import Key, Pattern
from gdrcheck.transfer import ATOMICS, OPERATIONS, Operation
from gdrcheck.verbs.messages import FIRST_OFFSET
from gdrcheck.verbs.protocol import DEADLINE, Flip
from tests.verbs.plans import ALL, HOST, SIZES, plans, sizes_of
from tests.verbs.simulated import PAYLOAD_BYTES, SimulatedLink, exchange, linked


@pytest.mark.parametrize("operation", ALL)
def test_every_message_is_verified_and_the_pair_can_be_used_again(operation: Operation) -> None:
    links = linked()
    for name in (operation, *(other for other in ALL if other != operation), operation):
        source, sink = exchange(links, plans(name, iterations=1))
        assert sink.completed
        assert source.completed
        assert [(s.size_bytes, s.iterations_verified) for s in sink.sizes] == [
            (size, len(HOST)) for size in sizes_of(name)
        ]
        assert source.sizes == sink.sizes
        assert sink.mismatch_variant is None


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(OPERATIONS), st.data())
def test_a_byte_that_the_source_flips_is_found(operation: Operation, data: st.DataObject) -> None:
    size = data.draw(st.sampled_from(SIZES))
    iteration = data.draw(st.integers(0, 2))
    offset = data.draw(st.integers(0, size - 1))
    flip = Flip(size_bytes=size, iteration=iteration, offset=offset)
    source, sink = exchange(linked(), plans(operation, flip=flip))
    assert not sink.completed
    assert sink.mismatch is not None
    assert (sink.mismatch.first_bad_offset, sink.mismatch.bad_bytes) == (offset, 1)
    assert (sink.mismatch_size_bytes, sink.mismatch_iteration) == (size, iteration)
    assert sink.mismatch_variant == HOST[0]
    assert sink.verdicts_differ is None
    assert not source.completed
    assert source.stopped_by_peer
    assert source.mismatch is None
    # It stands for a byte that was spoiled on the way.
    assert source.source_changed is None


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_source_whose_own_memory_changed_says_so(operation: Operation) -> None:
    links = linked()
    memory = links[0].memory
    fill = memory.fill

    def spoiled(key: Key, offset: int, length: int, start: int) -> None:
        fill(key, offset, length, start)
        if length == 1024:
            memory.flip(offset + 1000)

    memory.fill = spoiled  # type: ignore[method-assign]
    source, sink = exchange(links, plans(operation))
    assert sink.mismatch is not None
    assert sink.mismatch.first_bad_offset == 1000
    assert source.source_changed is not None
    assert "1 bytes wrong, the first at offset 1000" in source.source_changed
    assert "(size 1024 B, iteration 0)" in source.source_changed


@pytest.mark.parametrize("operation", ALL)
@pytest.mark.parametrize("place", [-127, -1, 0, 100])
def test_a_byte_beside_the_message_is_found(operation: Operation, place: int) -> None:
    wanted = sizes_of(operation)[-1]

    def spoil(link: SimulatedLink, start: int, length: int) -> None:
        if length == wanted:
            link.memory.flip(start + place if place < 0 else start + length + place)

    links = linked()
    links[1].tamper = spoil
    source, sink = exchange(links, plans(operation))
    assert not sink.completed
    assert sink.guard_broken is not None
    assert ("before" if place < 0 else "behind") in sink.guard_broken
    assert f"size {wanted} B" in sink.guard_broken
    assert sink.mismatch is None
    assert source.stopped_by_peer


@pytest.mark.parametrize("operation", ALL)
def test_damaged_guards_are_told_once(operation: Operation) -> None:
    links = linked()

    def spoil(link: SimulatedLink, _start: int, _length: int) -> None:
        link.tamper = None
        guard = link.memory._buffer._all
        guard[len(guard) - 1] ^= 1

    links[1].tamper = spoil
    source, sink = exchange(links, plans(operation))
    assert not sink.completed
    assert sink.guard_broken is not None
    assert "guard after the payload: 1 bytes changed" in sink.guard_broken
    assert source.stopped_by_peer
    fresh = linked()
    fresh[1].memory = links[1].memory
    assert exchange(fresh, plans(operation))[1].completed


@pytest.mark.parametrize("operation", OPERATIONS)
def test_data_that_never_arrives_looks_like_poison(operation: Operation) -> None:
    def lose(link: SimulatedLink, start: int, length: int) -> None:
        if length == 4097:
            stale = before[FIRST_OFFSET : FIRST_OFFSET + length]
            link.memory.view[start : start + length] = stale

    links = linked()
    sequence = 3 * SIZES.index(4097)
    # That message begins at this place of the stream.
    source_shift = (0, 1, 63)[SIZES.index(4097) % 3]
    before = links[1].memory.view.copy()
    message = before[FIRST_OFFSET : FIRST_OFFSET + 4097]
    Pattern(PAYLOAD_BYTES).poison(message, Key(42, sequence, 1, 77), FIRST_OFFSET + source_shift)
    links[1].tamper = lose
    _, sink = exchange(links, plans(operation))
    assert sink.mismatch is not None
    assert (sink.mismatch.looks_like, sink.mismatch.bad_bytes) == ("poison", 4097)


@pytest.mark.parametrize("operation", ATOMICS)
def test_a_wrong_fetched_value_is_the_sources_to_tell(operation: Operation) -> None:
    links = linked()
    links[0].misread = 1
    source, sink = exchange(links, plans(operation))
    assert not source.completed
    assert source.completion_error is not None
    assert source.completion_error.status == "PROTOCOL"
    assert source.completion_error.operation == "fetched value"
    assert sink.mismatch is None
    assert not sink.completed
    assert sink.stopped_by_peer


@pytest.mark.parametrize("operation", ATOMICS)
def test_an_atomic_operation_that_did_nothing_is_found_by_the_sink(operation: Operation) -> None:
    def undo(link: SimulatedLink, start: int, length: int) -> None:
        link.memory.view[start : start + length] ^= 0xFF

    links = linked()
    links[1].tamper = undo
    _, sink = exchange(links, plans(operation))
    assert sink.mismatch is not None
    assert (sink.mismatch.looks_like, sink.mismatch.bad_bytes) == ("poison", 8)


@pytest.mark.parametrize("operation", ALL)
@pytest.mark.parametrize("dead", [0, 1])
@pytest.mark.parametrize("after", [0, 1, 5])
def test_silence_ends_at_the_deadline(operation: Operation, dead: int, after: int) -> None:
    links = linked()
    links[dead].dead_after = after
    results = exchange(links, plans(operation), completion_s=0.05)
    assert not any(result.completed for result in results)
    errors = [result.completion_error for result in results]
    assert any(error is not None and error.status == DEADLINE for error in errors)
    assert all(error is None or error.status == DEADLINE for error in errors)


@pytest.mark.parametrize("operation", ALL)
@pytest.mark.parametrize("end", [0, 1])
def test_a_completion_error_is_in_the_result(operation: Operation, end: int) -> None:
    links = linked()
    links[end].error_after = 4
    results = exchange(links, plans(operation), completion_s=0.05)
    error = results[end].completion_error
    assert not results[end].completed
    assert error is not None
    assert (error.status, error.vendor_error) == ("RETRY_EXC_ERR", 0x81)
    assert error.size_bytes == sizes_of(operation)[0]
    assert results[end].mismatch_variant == HOST[0]
    assert not results[1 - end].completed


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": (1, 2)},
        {"iterations": 4},
        {"run_tag": 43},
        {"direction": 0},
        {"variants": HOST[::-1]},
        {"far": True},
    ],
)
def test_ends_with_different_plans_refuse_each_other(change: dict[str, object]) -> None:
    source = plans("SEND")[0]
    sink = plans("SEND", **change)[1]  # type: ignore[arg-type]
    for result in exchange(linked(), (source, sink), completion_s=0.5):
        assert not result.completed
        assert result.completion_error is not None
        assert result.completion_error.status == "PROTOCOL"


def test_two_sources_refuse_each_other() -> None:
    source, _ = plans("SEND")
    for result in exchange(linked(), (source, source), completion_s=0.5):
        assert not result.completed
