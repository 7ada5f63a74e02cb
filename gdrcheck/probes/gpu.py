"""GPUs as NVIDIA's driver shows them, by NVML."""

from __future__ import annotations

import stat
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


def read_nvml(root: Path, deadline_s: float = DEADLINE_S) -> Nvml | Unreadable | None:
    """What NVML answers on this machine, or what was recorded below another ``root``.

    None when no driver of NVIDIA's is loaded: neither the module in sysfs, nor its folder in
    procfs, nor the device node ``nvidiactl`` is there. Unreadable, with NVML's error, when one is
    loaded and cannot be asked: the library or its Python binding is missing, NVML refuses to
    start, or a driver call hangs.
    """
    if not any(_may_exist(root / sign) for sign in SIGNS_OF_DRIVER):
        return None
    answer = live.answer(root, CHILD, RECORD, deadline_s)
    if isinstance(answer, Unreadable):
        return answer
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
