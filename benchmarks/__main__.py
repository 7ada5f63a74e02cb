"""All numbers, one after the other: `python -m benchmarks`. Takes about half an hour."""

from __future__ import annotations

import argparse
import subprocess
import sys

from benchmarks import demo
from lab import api

LAB = "bench"
IMAGE = "localhost/gdrcheck:dev"


def main() -> int:
    """Runs each benchmark as its own command; exit status 1 when one misses a bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    demo.add_arguments(parser)
    options = parser.parse_args()
    failed = 0
    if options.forget_images:
        command = [sys.executable, "-m", "benchmarks.demo", "--forget-images"]
        failed = subprocess.run(command).returncode
    else:
        print("benchmarks.demo is left out: it needs --forget-images", file=sys.stderr)
    with api.running(nodes=2, name=LAB, image=IMAGE):
        for name in ("run", "pingpong", "posts", "registration"):
            command = [sys.executable, "-m", f"benchmarks.{name}", "--lab", LAB]
            failed |= subprocess.run(command).returncode
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
