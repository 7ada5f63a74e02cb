"""Reading files that came from a node, and writing files that others wait for."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

PART_BYTES = 1 << 17


def read_limited(path: Path, limit_bytes: int) -> bytes:
    """The content of ``path``, which may come from a node that is not trusted.

    OSError if it cannot be opened or is a link; ValueError if it is no regular file or longer
    than ``limit_bytes``.
    """
    data = read_start(path, limit_bytes + 1)
    if len(data) > limit_bytes:
        raise ValueError(f"{path.name} is longer than {limit_bytes} bytes")
    return data


def holds(path: Path, data: bytes) -> bool:
    """Whether ``path`` holds exactly ``data``. OSError and ValueError as in ``read_limited``."""
    with _opened(path) as stream:
        if os.fstat(stream.fileno()).st_size != len(data):
            return False
        at = 0
        while part := stream.read(PART_BYTES):
            if not data.startswith(part, at):
                return False
            at += len(part)
    return at == len(data)


def read_start(path: Path, size_bytes: int) -> bytes:
    """The first ``size_bytes`` of ``path``. OSError and ValueError as in ``read_limited``."""
    with _opened(path) as stream:
        told_bytes = os.fstat(stream.fileno()).st_size
        # Not at once as much as the limit allows: that memory is taken, and given back, each time.
        start = stream.read(min(size_bytes, told_bytes + 1))
        if len(start) <= told_bytes:
            return start
        # It grows, or does not tell its size.
        return start + stream.read(size_bytes - len(start))


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    # O_NONBLOCK: opening a pipe that somebody put there must not wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path.name} is not a regular file")
        yield stream


def write_atomic(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path``, mode 0644, so that a reader sees all of it or what was before.

    OSError, with ``path`` in it, when that fails: what was before is still there, and nothing else.
    """
    try:
        # A name of its own: another process may be writing the same file.
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(stream.fileno(), 0o644)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)
