"""The probe of the process that asks: limits, capabilities, user, page size."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from gdrcheck.probes.process import read_limits, read_page_bytes
from tests.probes.test_host import AUXV, LIMITS, tree, why


def test_limits_are_those_of_the_tree_not_of_this_process(tmp_path: Path) -> None:
    found = read_limits(tree(tmp_path))
    assert (found.memlock_soft_bytes, found.memlock_hard_bytes) == (8 << 20, None)
    assert (found.effective_capabilities, found.uid) == (1 << 14, 0)
    assert read_page_bytes(tmp_path) == 65536


def test_limits_of_this_process_are_what_it_has() -> None:
    found = read_limits(Path("/"))
    assert found.uid == os.geteuid()
    assert isinstance(found.effective_capabilities, int)
    assert read_page_bytes(Path("/")) == os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("status", ""),
        ("status", "Name:\tx\nCapEff:\tzz\nUid:\t0\t0\n"),
        ("limits", LIMITS.replace("8388608", "many   ")),
        ("limits", LIMITS.splitlines()[0]),
    ],
)
def test_a_broken_file_of_the_process_is_unreadable(tmp_path: Path, file: str, text: str) -> None:
    tree(tmp_path, **{f"proc/self/{file}": text})
    found = read_limits(tmp_path)
    values = {
        "status": (found.effective_capabilities, found.uid),
        "limits": (found.memlock_soft_bytes, found.memlock_hard_bytes),
    }
    assert all(why(value).startswith(file) for value in values[file])


@pytest.mark.parametrize("data", [b"", AUXV[:17], b"\xff" * 64, struct.pack("<QQ", 6, 4097)])
def test_a_broken_auxiliary_vector_holds_no_page_size(tmp_path: Path, data: bytes) -> None:
    tree(tmp_path)
    (tmp_path / "proc/self/auxv").write_bytes(data)
    assert "auxv" in why(read_page_bytes(tmp_path))
