"""The node's own part of the run: ``gdrcheck node``, as the playbook's container starts it.

It runs in a process of its own, so that the pod lives to tell when that one is ended by force.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from gdrcheck.kubernetes.document import JobDocument
from gdrcheck.kubernetes.settings import Settings
from gdrcheck.node.clock import Stop
from gdrcheck.node.command import GRACE_S
from gdrcheck.node.process import PACKAGE_ROOT, describe
from gdrcheck.pairing.deadline import Deadline

# What it prints stands beside its results, as the playbook keeps the log of its container.
LOG_FILE = "container.log"
MAX_LOG_BYTES = 16 << 20
MAX_LINE_BYTES = 64 << 10
NODE_COMMAND = (sys.executable, "-m", "gdrcheck", "node")
TICK_S = 0.2
# Ended, but for what the kernel still has to do.
DEATH_S = 10.0

Say = Callable[[str], None]


def node_argv(
    settings: Settings, document: JobDocument, run_file: Path, out: Path, command: Sequence[str]
) -> list[str]:
    """The command line, the same as in the playbook's container."""
    return [
        *command,
        f"--run={run_file}",
        f"--secret={settings.secret_file}",
        f"--node={settings.node}",
        f"--out={out}",
        *([f"--lock={settings.lock}"] if settings.lock is not None else []),
        f"--present={','.join(document.present)}",
    ]


def run_node_process(
    argv: Sequence[str], out: Path, deadline: Deadline, stop: Stop, say: Say
) -> str:
    """Run ``argv`` to its end; returns why that was not an orderly one, "" when it was.

    ``say`` gets its output line by line; ``out`` gets all of it as container.log. A ``stop`` asks
    it to end; at ``deadline``, or when it does not heed, it is ended by force.
    """
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": _python_path(), "PYTHONUNBUFFERED": "1"},
    )
    reading = threading.Thread(target=_read, args=(process, out, say), daemon=True)
    reading.start()
    why = _watch(process, deadline, stop)
    reading.join(DEATH_S)
    return why


def _python_path() -> str:
    """Wherever we were started: the child must load the same gdrcheck."""
    return os.pathsep.join(filter(None, (str(PACKAGE_ROOT), os.environ.get("PYTHONPATH"))))


def _watch(process: subprocess.Popen[bytes], deadline: Deadline, stop: Stop) -> str:
    asked: Deadline | None = None
    while True:
        try:
            code = process.wait(TICK_S)
            return "" if code in (0, 1, 2) else f"the node's process: {describe(code)}"
        except subprocess.TimeoutExpired:
            _reap_orphans(process.pid)
        if stop.reason and asked is None:
            process.send_signal(signal.SIGTERM)
            asked = Deadline.after(GRACE_S)
        if deadline.expired or (asked is not None and asked.expired):
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                # One that waits in the kernel does not die, and is left behind.
                process.wait(DEATH_S)
            limit = asked or deadline
            return f"the node's process was ended by force after {limit.seconds:g} s"


def _reap_orphans(own: int) -> None:
    """Take dead processes that became ours, since we are PID 1, off the process table.

    Else the node's supervisor would find that what it killed does not die. ``own`` is left to who
    waits for it.
    """
    with suppress(ChildProcessError):
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if found.si_pid == own:
                return
            os.waitpid(found.si_pid, 0)


def _read(process: subprocess.Popen[bytes], out: Path, say: Say) -> None:
    """Take in all of its output, whatever becomes of the file: else it would wait for a reader."""
    try:
        _keep(_lines(process, say), out)
    except OSError as error:
        say(f"{LOG_FILE} cannot be written: {error.strerror}")
        for _ in _lines(process, say):
            pass


def _lines(process: subprocess.Popen[bytes], say: Say) -> Iterator[bytes]:
    """The lines, each already said; one that is too long in pieces."""
    assert process.stdout is not None
    while line := process.stdout.readline(MAX_LINE_BYTES):
        say(line.decode("utf-8", "replace").rstrip("\n"))
        yield line


def _keep(lines: Iterator[bytes], out: Path) -> None:
    left_bytes = MAX_LOG_BYTES
    with (out.parent / LOG_FILE).open("wb") as file:
        for line in lines:
            file.write(line[:left_bytes])
            left_bytes = max(0, left_bytes - len(line))
    # Not before: `gdrcheck node` wants its folder empty when it starts.
    os.replace(out.parent / LOG_FILE, out / LOG_FILE)
