"""The channel: those who belong get through, all others are dropped, whatever they try."""

from __future__ import annotations

import logging
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.outcome import PeerError, ProbeError
from gdrcheck.pairing import channel as channels
from gdrcheck.pairing import handshake, listener
from gdrcheck.pairing.channel import Channel, ChannelLost, PeerRefused, RemoteFailure, connect
from gdrcheck.pairing.handshake import IMAGE_ID_VARIABLE, Identity, clock_offset
from gdrcheck.pairing.listener import Listener
from gdrcheck.pairing.messages import Alive, Bye, Failure, Refused, Serving
from gdrcheck.pairing.session_messages import Armed, Open
from tests.pairing.support import (
    LOOPBACK,
    PATIENCE_S,
    SECRET,
    eventually,
    free_ports,
    identity,
    in_thread,
    run_of,
)


@pytest.fixture
def server():
    with Listener(identity("node1"), LOOPBACK, 0, {"node2", "node3"}) as listening:
        yield listening


def dial(listening, node="node2", purpose="pair", deadline_s=PATIENCE_S, **changes) -> Channel:
    return connect(
        LOOPBACK, listening.port, identity(node, **changes), "node1", purpose, deadline_s
    )


@contextmanager
def joined(listening, node="node2"):
    with dial(listening, node) as near, listening.accept(node, "pair", PATIENCE_S) as far:
        yield near, far


def assert_usable(listening, node="node3"):
    with joined(listening, node) as (near, far):
        near.send(Open(rail=1))
        assert far.receive(PATIENCE_S, Open) == Open(rail=1)


def test_messages_go_both_ways(server):
    with joined(server) as (near, far):
        near.send(Open(rail=3))
        assert far.receive(PATIENCE_S, Open) == Open(rail=3)
        far.send(Serving())
        assert isinstance(near.receive(PATIENCE_S, Serving, Bye), Serving)
        assert (near.peer, far.peer) == ("node1", "node2")


def test_only_the_given_address_is_bound(server):
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.port), timeout=5)


def test_a_taken_port_is_one_clear_error(server):
    taken = Listener(identity("node1"), LOOPBACK, server.port, ())
    with pytest.raises(
        ProbeError, match=f"cannot listen on 127.0.0.1 port {server.port}: .*in use"
    ):
        taken.__enter__()


def test_a_closed_port_can_be_bound_again_at_once():
    (port,) = free_ports(1)
    for _ in range(2):
        with Listener(identity("node1"), LOOPBACK, port, {"node2"}) as listening:
            assert listening.port == port
            with joined(listening):
                pass


def test_connect_waits_for_a_listener_that_comes_later():
    (port,) = free_ports(1)
    with in_thread(
        lambda: connect(LOOPBACK, port, identity("node2"), "node1", "pair", PATIENCE_S)
    ) as outcome:
        time.sleep(0.3)
        with Listener(identity("node1"), LOOPBACK, port, {"node2"}) as listening:
            far = listening.accept("node2", "pair", PATIENCE_S)
            assert far is not None
            eventually(lambda: bool(outcome), "the channel")
            far.close()
    outcome["result"].close()


def test_connect_to_nobody_names_peer_place_and_reason():
    (port,) = free_ports(1)
    with pytest.raises(
        PeerError, match=f"node1: no channel to 127.0.0.1 port {port}.*refused"
    ) as e:
        connect(LOOPBACK, port, identity("node2"), "node1", "pair", 0.3)
    assert (e.value.side, e.value.step) == ("node1", "connect")


def test_a_silent_peer_is_a_timeout_that_names_side_step_and_time(server):
    with joined(server) as (near, _), pytest.raises(PeerError, match="no armed") as e:
        near.receive(0.05, Armed)
    assert (e.value.side, e.value.step) == ("node1", "await armed")
    assert "0.05 s" in str(e.value)


def test_heartbeats_keep_a_busy_peer_and_their_absence_ends_a_dead_one(server):
    with joined(server) as (near, far):
        far.start_heartbeats(0.05)
        with pytest.raises(PeerError, match=r"no armed within 0\.6 s") as e:
            near.receive(0.6, Armed, silence_s=0.3)
        assert not isinstance(e.value, ChannelLost)
        with pytest.raises(ChannelLost, match=r"silent for 0\.1 s"):
            far.receive(5, Armed, silence_s=0.1)


