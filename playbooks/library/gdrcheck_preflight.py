#!/usr/bin/python
"""Whether a node can take part in a run. Reads, and says all that is wrong at once."""

from __future__ import annotations

import fcntl
import glob
import json
import os
import re
import signal
import socket

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.gdrcheck import (
    Answer,
    Engine,
    RunDirectory,
    problem,
    run,
    started_ticks,
    which,
)

DOCUMENTATION = r"""
module: gdrcheck_preflight
short_description: Whether a node can take part in a gdrcheck run
description:
  - Looks at the container engine, the image, the RDMA device files, CDI, disk space, the lock, GPU
    processes and the channel's address, and returns every problem at once. Changes no setting.
  - Outside check mode it makes the run's directory, removes what dead runs left behind, and leaves
    a small listener at the channel's address, which ends by itself.
options:
  run_id: {type: str, required: true, description: The run.}
  node: {type: str, required: true, description: The node's name in the inventory.}
  address: {type: str, required: true, description: Where the other nodes reach this one.}
  port: {type: int, required: true, description: The channel's port.}
  engine: {type: str, default: auto, choices: [auto, podman, docker], description: Engine.}
  image: {type: str, required: true, description: The image to run.}
  image_id: {type: str, default: "", description: The id that the image must have.}
  image_source: {type: str, required: true, description: present, registry or archive.}
  free_bytes: {type: int, required: true, description: Disk space that must be free.}
  state_dir: {type: path, required: true, description: Where runs keep their files.}
  gpus_promised: {type: int, required: true, description: GPUs that the profile promises.}
  allow_gpu_processes: {type: bool, default: false, description: Run beside GPU processes.}
  listener_s: {type: int, required: true, description: How long the listener lives, in seconds.}
  root: {type: path, default: /, description: Where dev, sys, etc and var/run are read.}
author: [gdrcheck]
"""

EXAMPLES = r"""
- name: Check that the node can take part
  gdrcheck_preflight:
    run_id: 20261130T101500Z-0a1b2c
    node: "{{ inventory_hostname }}"
    address: 192.0.2.1
    port: 18600
    image: localhost/gdrcheck:dev
    image_source: present
    state_dir: /var/lib/gdrcheck
    free_bytes: 2147483648
    gpus_promised: 8
    listener_s: 900
"""

RETURN = r"""
findings: {type: list, returned: always, description: What stands in the way.}
engine: {type: str, returned: always, description: Path of the container engine.}
image_id: {type: str, returned: always, description: Id of the image that is here, or empty.}
devices: {type: list, returned: always, description: Device files for the container.}
selinux: {type: bool, returned: always, description: Whether SELinux is there.}
removed: {type: list, returned: always, description: Dead runs whose leftovers were removed.}
"""

OLDEST_ENGINE = {"podman": (4, 1), "docker": (20, 10)}
OLDEST_DOCKER_WITH_CDI = (25, 0)
CDI_FOLDERS = ("etc/cdi", "var/run/cdi")
CDI_KIND = "nvidia.com/gpu"


