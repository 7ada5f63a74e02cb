"""What was built, kept by the content of its inputs; a broken or half-written entry is built again.

An entry is a directory below the cache directory. It is built under a temporary name, gets a
manifest with the size, time stamp and digest of each file, and is then renamed: an interrupted
build leaves no entry.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.paths import cache_directory
from lab.progress import say, step

MANIFEST = "manifest.json"
_KEY_LENGTH = 32
_CHUNK_BYTES = 1 << 22
_KEPT_ENTRIES = 3
_KEPT_S = 6 * 3600


def key_of(*parts: str | bytes) -> str:
    """A key from the content of the inputs: each part is framed by its length, so parts cannot run
    together.
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()[:_KEY_LENGTH]


def tree_key(root: Path) -> str:
    """A key from the names, modes, link targets and contents of all files below `root`."""
    parts: list[str | bytes] = []
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            parts += [name, "link", os.readlink(path)]
        elif path.is_file():
            parts += [name, oct(path.stat().st_mode & 0o777), path.read_bytes()]
    return key_of(*parts)


def entry(kind: str, key: str, build: Callable[[Path], None]) -> Path:
    """The directory of the entry `kind`/`key`, which `build` fills if it is absent or broken.

    Concurrent callers wait for the one that builds. What `build` raises goes to the caller, and
    nothing is kept.
    """
    home = cache_directory() / kind
    home.mkdir(parents=True, exist_ok=True)
    final = home / key
    with _locked(home / f"{key}.lock", f"waiting for another process that builds {kind}"):
        if final.exists():
            fault = fault_of(final)
            if fault is None:
                os.utime(final / MANIFEST)
                return final
            say(f"cache entry {final} is broken ({fault}): building it again")
            shutil.rmtree(final)
        draft = home / f"{key}.draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        try:
            build(draft)
            _seal(draft)
            draft.rename(final)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    _remove_unused(home)
    return final


def fault_of(directory: Path) -> str | None:
    """What is wrong with an entry, or None.

    A file whose time stamp is as recorded is trusted by its size; any other is read and compared by
    digest.
    """
    try:
        manifest = json.loads((directory / MANIFEST).read_text())
        recorded = {
            str(name): (int(r["size_bytes"]), int(r["mtime_ns"]), str(r["sha256"]))
            for name, r in manifest.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "no readable manifest"
    present = {str(path.relative_to(directory)) for path in _files(directory)}
    if present != set(recorded):
        return "files are not those of the manifest: " + ", ".join(sorted(present ^ set(recorded)))
    for name, (size_bytes, mtime_ns, digest) in recorded.items():
        status = (directory / name).stat()
        if status.st_size != size_bytes:
            return f"{name} has {status.st_size} bytes instead of {size_bytes}"
        if status.st_mtime_ns != mtime_ns and _digest(directory / name) != digest:
            return f"{name} has another content"
    return None


def _remove_unused(home: Path) -> None:
    """Keep the entries of a kind that were used last, and what a running lab may still use."""
    used = sorted((path.stat().st_mtime, path.parent) for path in home.glob(f"*/{MANIFEST}"))
    for last_use_s, directory in used[:-_KEPT_ENTRIES]:
        if time.time() - last_use_s > _KEPT_S:
            shutil.rmtree(directory)


def _seal(directory: Path) -> None:
    manifest = {}
    for path in _files(directory):
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
        status = path.stat()
        manifest[str(path.relative_to(directory))] = {
            "size_bytes": status.st_size,
            "mtime_ns": status.st_mtime_ns,
            "sha256": _digest(path),
        }
    with (directory / MANIFEST).open("w") as stream:
        json.dump(manifest, stream, indent=1)
        stream.flush()
        os.fsync(stream.fileno())


def _files(directory: Path) -> Iterable[Path]:
    return (p for p in sorted(directory.rglob("*")) if p.is_file() and p.name != MANIFEST)


def _digest(path: Path) -> str:
    """Digest of the data extents and their places: holes of a sparse disk image are not read."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        end = stream.seek(0, os.SEEK_END)
        offset = 0
        while offset < end:
            try:
                start = os.lseek(stream.fileno(), offset, os.SEEK_DATA)
            except OSError:
                break
            offset = os.lseek(stream.fileno(), start, os.SEEK_HOLE)
            digest.update(f"{start}+{offset - start}:".encode())
            for place in range(start, offset, _CHUNK_BYTES):
                digest.update(os.pread(stream.fileno(), min(_CHUNK_BYTES, offset - place), place))
    return digest.hexdigest()


@contextmanager
def _locked(path: Path, waiting: str) -> Iterator[None]:
    with path.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with step(waiting):
                fcntl.flock(stream, fcntl.LOCK_EX)
        yield
