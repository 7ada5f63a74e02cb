"""The emulated driver in this process or in one that is started: the real bindings then use it."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from lab.emulated_gpu import build
from lab.emulated_gpu.config import VARIABLE
from lab.errors import LabError

_MARKER = "gdrcheck_emulated_gpu"


def in_process(config: Path) -> None:
    """Load libcuda and libnvidia-ml into this process, for good, and point them at ``config``.

    What is loaded under a library's name is what the bindings get when they ask for it, so this
    comes before their first call. A second call only changes the file. Raises LabError when another
    library of the name is loaded already.
    """
    os.environ[VARIABLE] = str(config)
    folder = build.build()
    for name in (build.LIBCUDA, build.LIBNVIDIA_ML):
        ctypes.CDLL(str(folder / name))
        if not hasattr(ctypes.CDLL(name), _MARKER):
            raise LabError(f"another {name} is loaded in this process already")


def environment(config: Path) -> dict[str, str]:
    """The variables with which a process that is started finds the emulated driver."""
    folder = str(build.build())
    others = os.environ.get("LD_LIBRARY_PATH", "")
    return {
        VARIABLE: str(config),
        "LD_LIBRARY_PATH": f"{folder}:{others}" if others else folder,
    }
