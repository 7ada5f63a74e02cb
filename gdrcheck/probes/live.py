"""Sources that only a live machine has: a driver or a library that must be asked.

A call into a driver may hang, so it is made in a child process with a deadline. A tree that is not
the live root holds the recorded answer instead.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gdrcheck.facts import Unreadable
from gdrcheck.probes.reading import read_bytes

LIVE_ROOT = Path("/")
RECORDS = "run/gdrcheck/recorded"
MAX_BYTES = 4 << 20
# How long a killed child may take to go. One that sits in a driver call (state D) goes later.
KILL_S = 1.0
STUCK = "it cannot be killed and sits in a driver call (state D): the node needs a reboot"


@dataclass(frozen=True, slots=True)
class Said:
    """What a child printed before it ended, and why that is not all; None when it is."""

    printed: bytes
    failure: Unreadable | None


def answer(root: Path, module: str, record: str, deadline_s: float) -> bytes | Unreadable:
    """What ``python -m module`` prints; below another root the file ``record`` of its records.

    The child writes what it is about to do to its standard error, a line each: when the deadline
    passes, the last line is in the reason.
    """
    said = listen(root, module, record, deadline_s)
    return said.printed if said.failure is None else said.failure


def listen(root: Path, module: str, record: str, deadline_s: float) -> Said:
    """As ``answer``, with what was printed before a failure."""
    if root != LIVE_ROOT:
        recorded = read_bytes(root / RECORDS / record, MAX_BYTES)
        return Said(b"", recorded) if isinstance(recorded, Unreadable) else Said(recorded, None)
    return _run((sys.executable, "-m", module), deadline_s)


def ask(command: tuple[str, ...], deadline_s: float) -> bytes | Unreadable:
    """The standard output of ``command``, or why it gave none in time; its last word names it.

    The child is ended before this returns, unless the kernel does not let go of it: then it is
    left behind, and the reason says so.
    """
    said = _run(command, deadline_s)
    return said.printed if said.failure is None else said.failure


def _run(command: tuple[str, ...], deadline_s: float) -> Said:
    name = Path(command[-1]).name
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        return _failed(b"", f"{name}: cannot be started: {error.strerror}")
    try:
        printed, complaints = child.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired as late:
        gone = _end(child)
        why = f"{name}: no answer within {deadline_s:g} s, at: {_last_line(late.stderr)}"
        return _failed(late.stdout or b"", why if gone else f"{why}; {STUCK}")
    if child.returncode:
        how = _ended(child.returncode)
        return _failed(printed, f"{name}: {how}: {_last_line(complaints)}")
    return Said(printed, None)


def _failed(printed: bytes, why: str) -> Said:
    return Said(printed, Unreadable(unreadable=why))


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
