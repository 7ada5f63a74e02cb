"""Sources that only a live machine has: a driver or a library that must be asked.

A call into a driver may hang, so it is made in a child process with a deadline. A tree that is not
the live root holds the recorded answer instead.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from gdrcheck.facts import Unreadable
from gdrcheck.probes.reading import read_bytes

LIVE_ROOT = Path("/")
RECORDS = "run/gdrcheck/recorded"
MAX_BYTES = 4 << 20
# How long a killed child may take to go. One that sits in a driver call (state D) goes later.
KILL_S = 1.0
STUCK = "it cannot be killed and sits in a driver call (state D): the node needs a reboot"


def answer(root: Path, module: str, record: str, deadline_s: float) -> bytes | Unreadable:
    """What ``python -m module`` prints; below another root the file ``record`` of its records.

    The child writes what it is about to do to its standard error, a line each: when the deadline
    passes, the last line is in the reason.
    """
    if root != LIVE_ROOT:
        return read_bytes(root / RECORDS / record, MAX_BYTES)
    return ask((sys.executable, "-m", module), deadline_s)


def ask(command: tuple[str, ...], deadline_s: float) -> bytes | Unreadable:
    """The standard output of ``command``, or why it gave none in time; its last word names it.

    The child is ended before this returns, unless the kernel does not let go of it: then it is
    left behind, and the reason says so.
    """
    name = Path(command[-1]).name
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        return Unreadable(unreadable=f"{name}: cannot be started: {error.strerror}")
    try:
        printed, complaints = child.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired as late:
        gone = _end(child)
        why = f"{name}: no answer within {deadline_s:g} s, at: {_last_line(late.stderr)}"
        return Unreadable(unreadable=why if gone else f"{why}; {STUCK}")
    if child.returncode:
        how = _ended(child.returncode)
        return Unreadable(unreadable=f"{name}: {how}: {_last_line(complaints)}")
    return printed


def _end(child: subprocess.Popen[bytes]) -> bool:
    """Kills the child and closes its pipes; returns whether it is gone."""
    child.kill()
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    try:
        child.wait(timeout=KILL_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _ended(status: int) -> str:
    if status > 0:
        return f"ended with status {status}"
    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"ended by signal {-status}"


def _last_line(complaints: bytes | None) -> str:
    lines = (complaints or b"").decode("utf-8", "replace").split("\n")
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "its start")
