"""Reading files that came from a node, and writing files that others wait for."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_limited(path: Path, limit_bytes: int) -> bytes:
    """The content of ``path``, which may come from a node that is not trusted.

    OSError if it cannot be opened or is a link; ValueError if it is no regular file or longer
    than ``limit_bytes``.
    """
    data = read_start(path, limit_bytes + 1)
    if len(data) > limit_bytes:
        raise ValueError(f"{path.name} is longer than {limit_bytes} bytes")
    return data


def read_start(path: Path, size_bytes: int) -> bytes:
    """The first ``size_bytes`` of ``path``. OSError and ValueError as in ``read_limited``."""
    # O_NONBLOCK: opening a pipe that somebody put there must not wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path.name} is not a regular file")
        return stream.read(size_bytes)


def write_atomic(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path``, mode 0644, so that a reader sees all of it or what was before."""
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("wb") as stream:
        os.fchmod(stream.fileno(), 0o644)
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
