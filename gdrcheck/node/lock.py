"""The lock that keeps two runs from one node at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gdrcheck.outcome import GdrcheckError


class NodeLocked(GdrcheckError):
    """Another run holds this node's lock, or the lock cannot be taken."""


def _open(path: Path) -> int:
    # In the container the file is mounted read-only, and then O_CREAT is refused.
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)


@contextmanager
def node_lock(path: Path | None) -> Iterator[None]:
    """Hold the flock of ``path`` (a file of the host, made if missing) for the block.

    Does not wait: NodeLocked says so when it is held. The kernel gives it up when we die.
    """
    if path is None:
        yield
        return
    try:
        descriptor = _open(path)
    except OSError as error:
        raise NodeLocked(f"lock file {path} cannot be opened: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NodeLocked(f"another run holds {path} on this node") from error
        yield
    finally:
        os.close(descriptor)