def test_a_closed_connection_is_noticed_at_once(server):
    with joined(server) as (near, far):
        far.close()
        with pytest.raises(ChannelLost, match="closed by the other end"):
            near.receive(PATIENCE_S, Armed)


def test_the_error_of_the_peer_is_raised_with_its_step(server):
    with joined(server) as (near, far):
        far.send(Failure(step="open rxe0", text="no such device"))
        with pytest.raises(RemoteFailure, match="node1: open rxe0: no such device"):
            near.receive(PATIENCE_S, Armed)


def test_a_message_out_of_turn_ends_the_channel(server):
    with joined(server) as (near, far):
        far.send(Bye())
        with pytest.raises(ChannelLost, match="bye came in place of armed"):
            near.receive(PATIENCE_S, Armed)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"image_id": "sha256:2"}, "image differs: node1 has 'sha256:1', node2 has 'sha256:2'"),
        ({"profile_hash": "1" * 64}, "hash of profiles and run differs"),
        ({"version": "9.9"}, "gdrcheck version differs: node1 has .*, node2 has '9.9'"),
    ],
)
def test_a_peer_that_does_not_fit_is_told_why_and_so_are_we(server, changes, complaint):
    with pytest.raises(PeerRefused, match=complaint):
        dial(server, **changes)
    with pytest.raises(PeerRefused, match=complaint):
        server.accept("node2", "pair", PATIENCE_S)
    assert_usable(server)


def test_a_peer_whose_image_is_not_known_is_let_in(server):
    with dial(server, image_id="") as near, server.accept("node2", "pair", PATIENCE_S):
        assert near.peer == "node1"


@pytest.mark.parametrize(
    ("told", "known"), [("sha256:really", "sha256:really"), ("", "sha256:wanted")]
)
def test_the_image_is_that_of_the_container_if_it_was_told(monkeypatch, told, known):
    monkeypatch.setenv(IMAGE_ID_VARIABLE, told)
    run = run_of(1, image_id="sha256:wanted")
    assert Identity.of(run, "node1", SECRET).image_id == known


def test_the_connecting_end_learns_how_far_the_other_clock_is(server):
    with joined(server) as (near, far):
        assert far.clock is None
        # Both ends read the clock of this machine.
        assert abs(near.clock.offset_s) <= near.clock.error_s + 1e-5


@given(
    sent_s=st.floats(0, 4e9),
    round_trip_s=st.floats(0, 60),
    offset_s=st.floats(-1e9, 1e9),
    share=st.floats(0, 1),
)
def test_a_clock_offset_is_known_to_half_the_round_trip(sent_s, round_trip_s, offset_s, share):
    other_s = sent_s + share * round_trip_s + offset_s
    clock = clock_offset(sent_s, round_trip_s, other_s)
    assert abs(clock.offset_s - offset_s) <= clock.error_s + 1e-5


def only_pairs(_peer, purpose):
    return Refused(reason="the rendezvous is over", retry=False) if purpose != "pair" else None


def test_a_purpose_that_is_not_served_is_refused_after_the_proof():
    with Listener(identity("node1"), LOOPBACK, 0, {"node2"}, only_pairs) as listening:
        with pytest.raises(PeerRefused, match="node1 refused: the rendezvous is over"):
            dial(listening, purpose="rendezvous")
        with joined(listening):
            pass


# --- attacks ------------------------------------------------------------------------------------


def raw(listening) -> socket.socket:
    sock = socket.create_connection((LOOPBACK, listening.port), timeout=PATIENCE_S)
    sock.settimeout(PATIENCE_S)
    return sock


def assert_dropped(sock: socket.socket) -> None:
    """The other end closes, having said nothing."""
    with suppress(ConnectionResetError):
        assert sock.recv(1) == b""


@pytest.mark.parametrize(
    ("changes"),
    [{"secret": bytes(32)}, {"run_id": "20261130T120000Z-ffffff"}, {"node": "stranger"}],
    ids=["wrong secret", "other run", "unknown node"],
)
def test_who_does_not_belong_is_dropped_logged_and_harms_nobody(server, changes, caplog):
    stranger = identity(**{"node": "node2"} | changes)
    with (
        caplog.at_level(logging.WARNING, "gdrcheck.channel"),
        pytest.raises(PeerError, match="no channel"),
    ):
        connect(LOOPBACK, server.port, stranger, "node1", "pair", 0.5)
    assert server.dropped["FrameError"] >= 1
    assert "dropped a connection from 127.0.0.1" in caplog.text
    assert_usable(server)


