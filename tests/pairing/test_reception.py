"""A reception serves everybody at the same time, and leaves nobody behind."""

from __future__ import annotations

import threading

import pytest

from gdrcheck.outcome import PeerError
from gdrcheck.pairing.channel import Channel, connect
from gdrcheck.pairing.listener import Listener
from gdrcheck.pairing.messages import Alive
from gdrcheck.pairing.reception import Reception
from tests.pairing.support import LOOPBACK, free_ports, identity


def test_all_are_served_at_once_and_cut_at_the_end() -> None:
    (port,), served = free_ports(1), threading.Barrier(3)
    ended: list[str] = []

    def attend(channel: Channel) -> None:
        served.wait(20)
        try:
            channel.receive(600, Alive)
        except PeerError:
            ended.append(channel.peer)

    listener = Listener(identity("node1"), LOOPBACK, port, {"node2", "node3"})
    with Reception(listener, "rendezvous", attend):
        channels = [
            connect(LOOPBACK, port, identity(name), "node1", "rendezvous", 20)
            for name in ("node2", "node3")
        ]
        served.wait(20)
    assert sorted(ended) == ["node2", "node3"]
    for channel in channels:
        with channel, pytest.raises(PeerError):
            channel.receive(20, Alive)
    with pytest.raises(PeerError):
        connect(LOOPBACK, port, identity("node2"), "node1", "rendezvous", 1)
