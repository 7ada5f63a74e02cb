"""Where messages lie and which plans can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.pattern import Key
from gdrcheck.transfer import (
    FAR_BYTES,
    MODES,
    Mode,
    Operation,
    RegionKey,
    Role,
    variants,
)
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.messages import (
    BESIDE_BYTES,
    message_count,
    messages,
    poison_word,
    stream_word,
    validate_plan,
)
from gdrcheck.verbs.protocol import MARGIN_BYTES, Arm, Flip
from tests.verbs.plans import ALL, HOST, plans

ROOM = 1 << 16
HOST_ROOM = {key: ROOM for way in HOST for key in (way.source, way.sink)}


@given(st.sampled_from(ALL), st.sampled_from(MODES), st.booleans(), st.integers(1, 9))
def test_every_message_fits_with_what_lies_beside_it(
    operation: Operation, mode: Mode, far: bool, iterations: int
) -> None:
    ways = variants(mode, ("dmabuf", "peermem"), ("dmabuf",))
    plan = plans(operation, iterations=iterations, variants=ways, far=far)[0]
    all_of_them = list(messages(plan))
    assert len(all_of_them) == message_count(plan)
    assert [message.sequence for message in all_of_them] == list(range(len(all_of_them)))
    for message in all_of_them:
        for key, offset in (
            (message.variant.source, message.source_offset),
            (message.variant.sink, message.sink_offset),
        ):
            beyond = FAR_BYTES if far and key.memory == "gpu" else 0
            assert offset - beyond >= BESIDE_BYTES
            assert offset - beyond + message.size_bytes + BESIDE_BYTES <= (
                message.size_bytes + MARGIN_BYTES
            )
            if operation in ("FETCH_ADD", "CMP_SWAP"):
                assert offset % 8 == 0
        # The CPU's table of the stream is no longer than a payload.
        assert BESIDE_BYTES <= message.start < MARGIN_BYTES


def test_each_size_is_moved_aligned_and_not_and_never_between_the_same_places_only() -> None:
    plan = plans("SEND")[0]
    places: dict[int, set[tuple[int, int]]] = {}
    for message in messages(plan):
        places.setdefault(message.size_bytes, set()).add(
            (message.source_offset % 64, message.sink_offset % 64)
        )
    assert all(there == {(0, 0), (1, 63), (63, 1)} for there in places.values())


@given(st.integers(0, (1 << 64) - 1), st.integers(0, 1000))
def test_the_words_of_an_atomic_operation_add_up(run_tag: int, start: int) -> None:
    key = Key(run_tag, 1, 0, 2)
    assert stream_word(key, start) ^ poison_word(key, start) == (1 << 64) - 1
    there = key.stream.piece(start, 8).tobytes()
    assert stream_word(key, start).to_bytes(8, "little") == there


@pytest.mark.parametrize(
    ("operation", "changes", "named"),
    [
        ("SEND", {"sizes": (1, ROOM)}, f"{ROOM} bytes of this end"),
        ("SEND", {"sizes": (0,)}, "0 to 0"),
        ("SEND", {"flip": Flip(size_bytes=3, iteration=0, offset=0)}, "size_bytes=3"),
        ("SEND", {"flip": Flip(size_bytes=64, iteration=3, offset=0)}, "iteration=3"),
        ("SEND", {"flip": Flip(size_bytes=64, iteration=0, offset=64)}, "offset=64"),
        ("FETCH_ADD", {"sizes": (8, 16)}, "FETCH_ADD moves 8 bytes"),
        ("CMP_SWAP", {"sizes": (4,)}, "CMP_SWAP moves 8 bytes"),
        ("SEND", {"variants": variants("host-gpu", (), ("dmabuf",))}, "the other end has not"),
        ("SEND", {"variants": variants("gpu-host", ("peermem",), ())}, "this end has not"),
    ],
)
def test_an_impossible_plan_is_refused(
    operation: Operation, changes: dict[str, object], named: str
) -> None:
    plan = plans(operation, **changes)[0]  # type: ignore[arg-type]
    with pytest.raises(VerbsError, match=named):
        validate_plan(plan, HOST_ROOM, HOST_ROOM)


@pytest.mark.parametrize("role", ["source", "sink"])
def test_a_payload_of_the_other_end_that_is_too_small_is_named(role: Role) -> None:
    plan = plans("WRITE")[0 if role == "source" else 1]
    with pytest.raises(VerbsError, match="payload of 8000 bytes of the other end: 1 to 3904 do"):
        validate_plan(plan, HOST_ROOM, dict.fromkeys(HOST_ROOM, 8000))


def test_a_far_message_needs_gpu_memory_that_reaches_so_far() -> None:
    ways = variants("gpu-gpu", ("dmabuf",), ("dmabuf",))
    plan = plans("WRITE", variants=ways, far=True)[0]
    keys = [RegionKey(memory="gpu", method="dmabuf", relaxed=relaxed) for relaxed in (False, True)]
    validate_plan(
        plan, dict.fromkeys(keys, FAR_BYTES + ROOM), dict.fromkeys(keys, FAR_BYTES + ROOM)
    )
    with pytest.raises(VerbsError, match="do not fit"):
        validate_plan(plan, dict.fromkeys(keys, FAR_BYTES), dict.fromkeys(keys, FAR_BYTES + ROOM))
    near: Arm = plan.model_copy(update={"far": False})
    validate_plan(near, dict.fromkeys(keys, ROOM), dict.fromkeys(keys, ROOM))
