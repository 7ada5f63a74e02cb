"""The pods of a rendered Job on the lab's nodes, by ``podman kube play``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lab import api
from tests.commands.support import Done, run
from tests.kubernetes.kube_play import Seat, playable
from tests.kubernetes.rendering import Rendered
from tests.lab.conftest import IMAGE
from tests.lab.warm import Merged

PROFILE = Path(__file__).resolve().parents[2] / "lab/inventory/profiles/lab.yml"
PATIENCE_S = 900.0
MARK = "GDRCHECK|"


def render(folder: Path, nodes: int, *options: str | Path) -> Rendered:
    """A Job for the lab; the seat of a pod says which node it is on."""
    folder.mkdir(parents=True, exist_ok=True)
    done = run(
        *("kubernetes", "render", "--profile", PROFILE, "--nodes", str(nodes)),
        *("--image", IMAGE, "--overlay", "rdma-shared", "--rdma-resource", "rdma/lab=1"),
        *("--time-scale", "3", "--out", folder / "job", *options),
    )
    assert done.code == 0, done.err
    return Rendered(folder / "job")


@dataclass
class PlayedPod:
    """A pod that was started on a node."""

    node: api.Node
    seat: Seat
    manifest: str

    @property
    def container(self) -> str:
        """As podman calls it."""
        return f"{self.seat.pod}-gdrcheck"

    def exit_code(self) -> int:
        """Wait for its end."""
        done = self.node.ssh(f"sudo podman wait {self.container}", timeout_s=PATIENCE_S, check=True)
        return int(done.stdout.split()[-1])

    def text(self) -> str:
        """What it has printed so far."""
        return self.node.ssh(f"sudo podman logs {self.container}").stdout

    def words(self) -> str:
        """What it has printed for people: all but the lines of its results."""
        return "\n".join(line for line in self.text().splitlines() if MARK not in line)

    def says(self, text: str) -> None:
        """Wait until it has printed ``text``."""
        end = time.monotonic() + PATIENCE_S
        while text not in (said := self.words()):
            assert time.monotonic() < end, said
            time.sleep(1)

    def kill(self) -> None:
        """As the kernel ends one that takes too much memory."""
        self.node.ssh(f"sudo podman kill --signal KILL {self.container}", check=True)

    def remove(self) -> None:
        """The pod, and the volumes and the secret that were made for it."""
        if self.node.running:
            self.node.ssh("sudo podman kube down --force -", input_text=self.manifest)


@dataclass
class PlayedJob:
    """The pods of a Job, as far as they were started."""

    folder: Path
    nodes: Sequence[api.Node]
    pods: list[PlayedPod] = field(default_factory=list)

    def start(self, job: Rendered, index: int) -> PlayedPod:
        """Start the pod of ``index`` on the node of that place."""
        node = self.nodes[index]
        leader = self.nodes[0].control_address
        seat = Seat(index, node.name, node.control_address, leader)
        pod = PlayedPod(node, seat, playable(job, seat))
        self.pods.append(pod)
        node.ssh("sudo podman kube play -", input_text=pod.manifest, check=True)
        return pod

    def collect(self, *pods: PlayedPod) -> tuple[Done, Merged]:
        """What ``gdrcheck collect`` makes of the logs of ``pods`` (default: of all)."""
        logs = []
        for pod in pods or self.pods:
            logs.append(self.folder / f"{pod.seat.pod}.log")
            logs[-1].write_text(pod.text())
        done = run("collect", "--from-log", *logs, "--out", self.folder / "results")
        place = (self.folder / "results/latest").resolve()
        summary = json.loads((place / "summary.json").read_text())
        return done, Merged(summary, place, done.code, done.out)


@contextmanager
def played(folder: Path, nodes: Sequence[api.Node]) -> Iterator[PlayedJob]:
    """A Job none of whose pods is left at the end."""
    job = PlayedJob(folder, nodes)
    try:
        yield job
    finally:
        for pod in job.pods:
            pod.remove()
