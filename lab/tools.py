"""Running the host's programs: each one that is missing is named with its Debian package."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.errors import LabError

PACKAGES = {
    "mmdebstrap": "mmdebstrap",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mke2fs": "e2fsprogs",
    "podman": "podman",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "tar": "tar",
    "unshare": "util-linux",
    "newuidmap": "uidmap",
}
_SYSTEM_DIRECTORIES = "/usr/local/sbin:/usr/sbin:/sbin"
_TAIL_LINES = 15


def find(program: str) -> str:
    """The path of `program` (also from the sbin directories); raises LabError naming the package to
    install.
    """
    path = shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_DIRECTORIES}")
    if path is None:
        package = PACKAGES.get(program, program)
        raise LabError(
            f"{program} is not installed: run `make setup`, or install the Debian package {package}"
        )
    return path


def run(
    program: str,
    *arguments: str | Path,
    deadline_s: float,
    env: Mapping[str, str] | None = None,
    as_root: bool = False,
) -> str:
    """Run a program of the host and return its stdout.

    With `as_root` it sees itself as root that may own files of any user id: by being root, or in a
    user namespace. Raises LabError with the last lines of its output when it fails or exceeds
    `deadline_s`.
    """
    command = [find(program), *map(str, arguments)]
    if as_root and os.geteuid() != 0:
        find("newuidmap")
        command = [find("unshare"), "--map-root-user", "--map-auto", *command]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=deadline_s,
            env={**os.environ, **(env or {})},
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(
            f"{program} did not end within {deadline_s:.0f} s: {_words(command)}"
        ) from error
    if done.returncode != 0:
        tail = "\n".join((done.stderr + done.stdout).splitlines()[-_TAIL_LINES:])
        raise LabError(f"{program} failed with status {done.returncode}: {_words(command)}\n{tail}")
    return done.stdout


def _words(command: Sequence[str]) -> str:
    return " ".join(command)[:400]
