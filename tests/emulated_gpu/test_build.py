"""Building: once per content of the sources, and never for a libc that the nodes do not have."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lab.emulated_gpu import build
from lab.errors import LabError


@pytest.fixture
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_all_three_libraries_have_their_names() -> None:
    folder = build.build()
    assert {path.name for path in folder.iterdir()} >= set(build.LIBRARIES)
    for name in build.LIBRARIES:
        assert name.encode() + b"\0" in (folder / name).read_bytes()


def test_what_is_built_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = build.build()

    def refuse(folder: Path) -> None:
        raise AssertionError(f"compiled again into {folder}")

    monkeypatch.setattr(build, "_compile", refuse)
    assert build.build() == first


@pytest.mark.usefixtures("_own_cache")
def test_another_source_is_another_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Path] = []
    monkeypatch.setattr(build, "_compile", compiled.append)
    shutil.copytree(build.SOURCES, tmp_path / "sources")
    shutil.copytree(build.KERNELS, tmp_path / "kernels")
    monkeypatch.setattr(build, "SOURCES", tmp_path / "sources")
    monkeypatch.setattr(build, "KERNELS", tmp_path / "kernels")
    folders = {build.build()}
    for changed in ("sources/pool.c", "kernels/kernels.ptx", "kernels/pattern.h"):
        with (tmp_path / changed).open("a") as stream:
            stream.write("\n")
        folders.add(build.build())
    assert len(folders) == len(compiled) == 4


@pytest.mark.usefixtures("_own_cache")
def test_what_gcc_complains_of_is_shown_and_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(build.SOURCES, tmp_path / "sources")
    (tmp_path / "sources" / "pool.c").write_text("int pool_used(void) { return nothing; }\n")
    monkeypatch.setattr(build, "SOURCES", tmp_path / "sources")
    with pytest.raises(LabError, match=r"pool\.c"):
        build.build()
    assert not list((tmp_path / "cache").rglob("*.so*"))


def test_a_host_without_gcc_is_told_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(LabError, match="Debian package gcc"):
        build.build()


@pytest.mark.usefixtures("_own_cache")
@pytest.mark.parametrize(
    ("libc", "good"),
    [
        ("glibc 2.36", True),
        ("glibc 2.41", True),
        ("glibc 2.42", False),
        ("glibc 3.0", False),
        ("musl 1.2", False),
    ],
)
def test_a_newer_libc_is_refused(monkeypatch: pytest.MonkeyPatch, libc: str, good: bool) -> None:
    monkeypatch.setattr(os, "confstr", lambda _: libc)
    monkeypatch.setattr(build, "LIBRARIES", {})
    if good:
        build.build()
    else:
        with pytest.raises(LabError, match=r"glibc 2\.41 or older"):
            build.build()
