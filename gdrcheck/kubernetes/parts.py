"""A part of the folder of a run, as one archive: what stands in the blocks of a pod's log.

An archive may come from a log that anybody has changed: only files that belong there, no more of
them and no larger than a run can need.
"""

from __future__ import annotations

import io
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping

from gdrcheck.outcome import InputError
from gdrcheck.results.folder import IB_LINKS_FILE, RUN_FILE, STATES_FILE
from gdrcheck.results.pack import packed
from gdrcheck.results.tar_stream import TarStream
from gdrcheck.results.unpack import ARCHIVE
from gdrcheck.run import NODE_NAME_PATTERN

OF_RUN = (RUN_FILE, STATES_FILE, IB_LINKS_FILE)
MAX_FILES = 20_000
MAX_BYTES = 256 << 20
# What the archive itself takes for each file, headers and padding.
_AROUND_BYTES = 4096
# What a name of more than 100 characters is told by: pax, "LENGTH path=NAME".
_LONG_NAME = re.compile(rb"[0-9]{1,4} path=([!-~]+)\n")
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)
_NODE_ARCHIVE = re.compile(rf"nodes/({NODE_NAME_PATTERN.strip('^$')})/{re.escape(ARCHIVE)}")


def archive_name(node: str) -> str:
    """Where the results of ``node`` are in the folder of its run."""
    return f"nodes/{node}/{ARCHIVE}"


def node_of(name: str) -> str | None:
    """The node whose results are at ``name``; None for a file of the run."""
    match = _NODE_ARCHIVE.fullmatch(name)
    return match[1] if match else None


def pack_part(files: Mapping[str, bytes]) -> bytes:
    """``files``, content by name below the folder of the run, as one archive."""
    return packed(dict(files))


def read_part(content: bytes, source: str) -> dict[str, bytes]:
    """The files in an archive that ``pack_part`` made. InputError, naming ``source``, for any
    other: damaged, too large, or with a file that does not belong to a run.
    """
    files: dict[str, bytes] = {}
    left_bytes = MAX_BYTES
    try:
        for name, is_plain, file in _members(_inflated(content, source)):
            known = name in OF_RUN or node_of(name) is not None
            if not known or not is_plain or name in files:
                raise InputError(f"{source}: holds {name[:300]!r}, which belongs to no run")
            left_bytes -= len(file)
            if len(files) >= MAX_FILES or left_bytes < 0:
                raise InputError(f"{source}: holds more than a run can have")
            files[name] = file
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise InputError(f"{source}: no archive of results: {error}") from error
    return files


def _members(data: bytes) -> Iterator[tuple[str, bool, bytes]]:
    """What an archive holds, up to its mark of the end: name, whether a plain file, and content."""
    tar, long_name = TarStream(io.BytesIO(data)), ""
    while (member := tar.header()) is not None:
        content = tar.content(member.size)
        if member.type == tarfile.XHDTYPE and (path := _LONG_NAME.fullmatch(content)):
            long_name = path[1].decode()
            continue
        yield long_name or member.name, member.type in _PLAIN, content
        long_name = ""


def _inflated(content: bytes, source: str) -> bytes:
    """``content`` without its compression, which may hide a thousand times as much."""
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        data = unpacker.decompress(content, MAX_BYTES + MAX_FILES * _AROUND_BYTES)
    except zlib.error as error:
        raise InputError(f"{source}: is not compressed as gzip does: {error}") from error
    if not unpacker.eof or unpacker.unused_data:
        raise InputError(f"{source}: is cut off, or larger than a run can be")
    return data
