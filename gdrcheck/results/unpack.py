"""Unpacks what the nodes sent: ``nodes/<node>/results.tar.gz`` into its own folder.

An archive comes from a node that is not trusted: only plain files with plain names, no more of
them and no larger than a run can need, and never over a file that is there.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from gdrcheck.outcome import GdrcheckError

ARCHIVE = "results.tar.gz"
MAX_FILES = 1000
MAX_TOTAL_BYTES = 512 << 20
_CHUNK_BYTES = 1 << 20
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")


class UnpackError(GdrcheckError):
    """An archive is damaged, or holds what no node of ours would send."""


def unpack(archive: Path) -> None:
    """Put the files of ``archive`` beside it. UnpackError at the first thing that is wrong; the
    files before it stay, since they may say what happened."""
    left_bytes = MAX_TOTAL_BYTES
    try:
        with tarfile.open(archive, "r|gz") as members:
            for number, member in enumerate(members, 1):
                if number > MAX_FILES:
                    raise UnpackError(f"{archive.name} holds more than {MAX_FILES} files")
                if not member.isreg() or not _PLAIN_NAME.fullmatch(member.name):
                    raise UnpackError(
                        f"{archive.name} holds {member.name!r}, which is no plain file"
                    )
                left_bytes -= member.size
                if left_bytes < 0:
                    raise UnpackError(
                        f"{archive.name} holds more than {MAX_TOTAL_BYTES >> 20} MiB when unpacked"
                    )
                _extract(members, member, archive.parent / member.name)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise UnpackError(f"{archive.name} cannot be unpacked: {error}") from error


def _extract(members: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    source = members.extractfile(member)
    if source is None:
        raise UnpackError(f"{member.name!r} has no content")
    # O_EXCL: neither over another file nor through a link.
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with source, os.fdopen(descriptor, "wb") as file:
        while chunk := source.read(_CHUNK_BYTES):
            file.write(chunk)


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
