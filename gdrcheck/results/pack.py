"""Packs what a node left, as ``unpack`` takes it: plain files with plain names."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

LEVEL = 6


def pack(folder: Path) -> bytes:
    """The regular files of ``folder``, not those below it, as a compressed archive.

    Half-written ones, whose names begin with a dot, are left out.
    """
    return packed(
        {
            path.name: path.read_bytes()
            for path in folder.iterdir()
            if path.is_file() and not path.is_symlink() and not path.name.startswith(".")
        }
    )


def packed(files: Mapping[str, bytes]) -> bytes:
    """``files``, content by name, as a compressed archive; the same files, the same bytes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(stream.getvalue(), LEVEL, mtime=0)
