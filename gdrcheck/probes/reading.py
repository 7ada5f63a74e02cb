"""Reading small kernel files: a text, or why it could not be read."""

from __future__ import annotations

import os
from pathlib import Path

from gdrcheck.facts import Unreadable

# No file that the probes read is larger; a hostile or broken tree must not fill the memory.
MAX_BYTES = 64 * 1024


def read_text(path: Path) -> str | Unreadable:
    """The stripped content of ``path``, or why not (errno name, binary, empty)."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES)
    except OSError as error:
        return Unreadable(unreadable=f"{path.name}: {os.strerror(error.errno or 0)}")
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
        return int(text, base)
    except ValueError:
        return Unreadable(unreadable=f"{path.name}: {text[:40]!r} is not a number")


def list_names(path: Path) -> tuple[str, ...] | Unreadable:
    """The sorted entries of a directory, or why it could not be listed."""
    try:
        return tuple(sorted(entry.name for entry in path.iterdir()))
    except OSError as error:
        return Unreadable(unreadable=f"{path.name}: {os.strerror(error.errno or 0)}")
