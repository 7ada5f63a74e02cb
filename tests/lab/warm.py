"""Containers that stay up on the lab's nodes, in which the node entry point is run again and again.

A playbook run costs minutes under emulation; the faults that concern what happens inside the
container are injected here, through the same entry point and the same merge.
"""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from gdrcheck import __version__, host_collector
from gdrcheck.profile import Profile
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.incoming import read_node
from gdrcheck.results.unpack import unpack_all
from gdrcheck.run import Deadlines, NodeSpec, RunSpec, new_run_id
from lab import api
from lab.emulated_gpu.control import driver_files

HOME = "/var/lib/gdrcheck-warm"
PORT = 18600
CONTAINER = "warm"
# What the host collector leaves on a node, and the code that is sent there to do so.
HOST = f"{HOME}/host"
COLLECTOR = Path(host_collector.__file__).parent
COLLECT_S = 180
# What the playbook grants, too.
RIGHTS = ("--cap-add", "IPC_LOCK", "--ulimit", "memlock=-1:-1")
# The node's entry point, with some of the checks: the image has them all.
ONLY = """
import shutil, sys
from pathlib import Path
sys.path.insert(0, "/opt/gdrcheck")
from gdrcheck.node.command import run_node
from gdrcheck.node.supervisor import DEFAULT_CHECKS

home, node, *only = sys.argv[1:]
given, checks = Path(home, "in"), Path("/tmp", Path(home).name, "checks")
def others(_, names):
    return [name for name in names if name.startswith("check_") and name not in only]
shutil.copytree(DEFAULT_CHECKS, checks, ignore=others)
sys.exit(run_node(run_file=given / "run.json", secret_file=given / "secret", node=node,
                  out=Path(home, "out"), checks=checks))
"""
PROFILE: dict[str, Any] = {
    "gpus": {"count": 0},
    "rails": {
        "count": 1,
        "nics": [{"name": "rxe0"}],
        "port_rate_gbps": 2.5,
        "link_layer": "ethernet",
    },
}


@dataclass(frozen=True)
class Merged:
    """What the merge made of a run."""

    summary: dict[str, Any]
    directory: Path
    exit_code: int
    console: str

    @property
    def outcomes(self) -> dict[str, str]:
        """Outcome by case name, as the JUnit file of the run says it."""
        root = ElementTree.parse(self.directory / "junit.xml").getroot()
        return {case.get("name", ""): _outcome(case) for case in root.iter("testcase")}

    @property
    def codes(self) -> list[tuple[str, str]]:
        """(code, place without the partner) of every finding."""
        found = [entry["finding"] for entry in self.summary["findings"]]
        return [(one["code"], _place(one["where"])) for one in found]

    def problems(self) -> dict[str, str]:
        """The cases that are not passed."""
        return {name: outcome for name, outcome in self.outcomes.items() if outcome != "passed"}


def _outcome(case: ElementTree.Element) -> str:
    for tag in ("failure", "error", "skipped"):
        if (child := case.find(tag)) is not None:
            return {"failure": "failed", "skipped": "skipped"}.get(tag) or str(child.get("type"))
    return "passed"


def _place(where: dict[str, str | None]) -> str:
    return "/".join(part for part in (where["node"], where["gpu"], where["nic"]) if part)


def spec(nodes: Sequence[api.Node], profile: dict[str, Any] | None = None, **kw: Any) -> RunSpec:
    """A run document for these nodes; ``kw`` replaces fields of it."""
    fields: dict[str, Any] = {
        "run_id": new_run_id(),
        "created": datetime.now(UTC),
        "gdrcheck_version": __version__,
        "nodes": tuple(
            NodeSpec(name=node.name, address=node.control_address, port=PORT, profile="lab")
            for node in nodes
        ),
        "profiles": {"lab": Profile.model_validate({**PROFILE, **(profile or {})})},
        "time_scale": 3,
        "deadlines": Deadlines(),
    }
    return RunSpec(**{**fields, **kw})


@dataclass
class WarmRun:
    """One run in warm containers: started on every node, then waited for and merged."""

    spec: RunSpec
    nodes: Sequence[api.Node]
    processes: dict[str, subprocess.Popen[str]]
    directory: Path

    def wait_for(
        self, node: api.Node, text: str, file: str = "events.jsonl", deadline_s: float = 240
    ) -> None:
        """Returns when the node's output file holds ``text``; AssertionError at the deadline."""
        end = time.monotonic() + deadline_s
        command = f"sudo grep -c -F -e {shlex.quote(text)} {self.out}/{file} || true"
        while time.monotonic() < end:
            if node.ssh(command).stdout.strip() not in ("", "0"):
                return
            time.sleep(0.5)
        raise AssertionError(f"{node.name}: no {text!r} in {file} within {deadline_s} s")

    @property
    def out(self) -> str:
        """The output directory on a node."""
        return f"{HOME}/{self.spec.run_id}/out"

    def finish(self, deadline_s: float = 400, states: dict[str, Any] | None = None) -> Merged:
        """Waits for every node's entry point, brings the files home and merges them."""
        self._bring_home(deadline_s)
        return merge(self.directory, states)

    def cases(self, node: api.Node, deadline_s: float = 400) -> dict[str, CaseResult]:
        """The cases of a node, by name, as its own files tell them; waits as ``finish`` does.

        For a run of some checks only: the merge would find that the others are owed.
        """
        self._bring_home(deadline_s)
        place = self.directory / "nodes" / node.name
        report = read_node(place, node.name, self.spec.run_id, "the node left no result")
        return {case.id: case for case in report.cases}

    def _bring_home(self, deadline_s: float) -> None:
        end = time.monotonic() + deadline_s
        for name, process in self.processes.items():
            try:
                said, _ = process.communicate(timeout=max(1.0, end - time.monotonic()))
            except subprocess.TimeoutExpired as error:
                raise AssertionError(f"{name}: entry point still runs: {error}") from error
            print(f"--- {name}, status {process.returncode}\n{said}")
        for node in self.nodes:
            if node.running:
                self._fetch(node)
        unpack_all(self.directory)

    def _fetch(self, node: api.Node) -> None:
        command = node.ssh_command(f"cd {self.out} && sudo sh -c 'tar -czf - *'")
        done = subprocess.run(command, capture_output=True, timeout=120)
        if done.returncode != 0:
            return
        place = self.directory / "nodes" / node.name
        place.mkdir(parents=True, exist_ok=True)
        (place / "results.tar.gz").write_bytes(done.stdout)


