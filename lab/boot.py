"""Brings labs up, restarts single nodes, and takes labs down."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab import accelerator, inventory, node_image, nodes, state, store, tools
from lab.errors import LabError
from lab.machine import NETWORKS, hub_command, hub_socket
from lab.paths import state_directory
from lab.process import daemon, listening_sockets
from lab.progress import say, step
from lab.state import LabState

MOST_NODES = 8
_SMALL_LAB_NODES = 2
_LONGEST_RUN_PLACE = 60
_HUB_DEADLINE_S = 20.0
_POLL_S = 0.05


@dataclass(frozen=True)
class Wish:
    """What the user asked for."""

    name: str
    nodes: int
    image: str | None
    accelerator: str
    cpus: int = 1


def up(wish: Wish) -> None:
    """Make the lab as wished, or find it so; raises LabError, with nothing left running, when it
    cannot.
    """
    if not 1 <= wish.nodes <= MOST_NODES:
        raise LabError(f"--nodes {wish.nodes}: a lab has 1 to {MOST_NODES} nodes")
    directory = state_directory(wish.name)
    with _locked(directory):
        found = state.load(directory)
        if found is not None and any(process.alive() for process in found.processes()):
            _continue(directory, found, wish)
            return
        _remove(directory, found)
        directory.mkdir(parents=True, mode=0o700)
        _start(directory, wish)


def restart(name: str, number: int) -> None:
    """Boot one node again on a fresh disk, with its own keys and port; raises LabError."""
    directory = state_directory(name)
    with _locked(directory):
        lab = state.load(directory)
        node = next((n for n in lab.nodes if n.number == number), None) if lab else None
        if lab is None or node is None:
            raise LabError(f"lab {name!r} has no node{number}")
        node.process.kill()
        nodes.close_connections(directory, [f"node{number}"])
        lab = nodes.boot(directory, lab, node.number, node.ssh_port)
        nodes.wait_for(directory, lab, [number])


def down(name: str) -> None:
    """End the lab's own processes and remove its state directory."""
    directory = state_directory(name)
    with _locked(directory):
        loaded = state.load(directory)
        if loaded is None:
            say(f"lab {name} is not up")
        _remove(directory, loaded)


def _start(directory: Path, wish: Wish) -> None:
    image = node_image.build()
    chosen = (
        accelerator.choose(image)
        if wish.accelerator == "auto"
        else accelerator.forced(wish.accelerator)
    )
    disk = store.build(wish.image) if wish.image else None
    say(f"accelerator {chosen.name}: {chosen.reason}")
    lab = LabState(
        name=wish.name,
        accelerator=chosen.name,
        memory_mib=4096 if wish.nodes <= _SMALL_LAB_NODES else 2048,
        cpus=wish.cpus,
        kernel=str(image.kernel),
        initramfs=str(image.initramfs),
        root_disk=str(image.root_disk),
        store_disk=str(disk) if disk else None,
        image=wish.image,
        run_directory=str(_run_directory()),
        hubs={},
        nodes=(),
    )
    state.save(directory, lab)
    try:
        lab = _start_hubs(directory, lab, wish.nodes)
        numbers = range(1, wish.nodes + 1)
        nodes.make_access(directory, lab, numbers)
        for number in numbers:
            lab = nodes.boot_new(directory, lab, number)
        nodes.write_ssh_configuration(directory, lab)
        inventory.write(directory, lab)
        nodes.wait_for(directory, lab, numbers)
    except BaseException:
        # The logs stay for the user to read; the next `up` or `down` removes them.
        _end_processes(directory, state.load(directory))
        raise


def _continue(directory: Path, lab: LabState, wish: Wish) -> None:
    if len(lab.nodes) != wish.nodes or lab.image != wish.image:
        raise LabError(
            f"lab {lab.name!r} is up with {len(lab.nodes)} nodes and image {lab.image}: run "
            f"`python3 -m lab down --name {lab.name}` first, or use another --name"
        )
    if wish.image and str(store.build(wish.image)) != lab.store_disk:
        raise LabError(
            f"lab {lab.name!r} is up with an older build of {wish.image}: run "
            f"`python3 -m lab down --name {lab.name}` first"
        )
    dead_hubs = [network for network, process in lab.hubs.items() if not process.alive()]
    if dead_hubs:
        raise LabError(
            f"lab {lab.name!r} lost its {' and '.join(dead_hubs)} network: run `down`, then `up`"
        )
    dead = [node for node in lab.nodes if not node.process.alive()]
    for node in dead:
        say(f"{lab.name}: node{node.number} is dead, booting it again")
        nodes.close_connections(directory, [f"node{node.number}"])
        lab = nodes.boot(directory, lab, node.number, node.ssh_port)
    nodes.wait_for(directory, lab, [node.number for node in lab.nodes])
    if not dead:
        say(f"lab {lab.name!r} is up already")


def _start_hubs(directory: Path, lab: LabState, count: int) -> LabState:
    program = tools.find("qemu-system-x86_64")
    run_directory = Path(lab.run_directory)
    for network in NETWORKS:
        process = daemon(
            hub_command(program, run_directory, network, count),
            directory,
            directory / f"hub-{network}.pid",
        )
        lab = dataclasses.replace(lab, hubs={**lab.hubs, network: process})
        state.save(directory, lab)
    sockets = [
        hub_socket(run_directory, network, n + 1) for network in NETWORKS for n in range(count)
    ]
    _await_sockets(sockets)
    return lab


def _run_directory() -> Path:
    """A private directory with a short path, for sockets; removed by `down`."""
    for place in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):
        if place and len(place) <= _LONGEST_RUN_PLACE and os.access(place, os.W_OK):
            return Path(tempfile.mkdtemp(prefix="gdrcheck-lab-", dir=place))
    raise LabError("no writable directory with a short path for sockets: set TMPDIR to one")


def _await_sockets(sockets: Iterable[Path]) -> None:
    """A hub makes its sockets in threads, after it has reported that it runs."""
    deadline = time.monotonic() + _HUB_DEADLINE_S
    for path in sockets:
        while str(path) not in listening_sockets():
            if time.monotonic() > deadline:
                raise LabError(f"the network made no {path.name} within {_HUB_DEADLINE_S:.0f} s")
            time.sleep(_POLL_S)


def _remove(directory: Path, lab: LabState | None) -> None:
    _end_processes(directory, lab)
    if directory.exists():
        shutil.rmtree(directory)


def _end_processes(directory: Path, lab: LabState | None) -> None:
    if lab is None:
        return
    nodes.close_connections(directory, [f"node{node.number}" for node in lab.nodes])
    for process in lab.processes():
        process.kill()
    shutil.rmtree(lab.run_directory, ignore_errors=True)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """One command at a time changes a lab; the lock file outlives the lab's directory."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (directory.parent / f"{directory.name}.lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with step(f"waiting for another command that changes lab {directory.name!r}"):
                fcntl.flock(stream, fcntl.LOCK_EX)
        yield
