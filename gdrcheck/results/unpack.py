"""Unpacks what the nodes sent: ``nodes/<node>/results.tar.gz`` into its own folder.

An archive comes from a node that is not trusted: only plain files with plain names, no more of
them and no larger than a run can need, and never over a file that is there.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import stat
import sys
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from gdrcheck.outcome import GdrcheckError
from gdrcheck.results.tar_stream import TarStream

ARCHIVE = "results.tar.gz"
MAX_FILES = 1000
MAX_TOTAL_BYTES = 512 << 20
# Times with fractions of a second stand in such a header before each file.
MAX_PAX_BYTES = 4096
# What follows the mark at the end fills a record.
MAX_REST_BYTES = 64 << 10
_CHUNK_BYTES = 1 << 20
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")


class UnpackError(GdrcheckError):
    """An archive is damaged, or holds what no node of ours would send."""


def unpack(archive: Path) -> None:
    """Put the files of ``archive`` beside it. UnpackError at the first thing that is wrong; the
    files before it stay, since they may say what happened."""
    try:
        # Neither through a link, nor waiting for the writer of a pipe.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(archive, flags), "rb") as packed:
            if not stat.S_ISREG(os.fstat(packed.fileno()).st_mode):
                raise UnpackError(f"{archive.name} is no regular file")
            with gzip.GzipFile(fileobj=packed) as stream:
                _Archive(archive, stream).unpack()
    except (tarfile.TarError, ValueError, EOFError, OSError, zlib.error) as error:
        raise UnpackError(f"{archive.name} cannot be unpacked: {error}") from error


class _Archive:
    """One archive while it is read, from its first block to its last."""

    def __init__(self, path: Path, stream: gzip.GzipFile) -> None:
        self._path = path
        self._stream = stream
        self._tar = TarStream(stream)
        self._left_bytes = MAX_TOTAL_BYTES

    def unpack(self) -> None:
        """Put its files beside it."""
        files = 0
        while (member := self._next()) is not None:
            files += 1
            if files > MAX_FILES:
                raise self._holds(f"more than {MAX_FILES} files")
            self._left_bytes -= member.size
            if self._left_bytes < 0:
                raise self._holds(f"more than {MAX_TOTAL_BYTES >> 20} MiB when unpacked")
            self._extract(member)
        if len(self._stream.read(MAX_REST_BYTES + 1)) > MAX_REST_BYTES:
            raise self._holds("more after its end")

    def _next(self) -> tarfile.TarInfo | None:
        """The header of the next file; None at the end."""
        member = self._tar.header()
        if member is None:
            return None
        if member.type == tarfile.XHDTYPE:
            short = 0 <= member.size <= MAX_PAX_BYTES
            told = self._tar.content(member.size) if short else b" path="
            if b" path=" not in told and b" size=" not in told:
                member = self._tar.header()
        plain = member is not None and member.type in (tarfile.REGTYPE, tarfile.AREGTYPE)
        if member is None or not plain or member.size < 0 or not _PLAIN_NAME.fullmatch(member.name):
            name = member.name if member is not None else "a header of no file"
            raise self._holds(f"{name!r}, which is no plain file")
        return member

    def _extract(self, member: tarfile.TarInfo) -> None:
        target = self._path.parent / member.name
        # O_EXCL: neither over another file nor through a link.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(target, flags, 0o644), "wb") as file:
            left_bytes = member.size
            while left_bytes:
                chunk = self._tar.read(min(left_bytes, _CHUNK_BYTES))
                file.write(chunk)
                left_bytes -= len(chunk)
        self._tar.pad(member.size)

    def _holds(self, what: str) -> UnpackError:
        return UnpackError(f"{self._path.name} holds {what}")


def unpack_all(run_folder: Path) -> dict[str, str]:
    """Unpack every node's archive. What went wrong, by node; a node without one is not in it."""
    problems = {}
    for archive in sorted((run_folder / "nodes").glob(f"*/{ARCHIVE}")):
        try:
            unpack(archive)
        except UnpackError as error:
            problems[archive.parent.name] = str(error)
    return problems


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m gdrcheck.results.unpack RUN_FOLDER``: prints the problems as JSON."""
    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) != 1:
        print("usage: python -m gdrcheck.results.unpack RUN_FOLDER", file=sys.stderr)
        return 2
    print(json.dumps(unpack_all(Path(arguments[0]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
