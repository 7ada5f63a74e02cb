"""Whether a clean lab gives no finding: the same run again and again, over two nodes.

python -m benchmarks.clean_lab [--lab NAME] [--runs 10]
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

from lab import api
from tests.lab.conftest import IMAGE
from tests.lab.warm import spec, warm


def main() -> int:
    """Prints each run's verdict and findings; 1 unless all are PASS without any finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", default=api.DEFAULT_NAME)
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    nodes = api.Lab(options.lab).nodes[:2]
    bad = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        warm(nodes, IMAGE, Path(folder), name="clean") as containers,
    ):
        for number in range(1, options.runs + 1):
            with contextlib.redirect_stdout(None):
                merged = containers.start(spec(nodes)).finish()
            verdict = merged.summary["verdict"]
            found = ", ".join(f"{code} at {place}" for code, place in merged.codes)
            print(f"run {number}: {verdict}, findings: {found or 'none'}", flush=True)
            bad += verdict != "PASS" or bool(merged.codes)
    print(f"{options.runs - bad} of {options.runs} runs clean")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
