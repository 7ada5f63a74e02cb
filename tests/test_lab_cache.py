"""The lab's cache: a whole entry is used, a broken one is built again, no half-built one stays."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import cache


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class Builder:
    """Writes the same two files each time and counts how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, draft: Path) -> None:
        self.calls += 1
        (draft / "disk").write_bytes(b"content")
        with (draft / "sparse").open("wb") as stream:
            stream.seek(1 << 20)
            stream.write(b"end")


def test_an_entry_is_built_once() -> None:
    build = Builder()
    first = cache.entry("kind", "key", build)
    assert cache.entry("kind", "key", build) == first
    assert build.calls == 1
    assert (first / "disk").read_bytes() == b"content"


def _truncate(entry: Path) -> None:
    os.truncate(entry / "disk", 3)


def _overwrite(entry: Path) -> None:
    (entry / "disk").write_bytes(b"CONTENT")
    os.utime(entry / "disk", ns=(1, 1))


def _overwrite_in_a_sparse_file(entry: Path) -> None:
    with (entry / "sparse").open("r+b") as stream:
        stream.seek(1 << 20)
        stream.write(b"END")
    os.utime(entry / "sparse", ns=(1, 1))


def _lose_a_file(entry: Path) -> None:
    (entry / "disk").unlink()


def _lose_the_manifest(entry: Path) -> None:
    (entry / cache.MANIFEST).unlink()


def _halve_the_manifest(entry: Path) -> None:
    text = (entry / cache.MANIFEST).read_text()
    (entry / cache.MANIFEST).write_text(text[: len(text) // 2])


@pytest.mark.parametrize(
    "damage",
    [
        _truncate,
        _overwrite,
        _overwrite_in_a_sparse_file,
        _lose_a_file,
        _lose_the_manifest,
        _halve_the_manifest,
    ],
)
def test_a_damaged_entry_is_built_again(damage: object, capsys: pytest.CaptureFixture[str]) -> None:
    build = Builder()
    entry = cache.entry("kind", "key", build)
    assert callable(damage)
    damage(entry)
    cache.entry("kind", "key", build)
    assert build.calls == 2
    assert (entry / "disk").read_bytes() == b"content"
    assert "is broken" in capsys.readouterr().err


def test_a_file_that_was_only_touched_is_still_whole() -> None:
    build = Builder()
    entry = cache.entry("kind", "key", build)
    os.utime(entry / "disk", ns=(1, 1))
    cache.entry("kind", "key", build)
    assert build.calls == 1


def test_a_failed_build_leaves_nothing_behind() -> None:
    def fail(draft: Path) -> None:
        (draft / "half").write_bytes(b"x")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        cache.entry("kind", "key", fail)
    home = cache.cache_directory() / "kind"
    assert [path.name for path in home.iterdir()] == ["key.lock"]


def test_what_a_killed_builder_left_is_not_taken_for_an_entry() -> None:
    draft = cache.cache_directory() / "kind" / "key.draft"
    draft.mkdir(parents=True)
    (draft / "leftover").write_bytes(b"x")
    entry = cache.entry("kind", "key", Builder())
    assert not (entry / "leftover").exists()


def test_entries_that_nobody_used_lately_make_room_for_new_ones() -> None:
    build = Builder()
    old = [cache.entry("kind", f"old{n}", build) for n in range(4)]
    for age, entry in enumerate(reversed(old)):
        os.utime(entry / cache.MANIFEST, (1000 - age, 1000 - age))
    cache.entry("kind", "old0", build)
    new = cache.entry("kind", "new", build)
    assert [entry.exists() for entry in (*old, new)] == [True, False, False, True, True]


def test_two_that_want_the_same_build_it_once() -> None:
    build = Builder()

    def slow(draft: Path) -> None:
        time.sleep(0.1)
        build(draft)

    threads = [threading.Thread(target=cache.entry, args=("kind", "key", slow)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert build.calls == 1


def test_the_key_of_a_tree_follows_names_contents_modes_and_links(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    keys = [cache.tree_key(tree)]

    def changed() -> bool:
        keys.append(cache.tree_key(tree))
        return keys.count(keys[-1]) == 1

    (tree / "a").write_text("1")
    assert changed()
    (tree / "a").write_text("2")
    assert changed()
    (tree / "a").chmod(0o755)
    assert changed()
    (tree / "a").rename(tree / "b")
    assert changed()
    (tree / "c").symlink_to("b")
    assert changed()


@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
def test_different_parts_have_different_keys(one: list[str], other: list[str]) -> None:
    assert (cache.key_of(*one) == cache.key_of(*other)) == (one == other)
