"""Reading files and asking commands of the host; writing files that are there as a whole."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

MAX_BYTES = 4 << 20
# /proc/sys refuses to fill a large buffer.
PIECE_BYTES = 1 << 16
COMMAND_S = 15
FOLDERS = (
    "usr/sbin",
    "usr/bin",
    "sbin",
    "bin",
    "usr/local/sbin",
    "usr/local/bin",
    "run/current-system/sw/bin",
)


class Unread(Exception):
    """Why a source could not be read."""


def unreadable(why: str) -> dict[str, str]:
    """What stands in host.json for a value that could not be read."""
    return {"unreadable": why}


def first_of(root: Path, *names: str) -> bytes:
    """The content of the first of these files that can be read, up to MAX_BYTES."""
    reasons = []
    for name in names:
        try:
            return content(root / name)
        except OSError as error:
            reasons.append(f"/{name}: {error.strerror}")
    raise Unread("; ".join(reasons))


def content(path: Path) -> bytes:
    """The content of a file, up to MAX_BYTES."""
    found = bytearray()
    with path.open("rb", buffering=0) as stream:
        while len(found) < MAX_BYTES:
            piece = stream.read(PIECE_BYTES)
            if not piece:
                break
            found += piece
    return bytes(found)


def find_command(root: Path, name: str) -> str:
    """Where a command lies below ``root``. PATH is not asked, since root runs what is found."""
    for folder in FOLDERS:
        path = root / folder / name
        if os.access(path, os.X_OK):
            return str(path)
    raise Unread(f"there is no {name}")


def run(root: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What a command answered within its deadline, whatever its exit status."""
    try:
        return subprocess.run(
            [find_command(root, name), *arguments],
            env={"LC_ALL": "C", "PATH": ":".join(f"/{folder}" for folder in FOLDERS)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=COMMAND_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unread(f"{name}: no answer within {COMMAND_S} s") from error
    except OSError as error:
        raise Unread(f"{name}: {error.strerror}") from error


def reason(done: subprocess.CompletedProcess[str]) -> str:
    """Why a command failed, in one line."""
    lines = done.stderr.strip().splitlines()
    return lines[-1][:200] if lines else f"exit status {done.returncode}, {done.stdout[:80]!r}"


def write(path: Path, data: bytes) -> None:
    """Writes a file, 0644, that a reader sees as a whole or not at all."""
    draft = path.with_name(f".{path.name}.draft")
    draft.write_bytes(data)
    draft.chmod(0o644)
    draft.replace(path)
