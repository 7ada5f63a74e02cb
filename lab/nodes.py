"""Single nodes of a lab: their keys and files, their start, and the wait until they answer."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab import access, guest_files, state, tools
from lab.emulated_gpu import node_files
from lab.errors import LabError
from lab.machine import Guest, node_command
from lab.process import Process, daemon
from lab.progress import step
from lab.state import LabState, NodeState

_PORT_TRIES = 3
_BOOT_DEADLINE_S = {"kvm": 60.0, "tcg": 180.0}
_BOOT_DEADLINE_PER_NODE_S = {"kvm": 10.0, "tcg": 60.0}
_GREETING_WAIT_S = 10.0
_CONSOLE_LINES = 25
_READY = (
    "test -e /dev/infiniband/uverbs0 && test -e /dev/infiniband/rdma_cm && rdma link show rxe0/1"
)


def make_access(directory: Path, lab: LabState, numbers: Sequence[int]) -> None:
    """Make the lab's user key, and for each node a host key and an initramfs that has both."""
    user_key = access.make_key(directory / "id_ed25519", f"gdrcheck-lab-{lab.name}")
    for number in numbers:
        home = directory / f"node{number}"
        home.mkdir()
        public = access.make_key(home / "host_key", f"node{number}")
        own = guest_files.archive(
            number,
            lab_name=lab.name,
            numbers=numbers,
            user_key=user_key,
            host_key=(home / "host_key").read_text(),
            host_key_public=public,
            has_store=lab.store_disk is not None,
            more=node_files.members(number, lab.memory_mib),
        )
        initramfs = home / "initramfs.cpio"
        initramfs.touch(mode=0o600)
        initramfs.write_bytes(Path(lab.initramfs).read_bytes() + own)


def boot_new(directory: Path, lab: LabState, number: int) -> LabState:
    """Boot a node on a free port; another program may take the port between our look and QEMU's."""
    taken = [node.ssh_port for node in lab.nodes]
    for _ in range(_PORT_TRIES):
        port = access.free_port(taken)
        try:
            return boot(directory, lab, number, port)
        except LabError as error:
            if "forwarding rule" not in str(error):
                raise
            taken.append(port)
    raise LabError(
        f"node{number}: other programs took {_PORT_TRIES} ports on 127.0.0.1 that were free before"
    )


def boot(directory: Path, lab: LabState, number: int, ssh_port: int) -> LabState:
    """Start a node's machine on a fresh disk, and return the lab's state, saved, with it."""
    home = directory / f"node{number}"
    overlay = home / "root.qcow2"
    overlay.unlink(missing_ok=True)
    base = ("-b", lab.root_disk, "-F", "raw")
    tools.run("qemu-img", "create", "-q", "-f", "qcow2", *base, overlay, deadline_s=60)
    guest = Guest(
        number=number,
        accelerator=lab.accelerator,
        memory_mib=lab.memory_mib,
        cpus=lab.cpus,
        ssh_port=ssh_port,
        kernel=Path(lab.kernel),
        initramfs=home / "initramfs.cpio",
        run_directory=Path(lab.run_directory),
        store_disk=Path(lab.store_disk) if lab.store_disk else None,
    )
    command = node_command(tools.find("qemu-system-x86_64"), guest)
    process = daemon(command, directory, home / "qemu.pid")
    lab = lab.with_node(NodeState(number, ssh_port, process))
    state.save(directory, lab)
    return lab


def write_ssh_configuration(directory: Path, lab: LabState) -> None:
    """Write ssh_config and known_hosts: host keys are known before the first connection."""
    ports = {f"node{node.number}": node.ssh_port for node in lab.nodes}
    (directory / "ssh_config").write_text(
        access.ssh_config(directory, Path(lab.run_directory), ports)
    )
    lines = [
        access.known_host_line(port, (directory / name / "host_key.pub").read_text())
        for name, port in ports.items()
    ]
    (directory / "known_hosts").write_text("".join(lines))


def wait_for(directory: Path, lab: LabState, numbers: Iterable[int]) -> None:
    """Wait until these nodes answer ssh and have their RDMA device; raises LabError with each one's
    console.
    """
    wanted = [node for node in lab.nodes if node.number in set(numbers)]
    base_s, each_s = _BOOT_DEADLINE_S[lab.accelerator], _BOOT_DEADLINE_PER_NODE_S[lab.accelerator]
    deadline = time.monotonic() + base_s + each_s * len(lab.nodes)
    title = f"booting {', '.join(f'node{node.number}' for node in wanted)} ({lab.accelerator})"
    given_up = threading.Event()
    with step(title), ThreadPoolExecutor(max_workers=len(wanted)) as pool:
        try:
            found = pool.map(lambda node: _fault(directory, node, deadline, given_up), wanted)
            faults = [fault for fault in found if fault]
        except BaseException:
            # Interrupted: leaving the pool waits for its threads, which would wait for the boot.
            given_up.set()
            raise
    if faults:
        raise LabError("\n".join(faults))


def close_connections(directory: Path, names: Iterable[str]) -> None:
    """End the kept ssh connections to these nodes; one that does not exist is no error."""
    config = directory / "ssh_config"
    if not config.exists():
        return
    for name in names:
        command = [tools.find("ssh"), "-F", str(config), "-O", "exit", name]
        subprocess.run(command, capture_output=True, timeout=20, check=False)


def console_tail(directory: Path, number: int) -> str:
    """The last lines of a node's serial console."""
    try:
        text = (directory / f"node{number}" / "serial.log").read_text(errors="replace")
    except FileNotFoundError:
        return "(no console)"
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return (
        "\n".join(f"    {line}" for line in lines[-_CONSOLE_LINES:]) or "    (the console is empty)"
    )


def _fault(
    directory: Path, node: NodeState, deadline: float, given_up: threading.Event
) -> str | None:
    name = f"node{node.number}"
    problem = _await_greeting(node.ssh_port, node.process, deadline, given_up)
    if problem is None:
        problem = _await_login(directory, name, deadline)
    if problem is None:
        return None
    return f"{name}: {problem}. Its console said last:\n{console_tail(directory, node.number)}"


def _await_greeting(
    port: int, process: Process, deadline: float, given_up: threading.Event
) -> str | None:
    while (left_s := deadline - time.monotonic()) > 0 and not given_up.is_set():
        if not process.alive():
            return "its QEMU process ended while it booted"
        if access.ssh_answers(port, min(left_s, _GREETING_WAIT_S)):
            return None
    return "no answer from ssh before the deadline"


def _await_login(directory: Path, name: str, deadline: float) -> str | None:
    command = [tools.find("ssh"), "-F", str(directory / "ssh_config"), name, "--", _READY]
    left_s = max(deadline - time.monotonic(), 10.0)
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=left_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the first ssh login did not end within {left_s:.0f} s"
    if done.returncode == 255:
        return f"ssh failed: {done.stderr.strip()}"
    if done.returncode != 0 or "ACTIVE" not in done.stdout:
        return f"its Soft-RoCE device is not there: {(done.stdout + done.stderr).strip()}"
    return None
