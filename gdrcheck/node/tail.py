"""Reading files of events while another process writes them."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from gdrcheck.results.events import MAX_LINE_BYTES, Event, parse_line

LOG = logging.getLogger(__name__)
CHUNK_BYTES = 1 << 20


class EventTail:
    """Follows the file at ``path``. Lines that are no events are logged; the final reader of the
    file turns them into an error.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        # Bytes of an overlong line that are not kept in _rest.
        self._skipped_bytes = 0

    def read(self) -> list[Event]:
        """The records that were completed since the last call."""
        with self._path.open("rb") as stream:
            return self.read_from(stream)

    def read_from(self, stream: BinaryIO) -> list[Event]:
        """The same from ``stream``, which is the file at the path, or was."""
        events: list[Event] = []
        stream.seek(self._offset)
        while chunk := stream.read(CHUNK_BYTES):
            self._offset += len(chunk)
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            if lines:
                self._skipped_bytes = 0
            events.extend(self._parse(lines))
            if len(self._rest) > MAX_LINE_BYTES:
                # No event is that long: its end will be logged as no event.
                self._skipped_bytes += len(self._rest)
                self._rest = b""
        return events

    def _parse(self, lines: list[bytes]) -> list[Event]:
        events = []
        for line in lines:
            try:
                events.append(parse_line(line))
            except ValueError as error:
                LOG.warning("%s: not an event: %s", self._path.name, error)
        return events

    def drop_partial(self) -> int:
        """Cut off a last line that its writer died in; returns its length in bytes.

        Only when no other process is writing: the next record must begin on a line of its own.
        """
        cut = self._skipped_bytes + len(self._rest)
        if cut:
            self._offset -= cut
            self._rest, self._skipped_bytes = b"", 0
            os.truncate(self._path, self._offset)
        return cut


class JournalTail:
    """Follows the journal at ``path``, which is another file for each pair, and between them none.
    Close it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: BinaryIO | None = None
        self._tail = EventTail(path)

    def read(self) -> Iterator[tuple[bool, list[Event]]]:
        """The records that were completed since the last call; True with the first of a new file.

        All of a file that came and went between two calls is not seen.
        """
        if self._stream is not None:
            yield False, self._tail.read_from(self._stream)
        if (newer := self._newer()) is not None:
            self.close()
            self._stream, self._tail = newer, EventTail(self._path)
            yield True, self._tail.read_from(newer)

    def _newer(self) -> BinaryIO | None:
        try:
            stream = self._path.open("rb")
        except FileNotFoundError:
            return None
        # As long as the one before is open, no other file can look the same.
        if self._stream is None or not os.path.sameopenfile(stream.fileno(), self._stream.fileno()):
            return stream
        stream.close()
        return None

    def drop_partial(self) -> int:
        """See ``EventTail``."""
        return self._tail.drop_partial()

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
