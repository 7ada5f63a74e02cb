"""What a lab remembers between commands: one JSON file in its state directory."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.process import Process

FILE = "lab.json"
VERSION = 1


@dataclass(frozen=True)
class NodeState:
    """One node: where its ssh answers, and the process that it is."""

    number: int
    ssh_port: int
    process: Process


@dataclass(frozen=True)
class LabState:
    """A lab that was brought up."""

    name: str
    accelerator: str
    memory_mib: int
    cpus: int
    kernel: str
    initramfs: str
    root_disk: str
    store_disk: str | None
    image: str | None
    run_directory: str
    hubs: dict[str, Process]
    nodes: tuple[NodeState, ...]
    version: int = VERSION

    def processes(self) -> list[Process]:
        """All its processes, nodes first."""
        return [node.process for node in self.nodes] + list(self.hubs.values())

    def with_node(self, node: NodeState) -> LabState:
        """The same lab with one node's state replaced or added."""
        others = [other for other in self.nodes if other.number != node.number]
        return dataclasses.replace(
            self, nodes=tuple(sorted([*others, node], key=lambda n: n.number))
        )


def save(directory: Path, state: LabState) -> None:
    """Write the state; a reader sees the old or the new one, never half of it."""
    draft = directory / f"{FILE}.draft"
    draft.write_text(json.dumps(dataclasses.asdict(state), indent=1) + "\n")
    os.replace(draft, directory / FILE)


def load(directory: Path) -> LabState | None:
    """The state of the lab in `directory`, None if there is no lab; raises LabError for a file of
    another version.
    """
    path = directory / FILE
    try:
        raw = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise LabError(
            f"{path} is not readable: {error}; end its QEMU by hand and remove {directory}"
        ) from error
    if raw.get("version") != VERSION:
        raise LabError(
            f"{path} has version {raw.get('version')}, not {VERSION}: "
            "run `down` from the checkout that made it"
        )
    nodes = tuple(
        NodeState(n["number"], n["ssh_port"], Process(**n["process"])) for n in raw.pop("nodes")
    )
    hubs = {network: Process(**process) for network, process in raw.pop("hubs").items()}
    return LabState(**raw, nodes=nodes, hubs=hubs)
