"""The pods of a Job as processes on this machine, each at a loopback address of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_S = 600.0
SECRET = "5a" * 32
PROFILE = """---
gpus: {count: 0}
rails:
  count: 1
  nics: [{name: "rxe*"}]
  port_rate_gbps: 10
  link_layer: ethernet
"""


class PodProcess:
    """One pod. Its log is what a container runtime would keep."""

    def __init__(self, root: Path, environment: dict[str, str]) -> None:
        self.root = root
        self.log = root / "pod.log"
        with self.log.open("wb") as stream:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.kubernetes.pod_process"],
                cwd=REPOSITORY,
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        """What it has printed so far."""
        return self.log.read_text()

    def says(self, text: str) -> None:
        """Wait until it has printed ``text``."""
        end = time.monotonic() + PATIENCE_S
        while text not in self.text:
            assert self._process.poll() is None or text in self.text, self.text
            assert time.monotonic() < end, self.text
            time.sleep(0.05)

    def exit_code(self) -> int:
        """Wait for its end."""
        try:
            return self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(self.text) from None

    def terminate(self) -> None:
        """As the kubelet ends a pod, at first."""
        self._process.terminate()

    def kill(self) -> None:
        """As the kernel ends a pod that takes too much memory: all of it at once."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self._process.wait()

    def run_folder(self) -> Path:
        """The folder of the run on index 0's volume."""
        return (self.root / "results/latest").resolve()

    def summary(self) -> dict[str, object]:
        """The summary on index 0's volume."""
        found = json.loads((self.run_folder() / "summary.json").read_text())
        assert isinstance(found, dict)
        return found


class Job:
    """Pods of one Job; index 0 is at 127.0.0.10, and so on."""

    def __init__(self, root: Path, pods: int, time_scale: float) -> None:
        self.root = root
        self.pods = pods
        self.time_scale = time_scale
        self.port = free_port()
        self.started: list[PodProcess] = []

    def start(
        self,
        index: int,
        *,
        secret: str = SECRET,
        profile: str = PROFILE,
        arrival_s: float = PATIENCE_S,
        **more: str,
    ) -> PodProcess:
        """Start the pod of ``index`` on its node, node1 for index 0."""
        root = self.root / f"pod{index}-{len(self.started)}"
        for name in ("profile", "secret", "results"):
            (root / name).mkdir(parents=True)
        (root / "profile/soft.yml").write_text(profile)
        (root / "secret/secret").write_text(secret)
        environment = {
            "POD_ROOT": str(root),
            "JOB_COMPLETION_INDEX": str(index),
            "NODE_NAME": f"node{index + 1}",
            "POD_IP": f"127.0.0.{10 + index}",
            "GDRCHECK_PODS": str(self.pods),
            "GDRCHECK_LEADER": "127.0.0.10",
            "GDRCHECK_PORT": str(self.port),
            "GDRCHECK_ARRIVAL_S": str(arrival_s),
            "GDRCHECK_TIME_SCALE": str(self.time_scale),
        }
        pod = PodProcess(root, environment | more)
        self.started.append(pod)
        return pod


@contextmanager
def job(root: Path, pods: int, *, impatient: bool = False) -> Iterator[Job]:
    """A Job none of whose processes is left at the end. ``impatient``: a pod of which nothing is
    heard is given up soon."""
    made = Job(root, pods, 0.3 if impatient else 1)
    try:
        yield made
    finally:
        for pod in made.started:
            pod.kill()


def free_port() -> int:
    """A port that is free, as is the next one, at every loopback address."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("", 0))
            port = int(one.getsockname()[1])
            try:
                two.bind(("", port + 1))
            except (OSError, OverflowError):
                continue
            return port
