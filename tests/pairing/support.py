"""What several tests of pairing share: a run on loopback addresses, identities, free ports."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gdrcheck.pairing.handshake import Identity
from gdrcheck.profile import Profile
from gdrcheck.run import Deadlines, NodeSpec, RunSpec

SECRET = bytes(range(32))
LOOPBACK = "127.0.0.1"
PATIENCE_S = 20.0


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for sock in sockets:
            sock.bind((LOOPBACK, 0))
        return [sock.getsockname()[1] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


def run_of(count: int, deadlines: Deadlines | None = None, **changes: Any) -> RunSpec:
    values: dict[str, Any] = {
        "run_id": "20261130T120000Z-abc123",
        "created": datetime(2026, 11, 30, 12, tzinfo=UTC),
        "gdrcheck_version": "0",
        "nodes": tuple(
            NodeSpec(name=f"node{i + 1}", address=LOOPBACK, port=port, profile="p")
            for i, port in enumerate(free_ports(count))
        ),
        "profiles": {"p": Profile()},
        "deadlines": deadlines or Deadlines(),
    }
    return RunSpec(**values | changes)


def identity(node: str, **changes: Any) -> Identity:
    values: dict[str, Any] = {
        "run_id": "20261130T120000Z-abc123",
        "node": node,
        "secret": SECRET,
        "image_id": "sha256:1",
        "profile_hash": "0" * 64,
    }
    return Identity(**values | changes)


@contextmanager
def in_thread(target: Callable[[], Any]):
    """Runs ``target`` beside the block; its result or exception is in the yielded dict."""
    outcome: dict[str, Any] = {}

    def body() -> None:
        try:
            outcome["result"] = target()
        except Exception as error:
            outcome["error"] = error

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    yield outcome
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "the other side did not end"


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Waits until ``condition`` holds; fails naming ``what`` if it never does."""
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit, f"never happened: {what}"
        time.sleep(0.01)


class Faults:
    """What the fake endpoint children below ``directory`` are to do wrong; see fake_worker.py."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.command = (sys.executable, str(Path(__file__).with_name("fake_worker.py")), directory)

    def set(self, device: str, command: str, fault: str, *, always: bool = False) -> None:
        suffix = "-always" if always else ""
        (self.directory / f"{device}-{command}{suffix}").write_text(fault)

    def requests(self, device: str) -> list[dict[str, Any]]:
        """All requests that children of ``device`` got so far."""
        log = self.directory / f"{device}-log"
        if not log.exists():
            return []
        return [json.loads(line) for line in log.read_text().splitlines()]
