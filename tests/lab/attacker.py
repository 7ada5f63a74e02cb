"""Attacks the channel's port: silence, garbage, an endless frame. Runs on a node by ``python3 -``.

Prints how many of its connections the other side dropped.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

ENDLESS = (1 << 16).to_bytes(4, "big")


def source() -> str:
    """This file, to be piped into an interpreter elsewhere."""
    return Path(__file__).read_text()


def attack(address: str, port: int, seconds: float) -> int:
    """Keeps twelve bad connections open for ``seconds``; returns how many were dropped."""
    dropped = 0
    connections: list[socket.socket] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        while len(connections) < 12:
            try:
                connection = socket.create_connection((address, port), timeout=2)
            except OSError:
                break
            connection.setblocking(False)
            connections.append(connection)
        for number, connection in enumerate(list(connections)):
            try:
                if number % 3 == 1:
                    connection.send(os.urandom(64))
                elif number % 3 == 2:
                    connection.send(ENDLESS + b"x" * 512)
                if connection.recv(4096) == b"":
                    raise ConnectionResetError
            except BlockingIOError:
                continue
            except OSError:
                dropped += 1
                connection.close()
                connections.remove(connection)
        time.sleep(0.2)
    return dropped


if __name__ == "__main__":
    count = attack(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
    print(f"dropped {count}" if count else "none were closed")
