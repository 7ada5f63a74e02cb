"""``python -m gdrcheck.probes.nvml_child``: asks NVML and prints the answer as JSON.

A process of its own, because a call into the driver may hang. What it is about to ask goes to
standard error, so that the parent can say where it hung.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from pathlib import Path

from gdrcheck.facts import Nvml, Unreadable
from gdrcheck.probes.gpu import EMULATED_LINE

try:
    from gdrcheck.probes import nvml_read
except ImportError as error:
    MISSING = f"the Python package nvidia-ml-py: {error}"
else:
    MISSING = ""

LIBRARIES = ("libnvidia-ml.so.1", "libcuda.so.1")
EMULATED_MARKER = "gdrcheck_emulated_gpu"
# The driver's own list of GPUs, by slot: also those that NVML gives no handle for.
BOUND_GPUS = Path("/proc/driver/nvidia/gpus")
LOG = logging.getLogger(__name__)


def main() -> None:
    """Prints an ``Nvml``, or an ``Unreadable`` when NVML cannot be asked at all.

    ``EMULATED_LINE`` comes first when the driver's libraries are emulated.
    """
    # A library that prints something must not spoil the answer.
    with os.fdopen(os.dup(1), "wb") as answer:
        os.dup2(2, 1)
        logging.basicConfig(stream=sys.stderr, level=logging.DEBUG, format="%(message)s")
        if is_emulated():
            answer.write(EMULATED_LINE)
            answer.flush()
        answer.write(read().model_dump_json().encode())


def is_emulated() -> bool:
    """Whether NVML or the CUDA driver library here is the lab's, which says so by a symbol."""
    return any(_has_marker(library) for library in LIBRARIES)


def _has_marker(library: str) -> bool:
    LOG.debug("load %s", library)
    try:
        return hasattr(ctypes.CDLL(library), EMULATED_MARKER)
    except OSError:
        return False  # It is not there, or cannot be loaded: NVML's binding says so itself.


def read(bound_gpus: Path = BOUND_GPUS) -> Nvml | Unreadable:
    """What NVML answers about this machine; each value that it does not give says why."""
    if MISSING:
        return Unreadable(unreadable=MISSING)
    return nvml_read.machine(bound_gpus)


if __name__ == "__main__":
    main()
