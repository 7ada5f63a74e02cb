"""What reading a tree gave: which facts are unreadable, and which files were opened for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel

from gdrcheck.facts import Unreadable

_listeners: list[set[str]] = []


def unreadable(value: object, path: str = "") -> Iterator[tuple[str, Unreadable]]:
    """The path of every fact in ``value`` that could not be read, and what stands there."""
    if isinstance(value, Unreadable):
        yield path, value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from unreadable(getattr(value, name), f"{path}.{name}" if path else name)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from unreadable(part, f"{path}[{name}]")
    elif isinstance(value, tuple):
        for index, part in enumerate(value):
            key = getattr(part, "slot", None) or getattr(part, "name", None) or index
            yield from unreadable(part, f"{path}[{key}]")


@contextmanager
def opened_below(root: Path) -> Iterator[set[str]]:
    """The files below ``root`` that are opened meanwhile, links followed, by path below it."""
    seen: set[str] = set()
    found: set[str] = set()
    _listeners.append(seen)
    try:
        yield found
    finally:
        _listeners.remove(seen)
        top = os.path.realpath(root)
        real = {os.path.realpath(path) for path in seen if path.startswith(str(root))}
        found |= {os.path.relpath(path, top) for path in real if os.path.isfile(path)}


def _listen(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _listeners and isinstance(arguments[0], str | os.PathLike):
        for seen in _listeners:
            seen.add(os.fspath(arguments[0]))


# There is no way to take a hook away again: one for all, idle unless somebody listens.
sys.addaudithook(_listen)
