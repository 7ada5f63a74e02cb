"""One pytest process: started in a session of its own, ended for certain."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

# How long Python's faulthandler gets to write the stacks of all threads to the log.
DUMP_S = 2.0
# A killed process that is still there after this waits in the kernel: nothing can end it.
DEATH_S = 5.0
POLL_S = 0.1
PACKAGE_ROOT = Path(__file__).resolve().parents[2]


class CheckProcess:
    """A child process with its output in a log. ``end`` it, or use ``with``."""

    def __init__(self, argv: Sequence[str], log: Path, cwd: Path) -> None:
        self._ended = False
        environment = {
            # Options of pytest from elsewhere could take checks away.
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
            # Wherever we were started: the child must load the same gdrcheck.
            "PYTHONPATH": os.pathsep.join(
                filter(None, (str(PACKAGE_ROOT), os.environ.get("PYTHONPATH")))
            ),
            # Plugins that happen to be installed cost time and may change what a result means.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }
        with log.open("ab") as stream:
            os.fchmod(stream.fileno(), 0o644)
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=environment,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id, also that of its session and process group."""
        return self._process.pid

    def poll(self) -> int | None:
        """The return code (negative: the signal that killed it), None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """Like ``poll``, after waiting for at most ``seconds``."""
        try:
            return self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return None

    def end(self, *, dump_stacks: bool = False) -> str:
        """Kill the process and all of its group; ``dump_stacks`` has it write them first.

        Returns "" when it is gone, else why it could not be ended. Waits seconds at most.
        """
        if self._ended:
            return ""
        self._ended = True
        if dump_stacks and self.poll() is None:
            os.kill(self.pid, signal.SIGABRT)
            self.wait(DUMP_S)
        deadline = time.monotonic() + DEATH_S
        # Also after a death of its own: children in its group would keep the devices open.
        while self._kill_group():
            if time.monotonic() > deadline:
                break
            if self.poll() is not None:
                _reap_group(self.pid)
            time.sleep(POLL_S)
        else:
            return ""
        stuck = _in_kernel(self.pid)
        state = f"in D state ({stuck})" if stuck else "does not die"
        return f"process {self.pid} {state}: node needs a reboot"

    def _kill_group(self) -> bool:
        """Whether the group still had a process to kill."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def __enter__(self) -> CheckProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()


def pytest_argv(checks: Path, phase: str, options: Sequence[str], file: str = "") -> list[str]:
    """The command line for ``checks``/``phase``, or for ``file`` in there alone.

    It depends on no configuration file.
    """
    return [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        "/dev/null",
        f"--rootdir={checks.parent}",
        f"--confcutdir={checks}",
        "-p",
        "gdrcheck.results.plugin",
        "-p",
        "no:cacheprovider",
        "-o",
        "python_files=check_*.py",
        "-o",
        "python_functions=check_*",
        "-o",
        "strict_parametrization_ids=true",
        # One broken file must not keep the others from running; it is recorded by the plugin.
        "--continue-on-collection-errors",
        "--strict-markers",
        "--tb=short",
        "-v",
        *options,
        str(checks / phase / file),
    ]


def describe(returncode: int) -> str:
    """``killed by SIGSEGV`` or ``process exited with 3``."""
    if returncode >= 0:
        return f"process exited with {returncode}"
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"killed by signal {-returncode}"


def _reap_group(group: int) -> None:
    """Take the dead of ``group`` off the process table: they are ours when we are PID 1."""
    try:
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _in_kernel(pid: int) -> str:
    """The names of the threads of ``pid`` that wait uninterruptibly, empty if there are none."""
    names = []
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        # The name is in parentheses and may hold anything, so split after its end.
        name, _, rest = text.partition("(")[2].rpartition(")")
        if rest.split()[0] == "D":
            names.append(name)
    return ", ".join(names)
