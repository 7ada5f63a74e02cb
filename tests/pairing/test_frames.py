"""The wire format: what goes in comes out, and nothing else does."""

from __future__ import annotations

import hmac
import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.facts import DEVICE_NAME_PATTERN
from gdrcheck.pairing import hand_messages, job_messages, messages, session_messages, tools
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.frames import (
    BODIES,
    LENGTH,
    MAX_TEXT_BYTES,
    ConnectionLost,
    FrameError,
    FrameSocket,
    pack,
    unpack,
)
from gdrcheck.pairing.messages import Alive, Failure, ListPart, NodeState, RailInfo, Ready
from gdrcheck.pairing.session_messages import Arm, EndpointMade, Timed
from gdrcheck.registration import METHODS
from gdrcheck.transfer import ATOMICS, MODES, OPERATIONS, RegionKey, variants
from gdrcheck.verbs import protocol

KEY = b"k" * 32

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
names = st.from_regex(DEVICE_NAME_PATTERN, fullmatch=True)
rails = st.builds(
    RailInfo,
    id=st.integers(0, 63),
    gpu=st.none() | names,
    nic=names,
    blocked_by=st.none() | texts,
    methods=st.lists(st.sampled_from(METHODS), max_size=2, unique=True).map(tuple),
)
ways = st.sampled_from([way for mode in MODES for way in variants(mode, METHODS, METHODS)])
bodies = st.one_of(
    st.builds(Alive),
    st.builds(Ready, rails=st.lists(rails, max_size=4).map(tuple)),
    st.builds(Failure, step=texts, text=texts, error=st.none()),
    st.builds(
        ListPart,
        leader=st.just("node1"),
        nodes=st.dictionaries(
            st.sampled_from(["node1", "node2"]), st.builds(NodeState, state=st.just("ready"))
        ),
        last=st.booleans(),
    ),
    st.builds(
        Arm,
        rail=st.integers(0, 63),
        number=st.integers(0, 2**53 - 1),
        operation=st.sampled_from([*OPERATIONS, *ATOMICS]),
        role=st.sampled_from(["source", "sink"]),
        variants=st.lists(ways, min_size=1, max_size=16).map(tuple),
        sizes_bytes=st.lists(st.integers(1, 1 << 30), min_size=1, max_size=64).map(tuple),
        iterations=st.integers(1, 1000),
        run_tag=st.integers(0, 2**64 - 1),
        direction=st.integers(0, 1),
        flip=st.none(),
    ),
    st.builds(
        Timed,
        rail=st.integers(0, 63),
        variant=ways,
        size_bytes=st.integers(1, 1 << 30),
        seconds=st.floats(0, 600),
    ),
)


@given(bodies, st.integers(0, 2**40), st.binary(min_size=32, max_size=32))
def test_a_frame_comes_back_as_it_went(body, number, key):
    assert unpack(key, number, pack(key, number, body)) == body


@given(bodies, st.data())
def test_any_changed_byte_is_refused(body, data):
    frame = bytearray(pack(KEY, 5, body))
    place = data.draw(st.integers(0, len(frame) - 1))
    frame[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(FrameError):
        unpack(KEY, 5, bytes(frame))


@given(bodies, st.data())
def test_any_missing_or_added_bytes_are_refused(body, data):
    frame = pack(KEY, 5, body)
    with pytest.raises(FrameError):
        unpack(KEY, 5, frame[: data.draw(st.integers(0, len(frame) - 1))])
    with pytest.raises(FrameError):
        unpack(KEY, 5, frame + data.draw(st.binary(min_size=1, max_size=50)))


@given(st.binary(max_size=200))
def test_garbage_is_refused(garbage):
    with pytest.raises(FrameError):
        unpack(KEY, 0, garbage)


def test_another_number_is_refused():
    with pytest.raises(FrameError, match="number 4 came in place of 5"):
        unpack(KEY, 5, pack(KEY, 4, Alive()))


def signed(text: bytes) -> bytes:
    content = LENGTH.pack(len(text)) + text
    return content + hmac.digest(KEY, content, "sha256")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"not json", "not a message"),
        (b"[" * 20_000, "not a message"),
        (b'{"v": 3, "seq": 0, "type": "alive"}', "not a message"),
        (b'{"v": 3, "seq": 0, "type": "alive", "body": {}, "more": 1}', "not a message"),
        (b'{"v": 2, "seq": 0, "type": "alive", "body": {}}', "protocol version 2"),
        (b'{"v": 3, "seq": 0, "type": "exec", "body": {}}', "unknown type 'exec'"),
        (b'{"v": 3, "seq": 0, "type": "alive", "body": {"x": 1}}', "alive: x"),
        (b'{"v": 3, "seq": 0, "type": "open", "body": {"rail": "0"}}', "open: rail"),
        (b'{"v": 3, "seq": 0, "type": "open", "body": {"rail": 64}}', "open: rail"),
        (b'{"v": 3, "seq": 0, "type": "welcome", "body": {}}', "welcome: clock_s"),
        (b'{"v": 3, "seq": 0, "type": "welcome", "body": {"clock_s": -1.0}}', "welcome: clock_s"),
        (b'{"v": 3, "seq": 0, "type": "welcome", "body": {"clock_s": 1e12}}', "welcome: clock_s"),
        (b'{"v": 3, "seq": 0, "type": "welcome", "body": {"clock_s": NaN}}', "welcome: clock_s"),
    ],
)
def test_a_signed_text_of_the_wrong_form_is_refused(text, complaint):
    with pytest.raises(FrameError, match=complaint):
        unpack(KEY, 0, signed(text))