def test_a_server_with_another_secret_is_not_believed():
    impostor = Listener(identity("node1", secret=bytes(32)), LOOPBACK, 0, {"node2"})
    with impostor as listening, pytest.raises(PeerError, match="no channel"):
        dial(listening, deadline_s=0.5)


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", bytes(100), b"\xff" * 5000])
def test_garbage_is_dropped(server, garbage):
    with raw(server) as sock:
        sock.sendall(garbage)
        assert_dropped(sock)
    eventually(lambda: server.dropped["FrameError"] == 1, "the drop is counted")
    assert_usable(server)


def test_an_endless_frame_is_dropped_at_the_limit(server, monkeypatch):
    monkeypatch.setattr(handshake, "HANDSHAKE_S", 0.3)
    with raw(server) as sock:
        sock.sendall((4096).to_bytes(4, "big"))
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.02):
                try:
                    sock.send(b" ")
                except OSError:
                    return

        with in_thread(drip):
            assert_dropped(sock)
            stop.set()
    assert server.dropped["silence"] == 1
    assert_usable(server)


def test_silence_is_dropped_at_the_limit(server, monkeypatch):
    monkeypatch.setattr(handshake, "HANDSHAKE_S", 0.2)
    with raw(server) as sock:
        assert_dropped(sock)
    assert server.dropped["silence"] == 1
    assert_usable(server)


def test_eight_silent_attackers_do_not_keep_out_a_peer(server, monkeypatch):
    monkeypatch.setattr(handshake, "HANDSHAKE_S", PATIENCE_S)
    monkeypatch.setattr(listener, "EVICTION_AGE_S", 0.1)
    with ExitStack() as stack:
        attackers = [stack.enter_context(raw(server)) for _ in range(listener.MAX_UNPROVEN)]
        assert_usable(server)
        assert_dropped(attackers[0])
        eventually(lambda: server.dropped["evicted"] == 1, "the eviction is counted")


class Tap:
    """Stands between a connector and the listener and records what the connector sends."""

    def __init__(self, target_port: int) -> None:
        self.recorded = bytearray()
        self._target = target_port
        self._server = socket.create_server((LOOPBACK, 0))
        self.port = self._server.getsockname()[1]

    def relay(self) -> None:
        client, _ = self._server.accept()
        target = socket.create_connection((LOOPBACK, self._target))
        back = threading.Thread(target=self._copy, args=(target, client, None), daemon=True)
        back.start()
        self._copy(client, target, self.recorded)
        back.join(PATIENCE_S)
        for sock in (client, target, self._server):
            sock.close()

    def _copy(self, source, sink, record) -> None:
        while data := source.recv(4096):
            if record is not None:
                record += data
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def test_recorded_frames_of_an_earlier_connection_are_worth_nothing(server):
    tap = Tap(server.port)
    with in_thread(tap.relay):
        near = connect(LOOPBACK, tap.port, identity("node2"), "node1", "pair", PATIENCE_S)
        far = server.accept("node2", "pair", PATIENCE_S)
        near.send(Open(rail=1))
        assert far.receive(PATIENCE_S, Open) == Open(rail=1)
        near.close()
        far.close()
    assert len(tap.recorded) > 500
    with raw(server) as sock:
        sock.sendall(tap.recorded)
        while sock.recv(4096):
            pass
    assert server.accept("node2", "pair", 0.2) is None
    assert server.dropped["FrameError"] == 1
    assert_usable(server)


def test_a_frame_repeated_inside_a_connection_ends_it(server):
    with joined(server) as (near, far):
        near.send(Alive())
        near._sent -= 1
        near.send(Open(rail=1))
        with pytest.raises(ChannelLost, match="number 1 came in place of 2"):
            far.receive(PATIENCE_S, Open)


def test_the_secret_is_in_no_representation():
    assert SECRET_TEXT not in repr(identity("node1"))


SECRET_TEXT = repr(identity("node1").secret)


def test_connect_stops_when_told():
    stop = threading.Event()
    (port,) = free_ports(1)
    with in_thread(
        lambda: channels.connect(
            LOOPBACK, port, identity("node2"), "node1", "pair", 10 * PATIENCE_S, stop
        )
    ) as outcome:
        stop.set()
    assert isinstance(outcome["error"], PeerError)
