"""What nodes send is unpacked without trusting it."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from gdrcheck.results import unpack

Member = tuple[tarfile.TarInfo, bytes]


def plain(name: str, content: bytes = b"x") -> Member:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    return info, content


def special(name: str, kind: bytes, target: str = "") -> Member:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info, b""


def node(run: Path, name: str, members: Sequence[Member]) -> Path:
    home = run / "nodes" / name
    home.mkdir(parents=True)
    with tarfile.open(home / unpack.ARCHIVE, "w:gz") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return home


def test_files_come_beside_the_archive(tmp_path: Path) -> None:
    home = node(tmp_path, "node1", [plain("facts.json", b"{}"), plain("rail-0.log", b"log")])
    assert unpack.unpack_all(tmp_path) == {}
    assert (home / "facts.json").read_bytes() == b"{}"
    assert (home / "rail-0.log").read_bytes() == b"log"


@pytest.mark.parametrize(
    "member",
    [
        plain("../evil"),
        plain("/evil"),
        plain("sub/evil"),
        plain(".."),
        plain(".hidden"),
        plain("a" * 200),
        plain("new\nline"),
        special("evil", tarfile.SYMTYPE, "/etc/passwd"),
        special("evil", tarfile.LNKTYPE, "facts.json"),
        special("evil", tarfile.DIRTYPE),
        special("evil", tarfile.FIFOTYPE),
        special("evil", tarfile.CHRTYPE),
    ],
)
def test_what_no_node_of_ours_sends_is_refused(tmp_path: Path, member: Member) -> None:
    home = node(tmp_path, "node1", [plain("facts.json"), member, plain("after.json")])
    assert "no plain file" in unpack.unpack_all(tmp_path)["node1"]
    assert sorted(path.name for path in home.iterdir()) == ["facts.json", unpack.ARCHIVE]
    assert sorted(path.name for path in tmp_path.rglob("*evil*")) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    home = node(tmp_path, "node1", [plain("facts.json", b"first"), plain("facts.json", b"second")])
    assert "node1" in unpack.unpack_all(tmp_path)
    assert (home / "facts.json").read_bytes() == b"first"


def test_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "MAX_TOTAL_BYTES", 10)
    monkeypatch.setattr(unpack, "MAX_FILES", 2)
    home = node(tmp_path, "node1", [plain("a", b"12345678"), plain("b", b"12345678")])
    node(tmp_path, "node2", [plain("a"), plain("b"), plain("c")])
    problems = unpack.unpack_all(tmp_path)
    assert "more than" in problems["node1"]
    assert "more than 2 files" in problems["node2"]
    assert not (home / "b").exists()


def test_damaged_archive_is_named_and_the_others_are_unpacked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = node(tmp_path, "node1", [plain("facts.json", bytes(100_000))])
    damaged = node(tmp_path, "node2", [plain("facts.json", bytes(range(256)) * 400)])
    archive = damaged / unpack.ARCHIVE
    archive.write_bytes(archive.read_bytes()[:300])
    (node(tmp_path, "node3", []) / unpack.ARCHIVE).write_bytes(b"no archive")
    assert unpack.main([str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out).keys() == {"node2", "node3"}
    assert (whole / "facts.json").stat().st_size == 100_000
