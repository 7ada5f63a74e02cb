"""The part of a pytest process's log that tells why it died."""

from __future__ import annotations

from pathlib import Path

MAX_BYTES = 64 * 1024
MAX_LINES = 20
# With this Python's faulthandler begins what it writes at a fatal signal.
FATAL = "Fatal Python error"
# Frames of the machinery between pytest and the check say nothing about the check.
MACHINERY = ("/pluggy/", "/_pytest/", "<frozen runpy>")


def excerpt(log: Path, offset: int) -> str:
    """The stacks that were dumped after ``offset``, or else the last lines; empty without a log."""
    if not log.exists():
        return ""
    with log.open("rb") as stream:
        stream.seek(max(offset, log.stat().st_size - MAX_BYTES))
        lines = stream.read().decode("utf-8", "replace").splitlines()
    lines = [line for line in lines if not any(part in line for part in MACHINERY)]
    fatal = [number for number, line in enumerate(lines) if FATAL in line]
    shown = lines[fatal[0] : fatal[0] + MAX_LINES] if fatal else lines[-MAX_LINES:]
    return "\n".join(shown)
