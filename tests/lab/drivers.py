"""The drivers in the warm containers of two nodes, as tests use them."""

from __future__ import annotations

import io
import queue
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdrcheck.pairing.pairs import LocalGpu
from gdrcheck.run import new_run_id
from gdrcheck.transfer import Mode
from lab import api
from lab.emulated_gpu.control import configuration
from tests.lab import driver
from tests.lab.driver.scenario import Command, End, Line, Place, Scenario, Told
from tests.lab.warm import HOME, Warm

CODE = f"{HOME}/driver"
# Where a container finds what a node has at HOME.
INSIDE = "/warm/driver"
DEADLINE_S = 240
OnCell = Callable[[Place], None]


@dataclass(frozen=True)
class Results:
    """What came of a scenario. ``ended_by``: what ended the responder's session, if anything."""

    cells: tuple[Told, ...]
    ended_by: str
    seconds: float

    @property
    def found(self) -> dict[tuple[str, str], Told]:
        """The cells with a finding by its code and place."""
        return {
            (cell.finding.code, cell.finding.where.text()): cell
            for cell in self.cells
            if cell.finding is not None
        }

    @property
    def errors(self) -> list[str]:
        """Why cells could not be measured."""
        return [cell.error for cell in self.cells if cell.error is not None]

    @property
    def blockers(self) -> set[str]:
        """What cells are blocked by."""
        return {cell.blocked_by for cell in self.cells if cell.blocked_by is not None}

    def passed(self, *modes: Mode) -> bool:
        """Whether all cells of these modes passed, and there are some."""
        chosen = [cell for cell in self.cells if cell.place.mode in modes]
        return bool(chosen) and all(cell.passed for cell in chosen)

    def text(self) -> str:
        """All that is not passed, for who reads a failed test."""
        lines = [
            f"{cell.place.mode} {cell.place.operation} {cell.place.direction}: "
            f"{cell.finding or cell.blocked_by or cell.error}\n    {cell.raw}"
            for cell in self.cells
            if not cell.passed
        ]
        return "\n".join([f"{len(self.cells)} cells, {self.seconds:.1f} s", *lines, self.ended_by])


class Driver:
    """The driver on one node, started when it is needed. ``close`` it."""

    def __init__(self, node: api.Node, container: str, log: Path) -> None:
        self.node = node
        self._container = container
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def send(self, command: Command) -> None:
        """Tell it what to do."""
        if self._process is None or self._process.poll() is not None:
            self.start()
        self._write(command.model_dump_json())

    def line(self, deadline_s: float) -> Line | None:
        """Its next line; None when it has died. AssertionError at the deadline."""
        try:
            text = self._lines.get(timeout=deadline_s)
        except queue.Empty:
            raise AssertionError(f"{self.node.name}: nothing within {deadline_s:.0f} s") from None
        return Line.model_validate_json(text) if text else None

    def last(
        self, deadline_s: float, on_cell: OnCell | None = None, *, paced: bool = False
    ) -> Line | None:
        """Its last line of this scenario; None when it died before. ``paced``: it waits after each
        cell.
        """
        end = time.monotonic() + deadline_s
        while line := self.line(end - time.monotonic()):
            if line.last:
                return line
            if line.done is not None and on_cell is not None:
                on_cell(line.done)
            if line.done is not None and paced:
                self._write("go on")
        return None

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(60)

    def _write(self, text: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()

    def start(self) -> None:
        """Start it, and wait until it is ready: its interpreter takes seconds in a guest."""
        self._lines = queue.SimpleQueue()
        command = (
            f"sudo podman exec -i -e PYTHONPATH=/opt/gdrcheck:{INSIDE} {self._container} "
            f"/usr/bin/python3 -m tests.lab.driver {self.node.name} /tmp"
        )
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self.node.ssh_command(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        threading.Thread(
            target=_read, args=(self._process, self._lines), name="driver", daemon=True
        ).start()
        assert self.line(DEADLINE_S) is not None, f"{self.node.name}: the driver did not start"


def _read(process: subprocess.Popen[str], lines: queue.SimpleQueue[str]) -> None:
    """Every line, and an empty one at the end."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")


class Drivers:
    """The drivers of two nodes; the first one is the initiator."""

    def __init__(self, ends: Sequence[Driver]) -> None:
        self._near, self._far = ends
        self.nodes = [end.node for end in ends]

    def scenario(self, *, gpus: bool = True, **changes: Any) -> Scenario:
        """One of healthy ends; ``changes`` replace fields of it.

        ``far`` and ``near`` replace fields of the responder's and of the initiator's end. Without
        ``gpus`` the responder has none: the initiator's child, which has, can be used again.
        """
        ends = []
        for node, name in zip(self.nodes, ("near", "far"), strict=True):
            gpu = local_gpu(node) if gpus or name == "near" else None
            fields = {"node": node.name, "address": node.control_address, "gpu": gpu}
            ends.append(End(**{**fields, **changes.pop(name, {})}))
        return Scenario(**{"run_id": new_run_id(), "ends": tuple(ends), **changes})

    def run(self, scenario: Scenario, on_cell: OnCell | None = None) -> Results:
        """Both ends of a scenario, to their ends. ``on_cell`` is called as each cell is done."""
        begun = time.monotonic()
        self._far.send(Command(do="serve", scenario=scenario))
        assert self._far.line(DEADLINE_S) is not None, "the responder does not listen"
        self._near.send(Command(do="measure", scenario=scenario))
        measured = self._near.last(DEADLINE_S, on_cell, paced=scenario.paced)
        assert measured is not None, "the initiator's driver died"
        served = self._far.last(DEADLINE_S)
        ended_by = "the responder died" if served is None else served.ended_by
        results = Results(measured.cells, ended_by, time.monotonic() - begun)
        print(results.text())
        return results


def local_gpu(node: api.Node, *methods: str) -> LocalGpu:
    """The GPU of the node's rail, registered as a dma-buf unless ``methods`` say otherwise."""
    config = configuration(node)
    gpu = config.gpus[0]
    chosen: Any = methods or ("dmabuf",)
    return LocalGpu(
        slot=gpu.slot,
        uuids=(gpu.uuid,),
        methods=chosen,
        emulated=True,
        bar1_bytes=gpu.bar1_mib << 20,
    )


@contextmanager
def drivers(containers: Warm) -> Iterator[Drivers]:
    """Drivers in warm containers with GPUs."""
    for node in containers.nodes:
        _install(node)
    ends = [
        Driver(node, containers.name, containers.results / f"driver-{node.name}.log")
        for node in containers.nodes
    ]
    try:
        with ThreadPoolExecutor(len(ends)) as pool:
            list(pool.map(Driver.start, ends))
        yield Drivers(ends)
    finally:
        for end in ends:
            end.close()


def _install(node: api.Node) -> None:
    """The drivers' code where the node's container finds it."""
    folder = Path(driver.__file__).parent
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("tests/__init__.py", "tests/lab/__init__.py"):
            archive.addfile(tarfile.TarInfo(name))
        for path in sorted(folder.glob("*.py")):
            archive.add(path, f"tests/lab/driver/{path.name}")
    command = f"sudo mkdir -p {CODE} && sudo tar -C {CODE} --no-same-owner -xf -"
    subprocess.run(
        node.ssh_command(command), input=buffer.getvalue(), check=True, timeout=DEADLINE_S
    )
