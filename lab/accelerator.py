"""Chooses how guests run: KVM only where a kernel has been seen to run under it.

/dev/kvm can exist and still start no kernel, without any error; so the choice is made by booting
with a deadline.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab import cache, tools
from lab.machine import accelerator_arguments
from lab.node_image import NodeImage
from lab.paths import cache_directory
from lab.progress import step

PROBE_OPTION = "gdrcheck_lab.probe"
MARKER = b"gdrcheck-lab: kernel runs"
_PROBE_DEADLINE_S = 20.0
_DEVICE = Path("/dev/kvm")


@dataclass(frozen=True)
class Accelerator:
    """`name` is kvm or tcg; `reason` says why, in words for the user."""

    name: str
    reason: str


def choose(image: NodeImage) -> Accelerator:
    """KVM if a kernel boots under it here, otherwise emulation; remembered per host kernel,
    processor and QEMU.
    """
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return Accelerator("tcg", f"{_DEVICE} cannot be opened")
    record = cache_directory() / "accelerator" / f"{_host_key()}.json"
    try:
        known = json.loads(record.read_text())
        return Accelerator(str(known["name"]), str(known["reason"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    with step("trying whether a kernel runs under KVM here"):
        chosen = _try_kvm(image)
    record.parent.mkdir(parents=True, exist_ok=True)
    draft = record.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps({"name": chosen.name, "reason": chosen.reason}))
    draft.replace(record)
    return chosen


def forced(name: str) -> Accelerator:
    """The accelerator that the user asked for by name."""
    return Accelerator(name, "asked for")


def _try_kvm(image: NodeImage) -> Accelerator:
    with tempfile.TemporaryDirectory() as scratch:
        serial = Path(scratch) / "serial.log"
        command = [
            *(tools.find("qemu-system-x86_64"), "-M", "q35", "-nodefaults", "-no-user-config"),
            *("-display", "none", "-no-reboot", "-m", "512M", "-smp", "2"),
            *accelerator_arguments("kvm"),
            *("-kernel", str(image.kernel), "-initrd", str(image.initramfs)),
            *("-append", f"console=ttyS0 panic=-1 {PROBE_OPTION}"),
            *("-chardev", f"file,id=console,path={serial}", "-serial", "chardev:console"),
        ]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PROBE_DEADLINE_S,
            )
            end = f"QEMU ended with status {done.returncode} {done.stderr.strip()[-200:]}".strip()
        except subprocess.TimeoutExpired:
            end = f"no kernel ran within {_PROBE_DEADLINE_S:.0f} s"
        if serial.exists() and MARKER in serial.read_bytes():
            return Accelerator("kvm", "a kernel booted under KVM")
    return Accelerator("tcg", f"{_DEVICE} is there but does not run a kernel: {end}")


def _host_key() -> str:
    processors = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.*)$", processors, re.MULTILINE)
    version = tools.run("qemu-system-x86_64", "--version", deadline_s=30).splitlines()[0]
    return cache.key_of(platform.release(), model[1] if model else "unknown", version)
