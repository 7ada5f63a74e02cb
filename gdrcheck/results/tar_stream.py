"""Single headers and contents of an archive that is not trusted, one after the other.

tarfile reads headers here and not the archive: it believes what these say of long names, sparse
files and sizes, takes memory for it without limit, calls itself for each header that only announces
the next one, and goes back where a size is negative.
"""

from __future__ import annotations

import tarfile
from io import BufferedIOBase


class TarStream:
    """An archive while it is read. What is wrong with it raises EOFError, ValueError or TarError.

    What a header means, and how much of it is too much, is for the caller to say.
    """

    def __init__(self, stream: BufferedIOBase) -> None:
        self._stream = stream

    def header(self) -> tarfile.TarInfo | None:
        """The next header, of whatever type; None at the mark of the end."""
        block = self.read(tarfile.BLOCKSIZE)
        if not any(block):
            return None
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")

    def read(self, size_bytes: int) -> bytes:
        """So many bytes of a content."""
        if size_bytes < 0:
            raise ValueError("a size is wrong")
        data = self._stream.read(size_bytes)
        if len(data) < size_bytes:
            raise EOFError("it ends too early")
        return data

    def content(self, size_bytes: int) -> bytes:
        """The whole content of a header that says this size."""
        data = self.read(size_bytes)
        self.pad(size_bytes)
        return data

    def pad(self, size_bytes: int) -> None:
        """Go to the next header, after a content of this size."""
        self.read(-size_bytes % tarfile.BLOCKSIZE)
