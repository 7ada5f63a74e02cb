"""Changes what a lab node's emulated GPUs are and do, for the length of a ``with`` block.

Containers that run already see the change: each call of the emulated driver looks at its file, and
what is mounted over /sys on the node is passed on to them.
"""

from __future__ import annotations

import io
import shlex
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from lab.api import Lab, Node
from lab.emulated_gpu import node_files
from lab.emulated_gpu.config import DEFAULT_PATH, Config
from lab.emulated_gpu.node_files import OVERLAY
from lab.errors import LabError

_DEADLINE_S = 60


def configuration(node: Node) -> Config:
    """What the node's gpus.conf says from its boot: to be changed by ``dataclasses.replace``."""
    return node_files.configuration(node.number, Lab(node.lab_name).state().memory_mib)


@contextmanager
def configured(node: Node, config: Config) -> Iterator[None]:
    """Another gpus.conf on the node."""
    before = node.ssh(f"cat {DEFAULT_PATH}", check=True).stdout
    _write(node, config.text())
    try:
        yield
    finally:
        _write(node, before)


@contextmanager
def driver_files(
    node: Node, files: Mapping[str, str] | None = None, *, without: Sequence[str] = ()
) -> Iterator[None]:
    """The driver's files in the containers' sysfs and procfs with ``files`` and without others.

    Paths begin with ``sys/`` or ``proc-driver/`` (what is /proc/driver there):
    ``without=["sys/module/nvidia_peermem", "sys/kernel/mm/memory_peers"]``.
    """
    command = f"sudo {OVERLAY} push {shlex.join(without)}"
    _pipe(node, command, _tar(files or {}))
    try:
        yield
    finally:
        node.ssh(f"sudo {OVERLAY} pop", check=True)


def _write(node: Node, text: str) -> None:
    """Puts the file in place as a whole: no call of the driver sees half of it."""
    draft = DEFAULT_PATH.with_suffix(".draft")
    command = f"sudo tee {draft} >/dev/null && sudo mv {draft} {DEFAULT_PATH}"
    _pipe(node, command, text.encode())


def _tar(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text.encode()), 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


def _pipe(node: Node, command: str, data: bytes) -> None:
    try:
        done = subprocess.run(
            node.ssh_command(command), input=data, capture_output=True, timeout=_DEADLINE_S
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{node.name}: no end within {_DEADLINE_S} s of: {command}") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise LabError(f"{node.name}: status {done.returncode} from: {command}\n{said}")
