"""Reading ``events.jsonl`` while another process writes it."""

from __future__ import annotations

import logging
import os
from pathlib import Path

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
        events: list[Event] = []
        with self._path.open("rb") as stream:
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
