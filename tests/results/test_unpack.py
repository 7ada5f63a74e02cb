"""What nodes send is unpacked without trusting it."""

from __future__ import annotations

import gzip
import io
import json
import os
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


def packed(run: Path, name: str, *blocks: bytes, end: bytes = bytes(1024)) -> Path:
    """A node's home with an archive of these bytes."""
    home = run / "nodes" / name
    home.mkdir(parents=True)
    (home / unpack.ARCHIVE).write_bytes(gzip.compress(b"".join(blocks) + end, 1))
    return home


def header(
    name: str = "facts.json", size: int = 0, kind: bytes = tarfile.REGTYPE, body: bytes = b""
) -> bytes:
    """The header of a member, and its content filled up to whole blocks."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size or len(body)
    return info.tobuf(tarfile.GNU_FORMAT) + body + bytes(-len(body) % 512)


def test_an_archive_as_a_node_packs_it(tmp_path: Path) -> None:
    """Its times have fractions of a second, which tarfile writes in headers of their own."""
    (tmp_path / "facts.json").write_text("{}")
    os.utime(tmp_path / "facts.json", (1.5, 1.5))
    home = tmp_path / "nodes" / "node1"
    home.mkdir(parents=True)
    with tarfile.open(home / unpack.ARCHIVE, "w:gz", compresslevel=3) as archive:
        archive.add(tmp_path / "facts.json", arcname="facts.json", recursive=False)
        archive.add(tmp_path / "facts.json", arcname="more.json", recursive=False)
    assert b"mtime=1.5" in gzip.decompress((home / unpack.ARCHIVE).read_bytes())
    assert unpack.unpack_all(tmp_path) == {}
    assert (home / "facts.json").read_text() == (home / "more.json").read_text() == "{}"


@pytest.mark.parametrize(
    "blocks",
    [
        [header("x", kind=tarfile.GNUTYPE_LONGNAME, body=b"a\0")] * 3000,
        [header("x", kind=tarfile.XHDTYPE, body=b"13 mtime=1.5\n")] * 3000,
        [header("x", 1 << 40, kind=tarfile.XHDTYPE)],
        [header("x", kind=tarfile.XHDTYPE, body=b"14 path=/evil\n"), header()],
        [header("x", kind=tarfile.XHDTYPE, body=b"12 size=-99\n"), header()],
        [header("x", kind=tarfile.XHDTYPE, body=b"13 mtime=1.5\n")],
        [header("x", kind=tarfile.GNUTYPE_SPARSE)],
        [header("x", -1)],
        [header("x", 1 << 40)],
        [header("x", 100_000)],
        [b"\xff" * 512],
        [header(), bytes(200_000)],
    ],
    ids=[
        *("long names nested", "times nested", "long header", "other path", "other size"),
        *("header of no file", "sparse", "negative", "huge", "more than comes", "garbage"),
        "more after the end",
    ],
)
def test_archives_made_to_harm(tmp_path: Path, blocks: Sequence[bytes]) -> None:
    packed(tmp_path, "node1", *blocks)
    whole = packed(tmp_path, "node2", header(body=b"{}"))
    problems = unpack.unpack_all(tmp_path)
    assert problems.keys() == {"node1"}
    assert problems["node1"].startswith(unpack.ARCHIVE)
    assert not (tmp_path / "nodes" / "node1" / "x").is_file() or "too early" in problems["node1"]
    assert (whole / "facts.json").read_bytes() == b"{}"


@pytest.mark.parametrize("end", [b"", bytes(100)])
def test_an_archive_without_its_end(tmp_path: Path, end: bytes) -> None:
    packed(tmp_path, "node1", header(body=b"{}"), end=end)
    assert "ends too early" in unpack.unpack_all(tmp_path)["node1"]


def test_what_was_changed_on_its_way_is_noticed(tmp_path: Path) -> None:
    home = packed(tmp_path, "node1", header(body=b"{}"))
    data = bytearray((home / unpack.ARCHIVE).read_bytes())
    data[-6] ^= 1
    (home / unpack.ARCHIVE).write_bytes(data)
    assert "CRC" in unpack.unpack_all(tmp_path)["node1"]


def test_archives_that_are_no_files(tmp_path: Path) -> None:
    homes = [tmp_path / "nodes" / name for name in ("link", "pipe", "folder")]
    for home in homes:
        home.mkdir(parents=True)
    link, pipe, folder = (home / unpack.ARCHIVE for home in homes)
    link.symlink_to("/etc/passwd")
    os.mkfifo(pipe)
    folder.mkdir()
    assert unpack.unpack_all(tmp_path).keys() == {"link", "pipe", "folder"}
