"""One module a machine; ``MACHINES`` makes each by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.captured.machine import Machine
from tests.captured.machines import dgx, grace, h200vm, h200x2, lab, mig, pod, roce, vm

MACHINES: Mapping[str, Callable[[], Machine]] = {
    "lab": lab.machine,
    "dgx": dgx.machine,
    "roce": roce.machine,
    "grace": grace.machine,
    "mig": mig.machine,
    "pod": pod.machine,
    "vm": vm.machine,
    "h200vm": h200vm.machine,
    "h200x2": h200x2.machine,
}
