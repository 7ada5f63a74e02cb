"""podman and docker as the build needs them: one class, the differences in one place."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

QUERY_DEADLINE_S = 60
PULL_DEADLINE_S = 300
BUILD_DEADLINE_S = 1800
SHOWN_LINES = 40
NO_DOCUMENTATION = (
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/man/*",
)


class BuildError(Exception):
    """The image cannot be built; the message says what to do."""


class Progress:
    """Lines with the time since the start, so that a long step is seen to be one."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._start_s = time.monotonic()

    def step(self, text: str) -> None:
        elapsed_s = time.monotonic() - self._start_s
        print(f"[image {elapsed_s:6.1f} s] {text}", file=self._stream, flush=True)


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """How a build's commands are run: arguments for the engine, and why these."""

    arguments: tuple[str, ...]
    reason: str


def choose_isolation(name: str, default_failure: str | None) -> Isolation:
    """`default_failure`: None if a command ran in the engine's own way, else what it said."""
    network = ("--network=host",)
    if default_failure is None:
        return Isolation(arguments=network, reason="the engine's default")
    if name != "podman":
        raise BuildError(f"{name} cannot run a command in a build: {default_failure}")
    return Isolation(
        arguments=("--isolation=chroot", *network),
        reason=f"chroot, since the default does not work here ({default_failure})",
    )


def choose_engine(requested: str, usable: Callable[[str], str | None]) -> str:
    """The engine to build with; `usable` says None, or why one cannot be used.

    Raises BuildError with every reason when there is none.
    """
    candidates = ["podman", "docker"] if requested == "auto" else [requested]
    reasons = []
    for name in candidates:
        reason = usable(name)
        if reason is None:
            return name
        reasons.append(f"{name}: {reason}")
    raise BuildError("no container engine to build with: " + "; ".join(reasons))


