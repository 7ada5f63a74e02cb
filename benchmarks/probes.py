"""How long the probes of one node take: on this machine, or in a warm container of the lab.

python -m benchmarks.probes                 this machine
python -m benchmarks.probes --lab NAME      node1 of a lab that is up (bar: 15 s)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from lab import api
from tests.lab.conftest import IMAGE
from tests.lab.warm import warm

# From the first probe to the last, without the interpreter's own start.
PROBES = (
    "import time; from gdrcheck import probes; t = time.monotonic(); probes.collect('x'); "
    "print(time.monotonic() - t)"
)


def show(what: str, times_s: list[float]) -> None:
    """One line: each time and the median."""
    each = ", ".join(f"{one:.2f}" for one in times_s)
    print(f"{what}: median {median(times_s):.2f} s of {each}")


def measured(command: Callable[[Sequence[str]], list[str]], rounds: int) -> None:
    """Times the probes alone and the whole command; ``command`` says how Python is started."""
    alone, whole = [], []
    for _ in range(rounds):
        done = subprocess.run(command(["-c", PROBES]), check=True, capture_output=True, text=True)
        alone.append(float(done.stdout))
        start = time.monotonic()
        facts = command(["-m", "gdrcheck", "facts", "--json"])
        subprocess.run(facts, check=True, capture_output=True)
        whole.append(time.monotonic() - start)
    show("probes alone", alone)
    show("gdrcheck facts --json, with the start of the interpreter", whole)


def main() -> int:
    """Prints the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.lab is None:
        measured(lambda arguments: [sys.executable, *arguments], options.rounds)
        return 0
    node = api.Lab(options.lab).nodes[0]
    python = ("sudo", "podman", "exec", "probes", "/usr/bin/python3")
    with tempfile.TemporaryDirectory() as folder, warm([node], IMAGE, Path(folder), name="probes"):
        measured(lambda arguments: node.ssh_command([*python, *arguments]), options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