class Preflight:
    """One node's preflight: collects findings and what the later steps need to know."""

    def __init__(self, options: dict, check_mode: bool) -> None:
        self.options = options
        self.check_mode = check_mode
        self.directory = RunDirectory(options["state_dir"], options["run_id"])
        self.findings = []
        self.engine = None
        self.result = {"engine": "", "image_id": "", "devices": [], "selinux": False, "removed": []}

    def refuse(self, code: str, observed: str, expected: str, remedy: str) -> None:
        """Note a problem."""
        self.findings.append(problem(code, self.options["node"], observed, expected, remedy))

    def path(self, name: str) -> str:
        """A path below the root that is read."""
        return os.path.join(self.options["root"], name)

    def examine(self) -> None:
        """Everything, in an order in which later steps can use what earlier ones found."""
        self.find_engine()
        self.devices()
        self.cdi()
        self.gpu_processes()
        if self.engine:
            self.image()
            self.remove_dead_runs()
        self.state_directory()
        self.listen()

    def find_engine(self) -> None:
        wanted = self.options["engine"]
        engine = Engine.find(wanted)
        if engine is None:
            name = "podman or docker" if wanted == "auto" else wanted
            self.refuse(
                "RUN-NO-ENGINE",
                f"no {name} on this node",
                name,
                f"install {name}, or name the engine in gdrcheck_engine",
            )
            return
        containers = engine.containers()
        if isinstance(containers, Answer):
            self.refuse(
                "RUN-NO-ENGINE",
                f"{engine.path} ps: {containers.reason()}",
                "an answer",
                f"make `sudo {engine.name} ps` work on the node",
            )
            return
        version = self.version(engine)
        if version is None:
            return
        self.engine = engine
        self.containers = containers
        self.result["engine"] = engine.path
        self.result["engine_version"] = dotted(version)
        self.result["selinux"] = os.path.exists(self.path("sys/fs/selinux/enforce"))

    def version(self, engine: Engine) -> tuple | None:
        answer = engine.run("--version")
        match = re.search(r"(\d+)\.(\d+)", answer.output)
        if not answer.ok or not match:
            self.refuse(
                "RUN-NO-ENGINE",
                f"{engine.path} --version: {answer.reason()}",
                "a version",
                f"make `{engine.name} --version` work on the node",
            )
            return None
        version = (int(match[1]), int(match[2]))
        oldest = OLDEST_ENGINE[engine.name]
        if engine.name == "docker" and self.options["gpus_promised"]:
            oldest = OLDEST_DOCKER_WITH_CDI
        if version < oldest:
            self.refuse(
                "RUN-NO-ENGINE",
                f"{engine.name} {dotted(version)}",
                f"{engine.name} {dotted(oldest)} or newer",
                f"upgrade {engine.name}",
            )
            return None
        return version

    def devices(self) -> None:
        folder = self.path("dev/infiniband")
        uverbs = sorted(os.path.basename(p) for p in glob.glob(os.path.join(folder, "uverbs*")))
        # With the folder there but empty of uverbs devices, the checks name each missing NIC.
        if not os.path.isdir(folder):
            self.refuse(
                "RUN-NO-DEVICES",
                "no /dev/infiniband",
                "a uverbs device per NIC, and rdma_cm",
                "load the RDMA driver of the NIC and ib_uverbs: `modprobe ib_uverbs`; "
                "`rdma link` must list the NICs",
            )
        cm = os.path.exists(os.path.join(folder, "rdma_cm"))
        if not cm:
            self.refuse(
                "RUN-NO-RDMACM",
                "no /dev/infiniband/rdma_cm",
                "the device file",
                "`modprobe rdma_ucm`",
            )
        names = uverbs + (["rdma_cm"] if cm else [])
        self.result["devices"] = [f"/dev/infiniband/{name}" for name in names]

    def cdi(self) -> None:
        if self.options["gpus_promised"] == 0 or any(map(names_gpus, self.cdi_files())):
            return
        self.refuse(
            "RUN-NO-TOOLKIT",
            f"no CDI specification of {CDI_KIND} in /etc/cdi or /var/run/cdi",
            f"{self.options['gpus_promised']} GPUs, as the profile promises",
            "install nvidia-container-toolkit 1.18 or newer, or "
            "`nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`",
        )

    def cdi_files(self) -> list:
        folders = [self.path(folder) for folder in CDI_FOLDERS]
        return [path for folder in folders for path in glob.glob(os.path.join(folder, "*"))]

    def gpu_processes(self) -> None:
        smi = which("nvidia-smi")
        if smi is None or self.options["allow_gpu_processes"]:
            return
        answer = run([smi, "--query-compute-apps=pid,process_name", "--format=csv,noheader"], 60)
        override = "or allow it for this node: gdrcheck_allow_gpu_processes: true"
        if not answer.ok:
            if self.options["gpus_promised"]:
                self.refuse(
                    "RUN-GPU-BUSY",
                    f"cannot tell: nvidia-smi: {answer.reason()}",
                    "no compute process",
                    f"repair the driver, {override}",
                )
            return
        busy = [line.strip() for line in answer.output.splitlines() if line.strip()]
        if busy:
            self.refuse(
                "RUN-GPU-BUSY",
                f"{len(busy)} compute processes: {'; '.join(busy[:4])}",
                "no compute process",
                f"drain the node, {override}",
            )

    def image(self) -> None:
        options = self.options
        wanted = options["image_id"]
        # An image that must have an id is looked up by it: a tag may have moved.
        here = self.engine.image_id(wanted or options["image"])
        self.result["image_id"] = here or ""
        if here or options["image_source"] != "present":
            return
        self.refuse(
            "RUN-NO-IMAGE",
            f"no image {wanted or options['image']}",
            "the image, since gdrcheck_image_source is present",
            "load it on the node, or set gdrcheck_image_source to registry or archive",
        )

    def remove_dead_runs(self) -> None:
        runs = os.path.join(self.options["state_dir"], "runs")
        names = set(os.listdir(runs)) if os.path.isdir(runs) else set()
        for run_id in sorted(names | set(self.containers)):
            try:
                directory = RunDirectory(self.options["state_dir"], run_id)
            except ValueError:
                continue
            if self.containers.get(run_id) or not directory.expired():
                continue
            self.result["removed"].append(run_id)
            if not self.check_mode:
                if run_id in self.containers:
                    self.engine.remove(run_id)
                directory.remove()

    def state_directory(self) -> None:
        place = self.options["state_dir"]
        while not os.path.isdir(place):
            place = os.path.dirname(place)
        needed = self.options["free_bytes"]
        space = os.statvfs(place)
        free = space.f_bavail * space.f_frsize
        if free < needed:
            self.refuse(
                "RUN-DISK-FULL",
                f"{free >> 20} MiB free in {place}",
                f"{needed >> 20} MiB",
                "free some space, or set gdrcheck_state_dir to a larger file system",
            )
            return
        if not self.check_mode:
            self.directory.make(self.options["listener_s"])
        self.lock()

    def lock(self) -> None:
        path = os.path.join(self.options["state_dir"], "lock")
        if self.check_mode and not os.path.exists(path):
            return
        flags = os.O_RDONLY if self.check_mode else os.O_RDONLY | os.O_CREAT
        descriptor = os.open(path, flags, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            running = [r for r, runs in getattr(self, "containers", {}).items() if runs]
            self.refuse(
                "RUN-LOCKED",
                f"{path} is held by run {', '.join(running) or 'unknown'}",
                "no other run on this node",
                "wait until it ends (each run has a deadline), or end it: `ansible-playbook "
                f"playbooks/clean.yml -e gdrcheck_run_id={running[0] if running else 'RUN-ID'}`",
            )
        finally:
            os.close(descriptor)

    def listen(self) -> None:
        address, port = self.options["address"], self.options["port"]
        try:
            listening = bound(address, port)
        except OSError as error:
            self.refuse(
                "RUN-ADDRESS-UNREACHABLE",
                f"{address} port {port}: {error.strerror or error}",
                "an address of this node and a free port",
                "set gdrcheck_address to the address at which the other nodes reach this one, "
                "gdrcheck_port to a free port",
            )
            return
        with listening:
            if listening.getsockname()[0].startswith("127.") and not address.startswith("127."):
                self.refuse(
                    "RUN-ADDRESS-UNREACHABLE",
                    f"{address} means {listening.getsockname()[0]} on the node itself",
                    "an address that other nodes can reach",
                    "set gdrcheck_address to an IP address",
                )
            if not self.findings and not self.check_mode:
                self.serve(listening)

    def serve(self, listening: socket.socket) -> None:
        hello = {"run_id": self.options["run_id"], "node": self.options["node"]}
        pid = os.fork()
        if pid == 0:
            serve_forever(listening, json.dumps(hello).encode() + b"\n", self.options["listener_s"])
        self.directory.remember("listener", {"pid": pid, "started_ticks": started_ticks(pid)})


def serve_forever(listening: socket.socket, hello: bytes, lifetime_s: int) -> None:
    """The listener's process: says who it is to everyone who connects, until its alarm ends it."""
    signal.alarm(lifetime_s)
    os.setsid()
    os.chdir("/")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    listening.listen(128)
    while True:
        try:
            connection, _ = listening.accept()
            with connection:
                connection.settimeout(2)
                connection.sendall(hello)
        except OSError:
            continue


def bound(address: str, port: int) -> socket.socket:
    """A TCP socket bound there; OSError when that is not possible here."""
    family, kind, protocol, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(128)
    except OSError:
        listening.close()
        raise
    return listening


def names_gpus(path: str) -> bool:
    """Whether a CDI file is about NVIDIA GPUs."""
    try:
        with open(path, errors="replace") as file:
            return CDI_KIND in file.read(1 << 20)
    except OSError:
        return False


def dotted(version: tuple) -> str:
    """``4.1``"""
    return ".".join(map(str, version))


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "run_id": {"type": "str", "required": True},
            "node": {"type": "str", "required": True},
            "address": {"type": "str", "required": True},
            "port": {"type": "int", "required": True},
            "engine": {"type": "str", "default": "auto", "choices": ["auto", "podman", "docker"]},
            "image": {"type": "str", "required": True},
            "image_id": {"type": "str", "default": ""},
            "image_source": {"type": "str", "required": True},
            "free_bytes": {"type": "int", "required": True},
            "state_dir": {"type": "path", "required": True},
            "gpus_promised": {"type": "int", "required": True},
            "allow_gpu_processes": {"type": "bool", "default": False},
            "listener_s": {"type": "int", "required": True},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    preflight = Preflight(module.params, module.check_mode)
    preflight.examine()
    module.exit_json(changed=False, findings=preflight.findings, **preflight.result)


if __name__ == "__main__":
    main()