def merge(directory: Path, states: dict[str, Any] | None = None) -> Merged:
    """Runs ``gdrcheck merge`` as the playbook does."""
    done = subprocess.run(
        [sys.executable, "-m", "gdrcheck", "merge", str(directory), "--states", "-"],
        input=json.dumps({"nodes": states or {}, "check_mode": False}),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (0, 1, 2), done.stderr
    summary = json.loads((directory / "summary.json").read_text())
    return Merged(summary, directory, done.returncode, done.stdout)


class Warm:
    """The warm containers of some nodes."""

    def __init__(
        self, nodes: Sequence[api.Node], image: str, results: Path, name: str = CONTAINER
    ) -> None:
        self.nodes = nodes
        self.name = name
        self.image = image
        self.results = results

    def collect(self) -> None:
        """Runs the host collector on every node again, for what a test has changed there."""
        collect(self.nodes)

    def start(
        self, run: RunSpec, nodes: Sequence[api.Node] | None = None, only: Sequence[str] = ()
    ) -> WarmRun:
        """Starts the entry point of ``run`` on ``nodes`` (default: all that the run names).

        ``only``: with these files of checks, which saves the time of the others.
        """
        chosen = nodes or [n for n in self.nodes if n.name in {spec.name for spec in run.nodes}]
        directory = self.results / run.run_id
        directory.mkdir(parents=True)
        (directory / "run.json").write_text(run.model_dump_json())
        secret = hashlib.sha256(run.run_id.encode()).hexdigest()
        packed = _tar({"run.json": run.model_dump_json(), "secret": secret, "only.py": ONLY})
        processes = {}
        for node in chosen:
            place = f"{HOME}/{run.run_id}"
            _pipe(
                node,
                f"sudo mkdir -p {place}/in {place}/out && sudo tar -C {place}/in "
                f"--no-same-owner -xf - && sudo chmod 0777 {place}/out",
                packed,
            )
            inside = f"/warm/{run.run_id}"
            entry = (
                f"-m gdrcheck node --run {inside}/in/run.json --secret {inside}/in/secret "
                f"--node {node.name} --out {inside}/out"
            )
            if only:
                entry = f"{inside}/in/only.py {inside} {node.name} {' '.join(only)}"
            command = f"sudo podman exec {self.name} /usr/bin/python3 {entry}"
            processes[node.name] = subprocess.Popen(
                node.ssh_command(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        return WarmRun(run, chosen, processes, directory)


@contextmanager
def warm(
    nodes: Sequence[api.Node],
    image: str,
    results: Path,
    *,
    rights: Sequence[str] = RIGHTS,
    name: str = CONTAINER,
    gpus: bool = False,
) -> Iterator[Warm]:
    """Starts a container on every node with the rights of a real run, after the host collector ran
    there; removes them at the end. ``gpus``: with the node's GPUs, as a profile that promises some.
    """
    command = shlex.join(
        [
            "sudo",
            "podman",
            "run",
            "-d",
            "--name",
            name,
            "--network",
            "host",
            "--read-only",
            "--tmpfs",
            "/tmp",
            "--cap-drop",
            "all",
            *rights,
            "--security-opt",
            "no-new-privileges",
            "--device",
            "/dev/infiniband/uverbs0",
            "--device",
            "/dev/infiniband/rdma_cm",
            *(("--device", "nvidia.com/gpu=all") if gpus else ()),
            "-v",
            f"{HOME}:/warm",
            "-v",
            f"{HOST}:/run/gdrcheck/host:ro",
            "--entrypoint",
            "/usr/bin/sleep",
            image,
            "infinity",
        ]
    )
    with ExitStack() as shown:
        # An overlay that has seen a device shows it as stale once it was removed and made again.
        for node in nodes if gpus else ():
            shown.enter_context(driver_files(node))
        try:
            collect(nodes)
            for node in nodes:
                node.ssh(command, check=True)
            yield Warm(nodes, image, results, name)
        finally:
            for node in nodes:
                if node.running:
                    node.ssh(f"sudo podman rm -f -t 0 {name}")


def collect(nodes: Sequence[api.Node]) -> None:
    """Runs this checkout's host collector as root on the nodes, on all at the same time."""
    sources = {f"{COLLECTOR.name}/{p.name}": p.read_text() for p in COLLECTOR.glob("*.py")}
    code = f"{HOME}/code"
    command = (
        f"sudo mkdir -p {code} && sudo tar -C {code} --no-same-owner -xf - && cd {code} && "
        f"sudo python3 -m {COLLECTOR.name} --out {HOST}"
    )
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(lambda node: _pipe(node, command, _tar(sources), COLLECT_S), nodes))


def _tar(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


def _pipe(node: api.Node, command: str, data: bytes, deadline_s: float = 120) -> None:
    done = subprocess.run(
        node.ssh_command(command), input=data, capture_output=True, timeout=deadline_s
    )
    assert done.returncode == 0, done.stderr
