"""Processes that outlive the command that started them, known by process id and start time, never
by name.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError

_START_DEADLINE_S = 60.0
_KILL_DEADLINE_S = 20.0
_POLL_S = 0.02


@dataclass(frozen=True)
class Process:
    """A process of ours; the start time tells it from a later process with the same id."""

    pid: int
    start_ticks: int

    def alive(self) -> bool:
        """Whether this very process runs (a dead one that nobody has reaped does not)."""
        return start_ticks_of(self.pid) == self.start_ticks

    def kill(self) -> None:
        """End it with SIGKILL and wait until it is gone; nothing happens if it is gone. Raises
        LabError at the deadline.
        """
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            # Checked with the handle open: the id cannot pass to another process in between.
            if self.alive():
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        except ProcessLookupError:
            return
        finally:
            os.close(handle)
        deadline = time.monotonic() + _KILL_DEADLINE_S
        while self.alive():
            if time.monotonic() > deadline:
                raise LabError(
                    f"process {self.pid} is still there {_KILL_DEADLINE_S:.0f} s after SIGKILL"
                )
            time.sleep(_POLL_S)


def start_ticks_of(pid: int) -> int | None:
    """Start time of a running process in ticks since boot (proc(5), stat field 22), or None."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def daemon(command: Sequence[str], directory: Path, pid_file: Path) -> Process:
    """Start a QEMU with `-daemonize -pidfile`: it returns when the machine is made. Raises LabError
    with its message.
    """
    pid_file.unlink(missing_ok=True)
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_START_DEADLINE_S,
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{command[0]} made no machine within {_START_DEADLINE_S:.0f} s") from error
    if done.returncode != 0:
        raise LabError(f"{command[0]} did not start: {done.stderr.strip()[-800:]}")
    pid = int(pid_file.read_text())
    start_ticks = start_ticks_of(pid)
    if start_ticks is None:
        raise LabError(f"{command[0]} ended right after its start")
    return Process(pid, start_ticks)


def listening_sockets() -> set[str]:
    """Paths of the unix sockets at which a process of this host listens (proc(5), net/unix)."""
    accepting_flag = 0x10000
    rows = (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:])
    return {row[7] for row in rows if len(row) == 8 and int(row[3], 16) & accepting_flag}