def test_an_oversized_body_is_refused_before_it_is_sent():
    rail = RailInfo(id=0, nic="n" * 64, blocked_by="b" * 300)
    nodes = {f"n{i}": NodeState(state="ready", rails=(rail,) * 64) for i in range(3)}
    with pytest.raises(FrameError, match=f"exceeds {MAX_TEXT_BYTES}"):
        pack(KEY, 0, ListPart(leader="n0", nodes=nodes, last=True))


@pytest.mark.parametrize("name", ["..", "../../etc", "mlx5/0", "a b", "", ".x", "n" * 65, "n\n"])
def test_a_name_that_is_no_plain_device_name_is_refused(name):
    body = {"rails": [{"id": 0, "gpu": None, "nic": name, "port": 1, "blocked_by": None}]}
    text = json.dumps({"v": 3, "seq": 0, "type": "ready", "body": body}).encode()
    with pytest.raises(FrameError, match="ready"):
        unpack(KEY, 0, signed(text))


@pytest.fixture
def wires():
    ours, theirs = socket.socketpair()
    wire = FrameSocket(ours)
    yield wire, theirs
    wire.close()
    theirs.close()


def test_a_receive_that_ran_out_of_time_goes_on_where_it_was(wires):
    wire, theirs = wires
    frame = pack(KEY, 0, Alive())
    theirs.sendall(frame[:20])
    assert wire.receive(Deadline.after(0.01)) is None
    theirs.sendall(frame[20:] + frame)
    assert wire.receive(Deadline.after(5)) == frame
    assert wire.receive(Deadline.after(5)) == frame


def test_too_large_a_frame_is_refused_at_its_announcement(wires):
    wire, theirs = wires
    theirs.sendall(LENGTH.pack(MAX_TEXT_BYTES + 1))
    with pytest.raises(FrameError, match="announced"):
        wire.receive(Deadline.after(5))


def test_a_send_that_nobody_takes_ends_and_breaks_the_connection(wires):
    wire, _ = wires
    frame = pack(KEY, 0, Failure(step="s", text="t" * 2000))

    def flood() -> None:
        for _ in range(10_000):
            wire.send(frame, Deadline.after(0.05))

    with pytest.raises(ConnectionLost, match="no data was taken"):
        flood()
    with pytest.raises(ConnectionLost, match="cut short"):
        wire.send(frame, Deadline.after(5))


def test_the_layout_is_the_documented_one():
    frame = pack(KEY, 7, Alive())
    size = int.from_bytes(frame[:4], "big")
    assert json.loads(frame[4 : 4 + size]) == {"v": 3, "seq": 7, "type": "alive", "body": {}}
    assert frame[4 + size :] == hmac.digest(KEY, frame[: 4 + size], "sha256")


def test_the_largest_endpoint_fits_a_frame():
    key = RegionKey(memory="gpu", method="peermem", relaxed=True)
    region = protocol.RemoteRegion(
        key=key, address=(1 << 64) - 1, rkey=(1 << 32) - 1, length_bytes=(1 << 48) - 1
    )
    pair = protocol.QueuePairInfo(qpn=(1 << 24) - 1, psn=(1 << 24) - 1)
    info = protocol.EndpointInfo(
        queue_pairs=(pair,) * 16, regions=(region,) * 16, gid="::", lid=1,
        link_layer="infiniband", mtu=4096,
    )  # fmt: skip
    body = EndpointMade(rail=1, number=1, info=info)
    assert unpack(KEY, 1, pack(KEY, 1, body)) == body


def test_no_two_kinds_of_body_have_one_name() -> None:
    """A frame says its kind by name: with two of one name, a node takes the one for the other."""
    rooms = (messages, session_messages, tools, hand_messages, job_messages)
    kinds = [body for room in rooms for body in room.BODIES.values()]
    assert len({kind.TYPE for kind in kinds}) == len(kinds) == len(BODIES)
    assert all(BODIES[kind.TYPE] is kind for kind in kinds)
