"""What the gdrcheck modules share: the container engine, a run's directory, its listener.

Runs on the nodes with nothing but Python's standard library.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time

CONTAINER_PREFIX = "gdrcheck-"
RUN_ID = re.compile(r"^\d{8}T\d{6}Z-[0-9a-f]{6}$")
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DAY_S = 86400
NOT_RUNNING = ("exited", "created", "stopped", "dead", "configured")


def problem(
    code: str, node: str, observed: str, expected: str, remedy: str, peer: str | None = None
) -> dict:
    """A finding in the shape of gdrcheck/findings/model.py; the remedy travels as evidence."""
    where = {"node": node, "peer": peer} if peer else {"node": node}
    return {
        "code": code,
        "where": where,
        "observed": observed,
        "expected": expected,
        "evidence": {"remedy": remedy},
    }


class Answer:
    """What a command answered. ``code`` is None when it did not end within its deadline."""

    def __init__(self, code: int | None, output: str, error: str) -> None:
        self.code = code
        self.output = output
        self.error = error

    @property
    def ok(self) -> bool:
        """Whether the command ended with exit status 0."""
        return self.code == 0

    def reason(self) -> str:
        """Why it is not ok, in one line."""
        if self.code is None:
            return self.error
        lines = (self.error.strip() or self.output.strip()).splitlines()
        return f"exit status {self.code}: {lines[-1] if lines else 'no output'}"


def run(argv: list[str], deadline_s: float) -> Answer:
    """Run a command without a shell; an unstartable or slow one is an Answer too."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=deadline_s, check=False
        )
    except subprocess.TimeoutExpired:
        return Answer(None, "", f"{argv[0]} {argv[1]} did not end within {deadline_s:g} s")
    except OSError as error:
        return Answer(127, "", f"{argv[0]}: {error.strerror}")
    return Answer(done.returncode, _text(done.stdout), _text(done.stderr))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def which(name: str) -> str | None:
    """The path of a program. sudo may hand over a PATH without the administrator's folders."""
    return shutil.which(name) or shutil.which(name, path=SEARCH_PATH)


class Engine:
    """podman or docker, through its command line."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = os.path.basename(path)

    @classmethod
    def find(cls, wanted: str) -> Engine | None:
        """The engine called ``wanted``; for ``auto`` podman before docker; None if not there."""
        for name in ("podman", "docker") if wanted == "auto" else (wanted,):
            path = which(name)
            if path:
                return cls(path)
        return None

    def run(self, *arguments: str, deadline_s: float = 120) -> Answer:
        """Call the engine."""
        return run([self.path, *arguments], deadline_s)

    def image_id(self, image: str) -> str | None:
        """``sha256:<hex>`` of an image that is here; None if it is not."""
        answer = self.run("image", "inspect", "--format", "{{.Id}}", image)
        words = answer.output.split()
        if not answer.ok or not words:
            return None
        return words[0] if words[0].startswith("sha256:") else f"sha256:{words[0]}"

    def containers(self) -> dict[str, bool] | Answer:
        """Our containers: run id -> whether it runs. The engine's Answer when it cannot tell."""
        answer = self.run(
            "ps",
            "--all",
            "--filter",
            f"name={CONTAINER_PREFIX}",
            "--format",
            "{{.Names}} {{.State}}",
        )
        if not answer.ok:
            return answer
        found = {}
        for line in answer.output.splitlines():
            name, _, state = line.strip().partition(" ")
            run_id = name[len(CONTAINER_PREFIX) :]
            if name.startswith(CONTAINER_PREFIX) and RUN_ID.match(run_id):
                found[run_id] = state.lower() not in NOT_RUNNING
        return found

    def remove(self, run_id: str) -> Answer:
        """End and remove the container of a run, whose name is then in the answer's output. One
        that is not there is no error."""
        answer = self.run("rm", "--force", CONTAINER_PREFIX + run_id)
        gone = "no such container" in answer.error.lower() or "no container with" in answer.error
        return Answer(0, "", "") if gone else answer


class RunDirectory:
    """``<state_dir>/runs/<run-id>``: everything of one run on a node, made by root."""

    def __init__(self, state_dir: str, run_id: str) -> None:
        if not RUN_ID.match(run_id):
            raise ValueError(f"not a run id: {run_id!r}")
        self.run_id = run_id
        self.path = os.path.join(state_dir, "runs", run_id)

    def at(self, *names: str) -> str:
        """The path of something in it."""
        return os.path.join(self.path, *names)

    def make(self, expires_in_s: float) -> None:
        """Make it, and say until when nobody else may remove it."""
        for path in (
            os.path.dirname(os.path.dirname(self.path)),
            os.path.dirname(self.path),
            self.path,
            self.at("in"),
            self.at("out"),
            self.at("host"),
        ):
            os.makedirs(path, mode=0o755, exist_ok=True)
            os.chmod(path, 0o755)
        self.expires_in(expires_in_s)

    def expires_in(self, seconds: float) -> None:
        """Later runs leave it alone for so long."""
        write(self.at("expires"), f"{time.time() + seconds:.0f}\n")

    def expired(self) -> bool:
        """Whether its run is over for sure."""
        try:
            with open(self.at("expires")) as file:
                return float(file.read()) < time.time()
        except (OSError, ValueError):
            pass
        try:
            return os.stat(self.path).st_mtime + DAY_S < time.time()
        except FileNotFoundError:
            return True

    def remove(self) -> None:
        """Remove it with all that is in it."""
        if os.path.isdir(self.path):
            shutil.rmtree(self.path)

    def remember(self, name: str, content: dict) -> None:
        """Write ``<name>.json``."""
        write(self.at(f"{name}.json"), json.dumps(content))

    def recall(self, name: str) -> dict:
        """Read ``<name>.json``; empty when there is none."""
        try:
            with open(self.at(f"{name}.json")) as file:
                content = json.load(file)
        except (FileNotFoundError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}


def write(path: str, content: str, mode: int = 0o644) -> None:
    """Write a file that a reader sees as a whole or not at all, never with wider rights."""
    draft = f"{path}.draft"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
    os.replace(draft, path)


def started_ticks(pid: int) -> int | None:
    """When a process started, in the kernel's ticks since boot; None for one that is gone.

    A pid is reused; pid and start time together are not (proc(5), field 22 of stat).
    """
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def stop_listener(directory: RunDirectory, deadline_s: float = 10) -> bool:
    """End the preflight listener of a run; whether there was one. Ends nothing else."""
    listener = directory.recall("listener")
    pid, ticks = listener.get("pid"), listener.get("started_ticks")
    if not isinstance(pid, int) or started_ticks(pid) != ticks or ticks is None:
        return False
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + deadline_s
    while started_ticks(pid) == ticks:
        if time.monotonic() > end:
            raise TimeoutError(
                f"the preflight listener, process {pid}, did not end in {deadline_s:g} s"
            )
        time.sleep(0.05)
    return True
