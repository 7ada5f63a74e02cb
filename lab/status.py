"""What runs of a lab and where it answers, for people and as JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

from lab.machine import control_address, data_address
from lab.paths import state_directory
from lab.state import LabState


@dataclass(frozen=True)
class NodeStatus:
    """One node."""

    name: str
    running: bool
    ssh_port: int
    control_address: str
    data_address: str


@dataclass(frozen=True)
class LabStatus:
    """A lab; it is up when all its processes run."""

    name: str
    up: bool
    accelerator: str
    image: str | None
    ssh_config: str
    inventory: str
    networks: dict[str, bool]
    nodes: tuple[NodeStatus, ...]

    def as_json(self) -> str:
        """One JSON object."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    def as_text(self) -> str:
        """A few lines for people."""
        image = self.image or "none"
        lines = [f"lab {self.name}: accelerator {self.accelerator}, image {image}"]
        lines += [f"  {network} network: {_word(up)}" for network, up in self.networks.items()]
        for node in self.nodes:
            addresses = f"control {node.control_address}  data {node.data_address}"
            lines.append(
                f"  {node.name}: {_word(node.running)}  ssh 127.0.0.1:{node.ssh_port}  {addresses}"
            )
        lines += [f"  ssh -F {self.ssh_config} node1", f"  inventory {self.inventory}"]
        return "\n".join(lines)


def describe(lab: LabState) -> LabStatus:
    """The status of a lab now."""
    directory = state_directory(lab.name)
    nodes = tuple(
        NodeStatus(
            name=f"node{node.number}",
            running=node.process.alive(),
            ssh_port=node.ssh_port,
            control_address=control_address(node.number),
            data_address=data_address(node.number),
        )
        for node in lab.nodes
    )
    return LabStatus(
        name=lab.name,
        up=all(process.alive() for process in lab.processes()),
        accelerator=lab.accelerator,
        image=lab.image,
        ssh_config=str(directory / "ssh_config"),
        inventory=str(directory / "inventory"),
        networks={network: process.alive() for network, process in lab.hubs.items()},
        nodes=nodes,
    )


def _word(up: bool) -> str:
    return "up" if up else "DEAD"
