"""A tree of small files and links, as the kernel's file systems show them, held in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Tree:
    """Files, links and empty folders by their path below the root.

    The folders of every path are real ones: a path never leads through one of ``links``. The target
    of a link is a path below the root too, and need not exist.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)

    def put(self, folder: str, files: Mapping[str, str | int | bytes]) -> None:
        """Adds files below ``folder``; a text or number gets the kernel's newline."""
        for name, content in files.items():
            data = content if isinstance(content, bytes) else f"{content}\n".encode()
            self.files[f"{folder}/{name}"] = data

    def link(self, path: str, target: str) -> None:
        """Adds a link at ``path`` to ``target``, both below the root."""
        self.links[path] = target

    def folder(self, path: str) -> None:
        """Adds a folder, which may stay empty."""
        self.folders.add(path)

    def write(self, root: Path) -> None:
        """Writes everything below ``root``. Links are relative, so none leads out of it."""
        paths = (*self.files, *self.links)
        for folder in sorted(self.folders | {os.path.dirname(path) for path in paths}):
            (root / folder).mkdir(parents=True, exist_ok=True)
        for path, target in self.links.items():
            (root / path).symlink_to(os.path.relpath(target, os.path.dirname(path)))
        for path, data in self.files.items():
            (root / path).write_bytes(data)
