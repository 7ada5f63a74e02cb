"""Whether anything is left behind by a million work requests: memory, Python objects.

    python -m benchmarks.posts [--lab NAME] [--posts 1000000] [--json FILE]

Two endpoint children of one process write to each other, play ping-pong and exchange verified
messages through the loop-back of a lab node's Soft-RoCE device, on queue pairs that are made once.
Needs a lab that is up with the image. Exit status 1 if memory or objects grew beyond the bars.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.worker_pair import container
from lab import api

# Imported on the node alone: it needs pyverbs.
CHILD = Path(__file__).with_name("posts_child.py")
POSTS = 1_000_000
DEVICE = "rxe0"
# What the process grew to in its first rounds is not counted: caches fill, arenas are made.
WARM_UP_POSTS = 100_000
# A leak of one byte a post would be more.
BAR_BYTES = 1 << 20
BAR_OBJECTS = 200


def rounds(node: api.Node, image: str, posts: int) -> Iterator[dict[str, int]]:
    """What the process says after each round. CalledProcessError if it fails."""
    command = node.ssh_command(f"{container(image)} - {DEVICE} {posts}")
    with (
        CHILD.open("rb") as program,
        subprocess.Popen(command, stdin=program, stdout=subprocess.PIPE, text=True) as child,
    ):
        assert child.stdout is not None
        for line in child.stdout:
            yield json.loads(line)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)


def growth(rows: Sequence[dict[str, int]]) -> dict[str, int]:
    """Posts, bytes and objects of the last row beyond those of the first that was warm."""
    first = next(row for row in rows if row["posts"] >= WARM_UP_POSTS)
    return {name: rows[-1][name] - first[name] for name in first}


def main() -> int:
    """Prints each round and the growth; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lab", default=api.DEFAULT_NAME, help="name of a lab that is up")
    parser.add_argument("--posts", type=int, default=POSTS)
    parser.add_argument("--json", type=Path, help="also write the rounds here")
    options = parser.parse_args()
    lab = api.Lab(options.lab)
    image = lab.state().image
    if not image:
        raise SystemExit(f"lab {lab.name} is up without an image: use `lab up --image REF`")
    rows = []
    for row in rounds(lab.nodes[0], image, options.posts + WARM_UP_POSTS):
        rows.append(row)
        mib = row["resident_bytes"] / (1 << 20)
        print(f"{row['posts']:9} posts: {mib:.2f} MiB, {row['objects']} objects", flush=True)
    grown = growth(rows)
    print(
        f"{grown['posts']} posts: {grown['resident_bytes'] / 1024:.0f} KiB more "
        f"(bar: {BAR_BYTES >> 10}), {grown['objects']} objects more (bar: {BAR_OBJECTS})"
    )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    good = grown["resident_bytes"] <= BAR_BYTES and grown["objects"] <= BAR_OBJECTS
    return 0 if good and grown["posts"] >= options.posts else 1


if __name__ == "__main__":
    sys.exit(main())
