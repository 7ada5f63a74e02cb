"""All numbers, one after the other: `python -m benchmarks`. Takes about half an hour."""

from __future__ import annotations

import subprocess
import sys

from lab import api

LAB = "bench"
IMAGE = "localhost/gdrcheck:dev"


def main() -> int:
    """Runs each benchmark as its own command; exit status 1 when one misses a bar."""
    failed = subprocess.run([sys.executable, "-m", "benchmarks.demo"]).returncode
    with api.running(nodes=2, name=LAB, image=IMAGE):
        for name in ("run", "pingpong"):
            command = [sys.executable, "-m", f"benchmarks.{name}", "--lab", LAB]
            failed |= subprocess.run(command).returncode
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
