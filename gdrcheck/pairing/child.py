"""One endpoint child process: lines to it and from it, each under a deadline."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gdrcheck.outcome import GdrcheckError
from gdrcheck.pairing.deadline import Deadline

# How long a killed process is waited for: one in D state does not die at all.
DEATH_S = 2.0
MAX_LINE_BYTES = 1024 * 1024
CHUNK_BYTES = 64 * 1024
STEP_TAIL_BYTES = 4096


class ChildFailed(GdrcheckError):
    """The child hangs, has died, or does not keep to lines; the message says which."""


class Child:
    """A process that answers lines with lines. ``kill`` or ``close`` it.

    It stays in our process group: whoever kills that for certain takes it along.
    """

    def __init__(self, command: Sequence[str], log_path: Path) -> None:
        self._log_path = log_path
        self._buffer = bytearray()
        with log_path.open("ab") as log:
            os.fchmod(log.fileno(), 0o644)
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def ask(self, line: bytes, deadline: Deadline) -> bytes:
        """Send ``line`` and return the next one from the child.

        ChildFailed when the deadline passes or the child ends; it is then of no more use.
        """
        self._write(line, deadline)
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > MAX_LINE_BYTES:
                raise ChildFailed(f"sent a line of more than {MAX_LINE_BYTES} bytes")
            self._wait(self._stdout.fileno(), select.POLLIN, deadline)
            data = os.read(self._stdout.fileno(), CHUNK_BYTES)
            if not data:
                raise ChildFailed(self._death())
            self._buffer += data
        answer = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return answer

    def last_step(self) -> str:
        """The last line that this process wrote to its log, empty when there is none."""
        with self._log_path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, size - STEP_TAIL_BYTES))
            lines = log.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def strike(self) -> None:
        """Send it SIGKILL, from any thread; whoever waits for its answer then meets its end."""
        self._process.kill()

    def kill(self) -> str:
        """End it by SIGKILL. Returns "" when it is gone, else why it could not be ended."""
        self._process.kill()
        try:
            self._process.wait(DEATH_S)
        except subprocess.TimeoutExpired:
            return f"process {self.pid} does not die (D state): node needs a reboot"
        finally:
            self._close_pipes()
        return ""

    def close(self, deadline: Deadline) -> None:
        """End it by the end of its input; kill it when that takes longer than ``deadline``."""
        self._close_pipes()
        try:
            self._process.wait(deadline.remaining_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def _close_pipes(self) -> None:
        self._stdin.close()
        self._stdout.close()

    def _write(self, line: bytes, deadline: Deadline) -> None:
        view = memoryview(line)
        while view:
            self._wait(self._stdin.fileno(), select.POLLOUT, deadline)
            try:
                view = view[os.write(self._stdin.fileno(), view) :]
            except BrokenPipeError as error:
                raise ChildFailed(self._death()) from error

    def _wait(self, descriptor: int, event: int, deadline: Deadline) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        if not poll.poll(deadline.remaining_s * 1000):
            raise ChildFailed(f"did not end within {deadline.seconds:g} s")

    def _death(self) -> str:
        """How the process ended, for one whose pipes have closed."""
        try:
            code = self._process.wait(DEATH_S)
        except subprocess.TimeoutExpired:
            return "closed its pipes, but lives"
        if code >= 0:
            return f"exited with code {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
