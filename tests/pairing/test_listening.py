"""Seeing who listens, without calling there."""

from __future__ import annotations

import socket
from pathlib import Path

from gdrcheck.pairing.listening import calls, listens
from tests.pairing.support import LOOPBACK, free_ports

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:4853 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11
   1: 0100007F:4854 0200007F:4853 01 00000000:00000000 00:00000000 00000000     0        0 12
"""


def test_a_listener_is_seen_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "tcp").write_text(TABLE)
    assert listens(0x4853, tmp_path)
    # Connected, not listening; a remote port; a part of a number.
    assert not listens(0x4854, tmp_path)
    assert not listens(0x53, tmp_path)


def test_a_call_that_nobody_answers_is_seen(tmp_path: Path) -> None:
    (tmp_path / "tcp").write_text(TABLE)
    assert not calls(0x4853, tmp_path)
    (tmp_path / "tcp6").write_text(TABLE.replace(" 01 ", " 02 "))
    assert calls(0x4853, tmp_path)
    assert not calls(0x4854, tmp_path)


def test_where_it_cannot_be_read_nobody_is_seen(tmp_path: Path) -> None:
    assert not listens(0x4853, tmp_path)
    assert not calls(0x4853, tmp_path)


def test_this_machine_tells_of_its_own_listeners() -> None:
    (port,) = free_ports(1)
    assert not listens(port)
    with socket.create_server((LOOPBACK, port)):
        assert listens(port)
