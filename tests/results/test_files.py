"""Files from nodes are read up to their limit, whatever they say of their size."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from gdrcheck.results.files import PART_BYTES, holds, read_limited, read_start, write_atomic


@pytest.mark.parametrize("size", [0, 1, 9, 10])
def test_a_file_up_to_the_limit_is_read_whole(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * size)
    assert read_limited(path, 10) == b"x" * size


def test_a_longer_file_is_refused_and_its_start_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with pytest.raises(ValueError, match="longer than 9 bytes"):
        read_limited(path, 9)
    assert read_start(path, 4) == b"0123"


def test_a_file_that_does_not_tell_its_size_is_read_whole() -> None:
    path = Path("/proc/self/status")
    assert path.stat().st_size == 0
    assert read_limited(path, 1 << 20).splitlines()[0].startswith(b"Name:")


def test_a_link_and_a_pipe_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="link"):
        read_limited(tmp_path / "link", 10)
    with pytest.raises(ValueError, match="is not a regular file"):
        read_limited(tmp_path / "pipe", 10)


@pytest.mark.parametrize("size", [0, 1, PART_BYTES - 1, PART_BYTES, 2 * PART_BYTES + 1])
def test_a_file_holds_its_own_bytes_and_no_others(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    data = bytes(number % 251 for number in range(size))
    path.write_bytes(data)
    assert holds(path, data)
    assert not holds(path, data + b"x")
    for place in {0, size // 2, size - 1} if size else ():
        assert not holds(path, data[:place] + b"\xff" + data[place + 1 :])
        assert not holds(path, data[:place])


def test_a_file_that_does_not_tell_its_size_is_not_compared() -> None:
    path = Path("/proc/self/cmdline")
    assert path.stat().st_size == 0
    assert not holds(path, path.read_bytes())


def test_a_link_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(OSError, match="link"):
        holds(tmp_path / "link", b"x")


def test_a_file_that_cannot_be_written_leaves_what_was_there_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "summary.json"
    write_atomic(path, b"before")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left on device") as raised:
        write_atomic(path, b"after")
    assert raised.value.filename == str(path)
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [(path.name, b"before")]
    with pytest.raises(OSError, match=re.escape(str(tmp_path / "no/summary.json"))):
        write_atomic(tmp_path / "no/summary.json", b"")
