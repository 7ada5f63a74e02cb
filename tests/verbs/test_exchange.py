"""The exchange over a simulated pair: all is verified, and every fault ends it with its name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdrcheck.pattern import Key, Pattern
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.exchange import START_OFFSETS, validate_plan
from gdrcheck.verbs.protocol import DEADLINE, OPERATIONS, Arm, Flip, Operation
from tests.verbs.simulated import PAYLOAD_BYTES, SimulatedLink, exchange, linked

SIZES = (1, 2, 7, 8, 63, 64, 65, 1023, 1024, 1025, 4097)
OTHER = {"source": "sink", "sink": "source"}


def plans(
    operation: Operation, *, sizes: tuple[int, ...] = SIZES, **changes: object
) -> tuple[Arm, Arm]:
    common = {
        "operation": operation,
        "sizes_bytes": sizes,
        "iterations": 3,
        "run_tag": 42,
        "direction": 1,
        **changes,
    }
    return (
        Arm.model_validate({**common, "role": "source"}),
        Arm.model_validate({**common, "role": "sink"}),
    )


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_message_is_verified_and_the_pair_can_be_used_again(operation: Operation) -> None:
    links = linked()
    for following in OPERATIONS:
        for name in (operation, following):
            source, sink = exchange(links, plans(name))
            assert sink.completed
            assert source.completed
            assert [(s.size_bytes, s.iterations_verified) for s in sink.sizes] == [
                (size, 3) for size in SIZES
            ]
            assert source.sizes == sink.sizes


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
    assert not source.completed
    assert source.stopped_by_peer
    assert source.mismatch is None


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("place", [-1, 0, 100])
def test_a_byte_beside_the_message_is_found(operation: Operation, place: int) -> None:
    def spoil(link: SimulatedLink, start: int, length: int) -> None:
        at = start + place if place < 0 else start + length + place
        if length == 64 and at >= 0:
            link.payload[at] ^= 0x10

    links = linked()
    links[1].tamper = spoil
    source, sink = exchange(links, plans(operation))
    assert not sink.completed
    assert sink.guard_broken is not None
    assert ("before" if place < 0 else "behind") in sink.guard_broken
    assert "size 64 B" in sink.guard_broken
    assert source.stopped_by_peer


@pytest.mark.parametrize("operation", OPERATIONS)
def test_damaged_guards_are_told(operation: Operation) -> None:
    links = linked()
    links[1].damage = "guard after the payload: 1 bytes changed"
    _, sink = exchange(links, plans(operation))
    assert not sink.completed
    assert sink.guard_broken == links[1].damage


@pytest.mark.parametrize("operation", OPERATIONS)
def test_data_that_never_arrives_looks_like_poison(operation: Operation) -> None:
    def lose(link: SimulatedLink, start: int, length: int) -> None:
        if length == 4097:
            stale = before[start : start + length]
            link.payload[start : start + length] = stale

    links = linked()
    sequence = 3 * SIZES.index(4097)
    before = links[1].payload.copy()
    Pattern(PAYLOAD_BYTES).poison(before, Key(42, sequence, 1, 77))
    links[1].tamper = lose
    _, sink = exchange(links, plans(operation))
    assert sink.mismatch is not None
    assert (sink.mismatch.looks_like, sink.mismatch.bad_bytes) == ("poison", 4097)


@pytest.mark.parametrize("operation", OPERATIONS)
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


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("end", [0, 1])
def test_a_completion_error_is_in_the_result(operation: Operation, end: int) -> None:
    links = linked()
    links[end].error_after = 4
    results = exchange(links, plans(operation), completion_s=0.05)
    error = results[end].completion_error
    assert not results[end].completed
    assert error is not None
    assert (error.status, error.vendor_error) == ("RETRY_EXC_ERR", 0x81)
    assert error.size_bytes == 1
    assert not results[1 - end].completed


@pytest.mark.parametrize(
    "change", [{"sizes": (1, 2)}, {"iterations": 4}, {"run_tag": 43}, {"direction": 0}]
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


def test_messages_start_at_all_offsets() -> None:
    assert set(START_OFFSETS) == {0, 1, 63}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sizes": (1, PAYLOAD_BYTES)}, str(PAYLOAD_BYTES)),
        ({"sizes": (0,)}, "0 to 0"),
        ({"flip": Flip(size_bytes=3, iteration=0, offset=0)}, "size_bytes=3"),
        ({"flip": Flip(size_bytes=64, iteration=3, offset=0)}, "iteration=3"),
        ({"flip": Flip(size_bytes=64, iteration=0, offset=64)}, "offset=64"),
    ],
)
def test_an_impossible_plan_is_refused(changes: dict[str, object], named: str) -> None:
    with pytest.raises(VerbsError, match=named):
        validate_plan(plans("SEND", **changes)[0], PAYLOAD_BYTES)  # type: ignore[arg-type]
