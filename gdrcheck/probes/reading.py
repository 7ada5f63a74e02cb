"""Reading small kernel files: a text, or why it could not be read."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import TypeAdapter, ValidationError

from gdrcheck.facts import Unreadable

T = TypeVar("T")
# No file that the probes read is larger; a hostile or broken tree must not fill the memory.
MAX_BYTES = 64 * 1024
MAX_DIGITS = 66


def open_regular(path: Path) -> BinaryIO:
    """``path`` opened for reading, to be closed by the caller; OSError unless it is a plain file.

    Files of the kernel's are plain ones; a captured tree may hold anything. What is none is not
    opened: a link may lead out of the tree, a pipe may never answer, and a device may act.
    """
    return open(path, "rb", opener=_open)


def read_bytes(path: Path, most_bytes: int = MAX_BYTES) -> bytes | Unreadable:
    """The content of ``path``, or why not (no plain file, errno name, above ``most_bytes``)."""
    try:
        with open_regular(path) as stream:
            data = stream.read(most_bytes + 1)
    except OSError as error:
        return refused(path, error)
    # A part of it could say what the whole does not.
    too_large = Unreadable(unreadable=f"{path.name}: larger than {most_bytes} bytes")
    return data if len(data) <= most_bytes else too_large


def read_text(path: Path) -> str | Unreadable:
    """The stripped content of ``path``, or why not (errno name, binary, empty)."""
    data = read_bytes(path)
    if isinstance(data, Unreadable):
        return data
    try:
        text = data.decode("ascii").strip()
    except UnicodeDecodeError:
        return Unreadable(unreadable=f"{path.name}: not text")
    if not text or "\0" in text:
        return Unreadable(unreadable=f"{path.name}: {'not text' if text else 'empty'}")
    return text


def read_number(path: Path, base: int = 0) -> int | Unreadable:
    """The integer in ``path``; ``base`` 0 accepts ``0x`` prefixes."""
    text = read_text(path)
    if isinstance(text, Unreadable):
        return text
    try:
        # 64 bits in any base; a longer one would not survive being written as JSON.
        return int(text if len(text) <= MAX_DIGITS else "", base)
    except ValueError:
        return Unreadable(unreadable=f"{path.name}: {text[:40]!r} is not a number")


def list_names(path: Path) -> tuple[str, ...] | Unreadable:
    """The sorted entries of a directory, or why it could not be listed."""
    try:
        names = tuple(sorted(entry.name for entry in path.iterdir()))
    except OSError as error:
        return refused(path, error)
    # Other names, which the kernel does not make, could not be written into the facts.
    if not all(name.isprintable() for name in names):
        return Unreadable(unreadable=f"{path.name}: holds a name that is not text")
    return names


def is_there(path: Path) -> bool | Unreadable:
    """Whether ``path`` exists, or why that cannot be told.

    False only when the folder that would hold it is there: a tree without its parent says nothing.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        return False if path.parent.is_dir() else refused(path, error)
    except OSError as error:
        return refused(path, error)
    return True


def matched(path: Path, pattern: re.Pattern[str]) -> re.Match[str] | Unreadable:
    """Where ``pattern`` matches in the text of ``path``, or why it does not."""
    text = read_text(path)
    if isinstance(text, Unreadable):
        return text
    found = pattern.search(text)
    return found or Unreadable(unreadable=f"{path.name}: unknown form {text[:40]!r}")


def shaped(value: Any, shape: TypeAdapter[T], name: str) -> T | Unreadable:
    """A JSON value as ``shape``, or Unreadable, under ``name``, when it is of another form.

    An ``Unreadable`` is returned as it is.
    """
    if isinstance(value, Unreadable):
        return value
    try:
        return shape.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return Unreadable(unreadable=f"{name}: {first['msg'][:200]}")


def refused(path: Path, error: OSError) -> Unreadable:
    """Stands for ``path``, on which ``error`` was met."""
    return Unreadable(unreadable=f"{path.name}: {error.strerror}")


def _open(path: str, flags: int) -> int:
    mode = os.lstat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "not a plain file", path)
    # The tree may change meanwhile: still no link is followed and no writer of a pipe awaited.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
