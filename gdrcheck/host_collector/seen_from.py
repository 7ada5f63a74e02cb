"""Reading the host from a container: as the host's first process sees it."""

from __future__ import annotations

import codecs
import ctypes
import os
from pathlib import Path

CLONE_NEWNS = 0x00020000
# Python loads these when they are first used, and then from the files that it sees.
CODECS = ("ascii", "utf-8", "latin-1")


def enter(process: Path, out: Path) -> Path:
    """Sees from now on the mounts that the process with the folder ``process`` in /proc sees.

    Returns a path by which ``out`` can still be written to. OSError when it may not be entered,
    which takes CAP_SYS_ADMIN and CAP_SYS_PTRACE. For a process of one thread.
    """
    for name in CODECS:
        codecs.lookup(name)
    libc = ctypes.CDLL(None, use_errno=True)
    folder = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    place = process / "ns/mnt"
    mounts = os.open(place, os.O_RDONLY)
    try:
        # os.setns came with Python 3.12.
        if libc.setns(mounts, CLONE_NEWNS) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(place))
    finally:
        os.close(mounts)
    return Path(f"/proc/self/fd/{folder}")
