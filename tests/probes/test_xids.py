"""Reading the file of a watcher that lives, hangs or is dead."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gdrcheck import xids
from gdrcheck.probes.xids import read_watch
from gdrcheck.xids import Line, WatchBegun, WatchTrouble, XidSeen

SLOT = "0000:1b:00.0"
TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BEGUN = WatchBegun(time=TIME, watched=(SLOT,))
SILENT_S, PATIENCE_S = 0.3, 30.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "xids.jsonl"


def told(path: Path, *lines: Line) -> None:
    # As a whole: the watcher appends lines, and never leaves an empty file behind.
    draft = path.with_name("draft")
    draft.write_text("".join(map(xids.written, lines)))
    draft.replace(path)


@contextmanager
def soon(act: Callable[[], None]) -> Iterator[None]:
    """Does something while the reader waits."""
    timer = threading.Timer(0.3, act)
    timer.start()
    try:
        yield
    finally:
        timer.join()


# One killed a moment ago, one stopped long ago, and one whose clock went ahead of the reader's.
@pytest.mark.parametrize("age_s", [0, 3600, -3600])
def test_a_watcher_that_gives_no_sign_any_more_is_no_proof(path: Path, age_s: float) -> None:
    told(path, BEGUN)
    os.utime(path, (time.time() - age_s,) * 2)
    watch = read_watch(path, SILENT_S)
    assert watch.begun == BEGUN
    assert "no sign of life of the watcher for 0.3 s" in str(watch.doubt(SLOT))


def test_what_a_living_watcher_tells_meanwhile_is_read(path: Path) -> None:
    told(path, BEGUN)
    with soon(lambda: told(path, BEGUN, XidSeen(time=TIME, slot=SLOT, xid=79))):
        watch = read_watch(path, PATIENCE_S)
    assert [one.xid for one in watch.of(SLOT)] == [79]
    assert watch.doubt(SLOT) is None


def test_a_watcher_that_begins_meanwhile_is_waited_for(path: Path) -> None:
    told(path)
    with soon(lambda: told(path, BEGUN)):
        assert read_watch(path, PATIENCE_S).begun == BEGUN


@pytest.mark.parametrize(
    "lines",
    [
        (BEGUN, WatchTrouble(time=TIME, problem="NVML: it ended")),
        (BEGUN.model_copy(update={"watched": (), "refused": {SLOT: "Not Supported"}}),),
    ],
)
def test_a_watcher_that_says_that_it_ended_is_not_waited_for(
    path: Path, lines: tuple[Line, ...]
) -> None:
    told(path, *lines)
    assert "no sign of life" not in str(read_watch(path, 0.0).doubt(SLOT))


def test_a_file_that_is_too_large_or_cut_is_no_proof(path: Path) -> None:
    path.write_bytes(b"x" * (2 << 20))
    assert "larger than" in str(read_watch(path, PATIENCE_S).doubt(SLOT))
    path.write_text(xids.written(BEGUN) + xids.written(BEGUN)[:20])
    assert "line 2 of the watcher is not readable" in str(read_watch(path, PATIENCE_S).doubt(SLOT))
    path.unlink()
    assert "left no file" in str(read_watch(path, PATIENCE_S).doubt(SLOT))
