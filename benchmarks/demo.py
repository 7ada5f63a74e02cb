"""How long `make demo` takes: the first time on a machine, and again.

    python -m benchmarks.demo --forget-images

The first time is made by an empty cache directory and by removing the container images that this
project builds. Debian packages that are installed stay installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ("localhost/gdrcheck", "localhost/debian")


def forget_images() -> None:
    """Removes our own images, and what they were built from, from this host's podman."""
    for name in IMAGES:
        listed = subprocess.run(
            ["podman", "images", "--quiet", name], capture_output=True, text=True, check=True
        )
        for image in dict.fromkeys(listed.stdout.split()):
            subprocess.run(["podman", "rmi", "--force", image], check=True, capture_output=True)
    subprocess.run(["podman", "image", "prune", "--force"], check=True, capture_output=True)


def demo(cache: str) -> tuple[float, int]:
    """Seconds that `make demo` took, and its exit status."""
    start = time.monotonic()
    done = subprocess.run(
        ["make", "demo"], cwd=ROOT, env={**os.environ, "XDG_CACHE_HOME": cache, "LAB": "bench"}
    )
    return time.monotonic() - start, done.returncode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The option without which nothing is removed."""
    parser.add_argument(
        "--forget-images",
        action="store_true",
        help=f"remove the images {' and '.join(IMAGES)} of this host's podman first",
    )


def main() -> int:
    """Prints both times; exit status 1 when a demo did not pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    if not parser.parse_args().forget_images:
        parser.error("the first demo can only be measured with --forget-images")
    with tempfile.TemporaryDirectory(prefix="gdrcheck-bench-") as cache:
        forget_images()
        first_s, first = demo(cache)
        second_s, second = demo(cache)
    print(f"make demo, first:  {first_s:.0f} s, exit status {first}")
    print(f"make demo, second: {second_s:.0f} s, exit status {second}")
    return int(bool(first or second))


if __name__ == "__main__":
    sys.exit(main())
