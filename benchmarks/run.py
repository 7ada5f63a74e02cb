"""How long a run takes without any set-up: the playbook over a lab that is up, three times.

python -m benchmarks.run [--lab NAME] [--rounds 3]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from lab import api

ROOT = Path(__file__).resolve().parents[1]


def seconds(lab: api.Lab) -> float:
    """Seconds of one run; CalledProcessError unless its verdict is PASS."""
    command = [
        str(Path(sys.executable).with_name("ansible-playbook")),
        *("-i", str(lab.inventory / "hosts.yml")),
        "validate.yml",
    ]
    start = time.monotonic()
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def main() -> int:
    """Prints each time and the median."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", default=api.DEFAULT_NAME)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    lab = api.Lab(options.lab)
    times_s = [seconds(lab) for _ in range(options.rounds)]
    print(f"run over {len(lab.nodes)} nodes: {', '.join(f'{one:.0f}' for one in times_s)} s")
    print(f"median: {median(times_s):.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
