"""Labs as objects: bring one up, use and break its nodes, take it down.

with lab.api.running(nodes=2, name="tests") as a_lab:
    a_lab.node("node1").ssh(["rdma", "link"])
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab import boot, qmp, state, tools
from lab.errors import LabError
from lab.machine import DATA_NIC_ID, control_address, data_address, qmp_socket
from lab.paths import state_directory

DEFAULT_NAME = "default"


@dataclass(frozen=True)
class Node:
    """One node of a lab."""

    lab_name: str
    number: int

    @property
    def name(self) -> str:
        """Its name as a host, in the inventory and in ssh's configuration."""
        return f"node{self.number}"

    @property
    def directory(self) -> Path:
        """Its files: root.qcow2, serial.log."""
        return state_directory(self.lab_name) / self.name

    @property
    def control_address(self) -> str:
        """Its IPv4 address on the control network."""
        return control_address(self.number)

    @property
    def data_address(self) -> str:
        """Its IPv4 address on the data network."""
        return data_address(self.number)

    @property
    def ssh_port(self) -> int:
        """The port of 127.0.0.1 at which its sshd answers."""
        return self._state().ssh_port

    @property
    def running(self) -> bool:
        """Whether its QEMU process is there."""
        return self._state().process.alive()

    def ssh_command(self, command: str | Sequence[str]) -> list[str]:
        """The host's command line that runs `command` (shell text, or words) on the node as its
        login user.
        """
        text = command if isinstance(command, str) else shlex.join(command)
        config = state_directory(self.lab_name) / "ssh_config"
        return [tools.find("ssh"), "-F", str(config), self.name, "--", *([text] if text else [])]

    def ssh(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float = 120.0,
        input_text: str | None = None,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run `command` on the node and return its output and exit status (255: ssh itself failed).

        Raises LabError when it does not end within `timeout_s`, and with `check` also when it
        fails.
        """
        try:
            done = subprocess.run(
                self.ssh_command(command),
                input=input_text,
                stdin=subprocess.DEVNULL if input_text is None else None,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(f"{self.name}: no end within {timeout_s:.0f} s of: {command}") from error
        if check and done.returncode != 0:
            raise LabError(
                f"{self.name}: status {done.returncode} from: {command}\n{done.stderr}{done.stdout}"
            )
        return done

    def kill(self) -> None:
        """Cut its power: SIGKILL to its QEMU process. The other nodes stay connected."""
        self._state().process.kill()

    def restart(self) -> None:
        """Kill it if it runs, boot it again on a fresh disk at the same addresses, and wait until
        ssh answers.
        """
        boot.restart(self.lab_name, self.number)

    def data_link(self, up: bool) -> None:
        """Plug or unplug the cable of its data NIC; the guest sees the carrier change."""
        socket = qmp_socket(Path(_loaded(self.lab_name).run_directory), self.number)
        qmp.execute(socket, "set_link", name=DATA_NIC_ID, up=up)

    def _state(self) -> state.NodeState:
        for node in _loaded(self.lab_name).nodes:
            if node.number == self.number:
                return node
        raise LabError(f"lab {self.lab_name!r} has no {self.name}")


@dataclass(frozen=True)
class Lab:
    """A lab that was brought up."""

    name: str

    @property
    def directory(self) -> Path:
        """Its state directory."""
        return state_directory(self.name)

    @property
    def inventory(self) -> Path:
        """Its Ansible inventory: a directory, for `ansible-playbook -i`."""
        return self.directory / "inventory"

    @property
    def ssh_config(self) -> Path:
        """Its ssh configuration: `ssh -F <this> node1`."""
        return self.directory / "ssh_config"

    @property
    def nodes(self) -> list[Node]:
        """Its nodes, in order."""
        return [Node(self.name, node.number) for node in self.state().nodes]

    def node(self, name: str) -> Node:
        """The node called `name`; raises LabError that lists the names."""
        nodes = {node.name: node for node in self.nodes}
        if name not in nodes:
            raise LabError(f"lab {self.name!r} has no node {name!r}; it has {', '.join(nodes)}")
        return nodes[name]

    def state(self) -> state.LabState:
        """What is remembered of it; raises LabError when it is not up."""
        return _loaded(self.name)

    def down(self) -> None:
        """End its processes and remove its state; nothing happens when it is not up."""
        boot.down(self.name)


def up(
    *,
    nodes: int = 2,
    name: str = DEFAULT_NAME,
    image: str | None = None,
    accelerator: str = "auto",
) -> Lab:
    """Bring up a lab and return it when all its nodes answer; one that is up already is used as it
    is.

    `image` is a container image of this host that the nodes shall have. The caller takes the lab
    down. Raises LabError.
    """
    boot.up(boot.Wish(name=name, nodes=nodes, image=image, accelerator=accelerator))
    return Lab(name)


@contextmanager
def running(
    *, nodes: int = 2, name: str = DEFAULT_NAME, image: str | None = None, accelerator: str = "auto"
) -> Iterator[Lab]:
    """A lab for the length of a `with` block."""
    lab = up(nodes=nodes, name=name, image=image, accelerator=accelerator)
    try:
        yield lab
    finally:
        lab.down()


def _loaded(name: str) -> state.LabState:
    loaded = state.load(state_directory(name))
    if loaded is None:
        raise LabError(f"lab {name!r} is not up: run `python3 -m lab up --name {name}`")
    return loaded
