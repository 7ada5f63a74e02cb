"""Reading what the watcher of XIDs has written so far."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from gdrcheck import xids
from gdrcheck.facts import Unreadable
from gdrcheck.probes.reading import read_bytes
from gdrcheck.xids import XidWatch

# Of some hundred bytes a line, and a first one with every GPU.
MAX_BYTES = 1 << 20
# The watcher renews the file's time each second: silent for longer, it hangs or is dead.
SILENT_S = 15.0
LOOK_AGAIN_S = 0.1


def read_watch(path: Path, silent_s: float = SILENT_S) -> XidWatch:
    """What the watcher that writes ``path`` has told, once it has given a sign of life anew.

    What happened before the call has then reached the file, whatever the clocks say. Its
    ``problems`` say so when there is no such file, and when no sign comes within ``silent_s``.
    """
    deadline, before = time.monotonic() + silent_s, _renewed(path)
    watch = _read(path)
    while not watch.problems and not _watches_nothing(watch):
        if _renewed(path) != before:
            return _read(path)
        if time.monotonic() > deadline:
            silent = f"no sign of life of the watcher for {silent_s:g} s"
            return replace(watch, problems=(silent,))
        time.sleep(LOOK_AGAIN_S)
    return watch


def _read(path: Path) -> XidWatch:
    data = read_bytes(path, MAX_BYTES)
    if isinstance(data, Unreadable):
        return xids.parsed("", f"the watcher of XIDs left no file: {data.unreadable}")
    return xids.parsed(data.decode("utf-8", "replace"))


def _watches_nothing(watch: XidWatch) -> bool:
    """Whether the driver refused every GPU, so that the watcher has ended."""
    return watch.begun is not None and not watch.begun.watched


def _renewed(path: Path) -> int | None:
    """When the file's time was renewed; None when there is no file."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
