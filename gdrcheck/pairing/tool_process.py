"""A program that measures by itself: started, waited for, and ended for certain."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gdrcheck.pairing.child import DEATH_S

_TAIL_BYTES = 2000


class ToolProcess:
    """A process with its output in a log. ``kill`` it in any case.

    It stays in our process group, and starts no others: whoever kills that group takes it along.
    OSError if it cannot be started.
    """

    def __init__(self, command: Sequence[str], log_path: Path) -> None:
        self._log_path = log_path
        with log_path.open("ab") as log:
            os.fchmod(log.fileno(), 0o644)
            log.write(f"{' '.join(command)}\n".encode())
            log.flush()
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def wait(self, seconds: float) -> int | None:
        """The return code (negative: the signal that killed it), None if it runs on after that."""
        try:
            return self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> str:
        """End it by SIGKILL unless it has ended. Returns "" when it is gone, else why it is not."""
        if self._process.poll() is None:
            self._process.kill()
        if self.wait(DEATH_S) is None:
            return f"process {self.pid} does not die (D state): node needs a reboot"
        return ""

    def said(self) -> str:
        """The last that it wrote, on one line."""
        with self._log_path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, size - _TAIL_BYTES))
            text = log.read().decode(errors="replace")
        lines = (" ".join(line.split()) for line in text.splitlines())
        return " | ".join(line for line in lines if line.strip("- "))


def ending(code: int) -> str:
    """``exited with code 1`` or ``was killed by SIGSEGV``."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
