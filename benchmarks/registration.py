"""How long registering GPU memory takes: both GPUs with the NIC, both methods, on two lab nodes.

python -m benchmarks.registration [--lab NAME]

The lab must be up with the image. The bar: the whole of it, from the start of the containers' entry
point to the last result of either node, in at most 120 s without KVM.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path

import yaml

from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import CaseResult
from lab import api
from lab.paths import INVENTORY_SOURCES
from tests.lab.conftest import IMAGE
from tests.lab.warm import Warm, spec, warm

BAR_S = 120
CHECKS = ("check_cuda.py", "check_registration.py")
REGISTERS = "gpu_memory_registers["
CASES = 2 * 2  # GPUs and methods, on each node


def measure(containers: Warm) -> tuple[float, dict[str, dict[str, CaseResult]]]:
    """Seconds until both nodes are done, and the cases of each."""
    promises = yaml.safe_load((INVENTORY_SOURCES / "profiles/lab_gpu.yml").read_text())
    promises |= {"pairs": "none", "matrix": "full"}
    begun = time.monotonic()
    with contextlib.redirect_stdout(None):
        runs = [containers.start(spec([node], promises), only=CHECKS) for node in containers.nodes]
        cases = {
            node.name: run.cases(node) for node, run in zip(containers.nodes, runs, strict=True)
        }
    return time.monotonic() - begun, cases


def main() -> int:
    """Prints what each registration took, and the whole; 1 unless all passed within the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", default=api.DEFAULT_NAME)
    options = parser.parse_args()
    nodes = api.Lab(options.lab).nodes[:2]
    with (
        tempfile.TemporaryDirectory() as folder,
        warm(nodes, IMAGE, Path(folder), name="registration", gpus=True) as containers,
    ):
        took_s, cases = measure(containers)
    good = True
    for of_node in cases.values():
        registers = [case for id_, case in of_node.items() if id_.startswith(REGISTERS)]
        good &= len(registers) == CASES
        for case in registers:
            good &= case.outcome is Outcome.PASSED
            sizes = case.properties.get("sizes tried", "")
            print(f"{case.duration_s:6.1f} s  {case.id}: {case.outcome}, {sizes}")
    print(f"both nodes, with reading facts and starting: {took_s:.0f} s (bar: {BAR_S} s)")
    return 0 if good and took_s <= BAR_S else 1


if __name__ == "__main__":
    sys.exit(main())
