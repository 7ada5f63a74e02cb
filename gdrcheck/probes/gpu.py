"""GPUs as NVIDIA's driver shows them, by NVML."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from gdrcheck.facts import Nvml, Unreadable
from gdrcheck.probes import live

CHILD = "gdrcheck.probes.nvml_child"
RECORD = "nvml.json"
# Without persistence mode the driver starts each GPU for the one who asks: some seconds a GPU.
DEADLINE_S = 30.0
# Each alone shows a loaded driver: sandboxes hide the first, containers may hide the second.
SIGNS_OF_DRIVER = ("sys/module/nvidia", "proc/driver/nvidia", "dev/nvidiactl")
ANSWER: TypeAdapter[Nvml | Unreadable] = TypeAdapter(Nvml | Unreadable)
# The child's first line when the libraries are the emulated ones, before it asks them anything: so
# it is known also of a call that fails or never returns.
EMULATED_LINE = b"EMULATED\n"


@dataclass(frozen=True, slots=True)
class Asked:
    """What NVML answers, as ``read_nvml`` says, and whether the driver's libraries are emulated."""

    nvml: Nvml | Unreadable | None
    emulated: bool


def read_nvml(root: Path, deadline_s: float = DEADLINE_S) -> Nvml | Unreadable | None:
    """What NVML answers on this machine, or what was recorded below another ``root``.

    None when no driver of NVIDIA's is loaded: neither the module in sysfs, nor its folder in
    procfs, nor the device node ``nvidiactl`` is there. Unreadable, with NVML's error, when one is
    loaded and cannot be asked: the library or its Python binding is missing, NVML refuses to
    start, or a driver call hangs.
    """
    return ask_nvml(root, deadline_s).nvml


def ask_nvml(root: Path, deadline_s: float = DEADLINE_S) -> Asked:
    """As ``read_nvml``, and whether what answered, or failed to, is the emulated driver."""
    if not any(_may_exist(root / sign) for sign in SIGNS_OF_DRIVER):
        return Asked(None, emulated=False)
    said = live.listen(root, CHILD, RECORD, deadline_s)
    emulated = said.printed.startswith(EMULATED_LINE)
    return Asked(said.failure or _parsed(said.printed.removeprefix(EMULATED_LINE)), emulated)


def _parsed(answer: bytes) -> Nvml | Unreadable:
    try:
        return ANSWER.validate_json(answer)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        why = f"{place}: {first['msg']}" if place else first["msg"]
        return Unreadable(unreadable=f"answer of NVML: {why[:200]}")


def _may_exist(path: Path) -> bool:
    """Whether ``path`` is there; also true when that cannot be told, so that NVML is asked."""
    try:
        return stat.S_IFMT(path.stat().st_mode) != 0
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
