"""Two endpoint children in one process, on one device: post after post, and what the process holds.

    python3 posts_child.py DEVICE POSTS

Runs in a container on a lab node and needs nothing but the package there. Writes a line of JSON
after each round; benchmarks.posts reads them.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gdrcheck.memory.worker import Worker
from gdrcheck.transfer import MODES, Role, variants
from gdrcheck.verbs import protocol

ROLES: tuple[Role, ...] = ("source", "sink")
QUEUE_PAIRS = 4
WRITES = 40_000
ROUND_TRIPS = 300
SIZES_BYTES = (1, 65, 4097)
# Of each size and each way of registering.
MESSAGES = 15
_HOST = variants(MODES[0], (), ())


class Ends:
    """Both children; ``ask`` them at the same time."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self.workers = (Worker(), Worker())

    def ask(self, source: protocol.Request, sink: protocol.Request) -> tuple[Any, Any]:
        """What they answer. RuntimeError if something did not complete."""
        asked = [
            self._pool.submit(worker.handle, request)
            for worker, request in zip(self.workers, (source, sink), strict=True)
        ]
        first, second = (one.result() for one in asked)
        if not (getattr(first, "completed", True) and getattr(second, "completed", True)):
            raise RuntimeError(f"{source.command} did not complete: {first} {second}")
        return first, second

    def of_roles(self, request: type[Any], /, **fields: Any) -> tuple[Any, Any]:
        """``ask`` with the same request for both roles."""
        source, sink = (request(role=role, **fields) for role in ROLES)
        return self.ask(source, sink)


def posted(ends: Ends, number: int) -> int:
    """One round of everything; how many work requests were posted at the least."""
    writes, _ = ends.of_roles(
        protocol.Timed,
        kind="bandwidth",
        variant=_HOST[0],
        size_bytes=64,
        iterations=WRITES,
        depth=128,
        queue_pairs=QUEUE_PAIRS,
    )
    trips, _ = ends.of_roles(
        protocol.Timed, kind="latency", variant=_HOST[0], size_bytes=64, iterations=ROUND_TRIPS
    )
    ends.of_roles(
        protocol.Arm,
        operation="SEND",
        variants=_HOST,
        sizes_bytes=SIZES_BYTES,
        iterations=MESSAGES,
        run_tag=number,
        direction=0,
    )
    go = protocol.Go()
    ends.ask(go, go)
    # A round trip and a message are two sends and two receives.
    messages = len(SIZES_BYTES) * MESSAGES * len(_HOST)
    return int(writes.iterations) + 4 * (int(trips.iterations) + messages)


def resident_bytes() -> int:
    """Memory of this process that is really there."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    """Rounds until enough was posted."""
    device, wanted = sys.argv[1], int(sys.argv[2])
    with ThreadPoolExecutor(2) as pool:
        ends = Ends(pool)
        opening = protocol.Open(device=device, completion_s=60)
        # One after the other: with old pyverbs each looks for the event file that it has opened.
        made = []
        for worker in ends.workers:
            worker.handle(opening)
            made.append(worker.handle(protocol.CreateQp(queue_pairs=QUEUE_PAIRS)))
        ends.ask(protocol.Connect(remote=made[1]), protocol.Connect(remote=made[0]))
        count, number = 0, 0
        while count < wanted:
            count += posted(ends, number)
            number += 1
            gc.collect()
            held = {"resident_bytes": resident_bytes(), "objects": len(gc.get_objects())}
            print(json.dumps({"posts": count, **held}), flush=True)
        for worker in ends.workers:
            worker.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