def last_line(text: str) -> str:
    """The last line that says anything; engines put the cause there."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def _capture(command: Sequence[str], deadline_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=deadline_s
        )
    except subprocess.TimeoutExpired:
        message = f"no answer within {deadline_s:.0f} s"
        return subprocess.CompletedProcess(command, 124, stdout="", stderr=message)


def _unusable(name: str) -> str | None:
    if shutil.which(name) is None:
        return "not installed"
    done = _capture([name, "info"], QUERY_DEADLINE_S)
    return None if done.returncode == 0 else last_line(done.stderr)


def find_engine(requested: str) -> Engine:
    """A usable engine; raises BuildError when there is none."""
    return Engine(choose_engine(requested, _unusable))


class Engine:
    """One container engine, used through its command line."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _run(self, *arguments: str, deadline_s: float = QUERY_DEADLINE_S) -> str:
        done = _capture([self.name, *arguments], deadline_s)
        if done.returncode != 0:
            raise BuildError(f"{self.name} {' '.join(arguments)}: {last_line(done.stderr)}")
        return done.stdout.strip()

    def warnings(self) -> list[str]:
        """What will work, but badly."""
        if self.name != "podman":
            return []
        driver = self._run("info", "--format", "{{.Store.GraphDriverName}}")
        if driver != "vfs":
            return []
        return [
            "podman stores images with vfs, a full copy per layer; install fuse-overlayfs and set"
            ' driver = "overlay" in storage.conf, then `podman system reset`'
        ]

    def image_id(self, reference: str) -> str | None:
        """The id of an image that is here; None if it is not."""
        done = _capture(
            [self.name, "image", "inspect", "--format", "{{.Id}}", reference], QUERY_DEADLINE_S
        )
        return done.stdout.strip() if done.returncode == 0 else None

    def size_bytes(self, image: str) -> int:
        """The size of all layers, uncompressed."""
        return int(self._run("image", "inspect", "--format", "{{.Size}}", image))

    def pull(self, reference: str) -> str | None:
        """None when it is here now, else the reason why it is not."""
        done = _capture([self.name, "pull", "--quiet", reference], PULL_DEADLINE_S)
        return None if done.returncode == 0 else last_line(done.stderr)

    def tag(self, image: str, reference: str) -> None:
        self._run("tag", image, reference)

    def forget_older(self, repository: str, keep: int) -> None:
        """Remove all but the newest `keep` of the images kept for their inputs."""
        listing = self._run(
            *("images", "--filter", f"reference={repository}:inputs-*"),
            *("--format", "{{.Repository}}:{{.Tag}}"),
        )
        for reference in listing.splitlines()[keep:]:
            # One that a container still uses stays; it is tried again next time.
            _capture([self.name, "rmi", reference], QUERY_DEADLINE_S)

    def import_debian(self, reference: str, *, suite: str, mirror: str | None) -> None:
        """Make a minimal Debian image from the distribution's packages."""
        if shutil.which("mmdebstrap") is None:
            raise BuildError(
                "no base image: no registry can be reached, and mmdebstrap is not installed; "
                "install it, or name an image that is here with --base-image"
            )
        with tempfile.TemporaryDirectory(prefix="gdrcheck-base-") as scratch:
            archive = str(Path(scratch) / "base.tar")
            options = [f"--dpkgopt={line}" for line in NO_DOCUMENTATION]
            source = [mirror] if mirror else []
            command = ["mmdebstrap", "--variant=minbase", *options, suite, archive, *source]
            done = _capture(command, BUILD_DEADLINE_S)
            if done.returncode != 0:
                raise BuildError(f"mmdebstrap failed:\n{done.stderr[-2000:]}")
            self._run("import", archive, reference, deadline_s=PULL_DEADLINE_S)

    def isolation(self, base: str) -> Isolation:
        """Found out by running one command in a build on `base`."""
        if self.name != "podman":
            return choose_isolation(self.name, None)
        with tempfile.TemporaryDirectory(prefix="gdrcheck-probe-") as scratch:
            (Path(scratch) / "Dockerfile").write_text(f"FROM {base}\nRUN true\n", encoding="utf-8")
            command = [self.name, "build", "--quiet", "--network=host", "--layers=false", scratch]
            done = _capture(command, QUERY_DEADLINE_S)
        if done.returncode != 0:
            return choose_isolation(self.name, last_line(done.stderr))
        self._run("rmi", last_line(done.stdout))
        return choose_isolation(self.name, None)

    def build(self, root: Path, arguments: Sequence[str], progress: Progress) -> str:
        """Build one target, showing its steps; returns the image's id.

        Raises BuildError with the end of the log and the log's path.
        """
        log = _cache_directory() / "image-build.log"
        with tempfile.TemporaryDirectory(prefix="gdrcheck-build-") as scratch:
            id_file = Path(scratch) / "id"
            plain = ["--progress=plain"] if self.name == "docker" else []
            command = [self.name, "build", *plain, "--iidfile", str(id_file), *arguments, str(root)]
            code = self._stream(command, log, progress)
            if code != 0:
                lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
                end = "\n".join(lines[-SHOWN_LINES:])
                raise BuildError(f"{end}\nthe build failed; its whole log is {log}")
            built = id_file.read_text(encoding="utf-8").strip()
        return self._run("image", "inspect", "--format", "{{.Id}}", built)

    def _stream(self, command: Sequence[str], log: Path, progress: Progress) -> int:
        environment = {**os.environ, "DOCKER_BUILDKIT": "1"}
        with (
            log.open("w", encoding="utf-8") as file,
            subprocess.Popen(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            ) as process,
        ):
            end = threading.Timer(BUILD_DEADLINE_S, process.kill)
            end.start()
            try:
                for line in process.stdout or ():
                    file.write(line)
                    step = step_of(line)
                    if step:
                        progress.step(f"  {step[:80]}")
            finally:
                end.cancel()
        return process.returncode

    def read_file(self, image: str, path: str, scratch: Path) -> str:
        """The text of a file in an image, without running anything in it."""
        # Engines want to know what it would run, though it never does.
        container = self._run("create", image, "true")
        try:
            target = scratch / Path(path).name
            self._run("cp", f"{container}:{path}", str(target))
            return target.read_text(encoding="utf-8")
        finally:
            self._run("rm", container)


def step_of(line: str) -> str | None:
    """The command that a line of podman's or docker's output announces, for people; else None."""
    if not line.startswith(("STEP ", "[", "#")) or " RUN " not in line:
        return None
    words = line.split(" RUN ", 1)[1].split()
    return " ".join(word for word in words if not word.startswith("--mount=") and word != "\\")


def _cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    directory = Path(base) / "gdrcheck"
    directory.mkdir(parents=True, exist_ok=True)
    return directory
