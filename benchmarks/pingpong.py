"""Our timed modes against perftest, on the same two lab nodes, turn by turn.

    python -m benchmarks.pingpong [--lab NAME] [--rounds 5] [--queue-pairs 1] [--json FILE]

Needs a lab that is up with the image. Absolute numbers mean nothing under emulation; the ratio of
neighbouring measurements does, and of these the median. Exit status 1 if a bar is missed.

ib_send_lat spins, which hurts itself when the emulated processors outnumber the real ones; ours
spins 100 us and then blocks. So ib_send_lat is also run with --events, as information.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import perftest
from benchmarks.worker_pair import WorkerPair, worker_pair
from gdrcheck.transfer import variants
from gdrcheck.verbs import protocol
from lab import api

DEVICE = "rxe0"
LATENCY_BYTES = 64
LATENCY_ITERATIONS = 500
LATENCY_BAR = 1.15
BANDWIDTH_BYTES = (65_536, 1 << 20)
# So much of each size.
BANDWIDTH_TOTAL_BYTES = 64 << 20
# What ib_write_bw has in flight on a queue pair, unless it is told otherwise.
DEPTH = 128
BANDWIDTH_BAR = 0.97
_COMPLETION_S = 60
_HOST_HOST = variants("host-host", (), ())[0]


def _ours(pair: WorkerPair, **plan: Any) -> protocol.TimedResult:
    fields = {**plan, "variant": _HOST_HOST, "depth": DEPTH}
    source, sink = pair.both(
        protocol.Timed.model_validate({**fields, "role": "source"}),
        protocol.Timed.model_validate({**fields, "role": "sink"}),
        protocol.TimedResult,
    )
    if not (source.completed and sink.completed):
        raise RuntimeError(f"{plan} did not complete: {source} {sink}")
    return source


def measure(lab: api.Lab, rounds: int, queue_pairs: int) -> list[dict[str, float]]:
    """One row a round; latencies in us, bandwidths in Gb/s."""
    client, server = lab.node("node2"), lab.node("node1")
    image = lab.state().image
    if not image:
        raise SystemExit(f"lab {lab.name} is up without an image: use `lab up --image REF`")
    rows = []
    request = protocol.Open(device=DEVICE, completion_s=_COMPLETION_S)
    with worker_pair(client, server, request, image, queue_pairs) as (pair, opened):
        route = (client, server, DEVICE, opened.gid_index)
        for number in range(rounds):
            row = _latency(pair, route)
            for size in BANDWIDTH_BYTES:
                row |= _bandwidth(pair, route, size, queue_pairs)
            rows.append(row)
            print(f"round {number + 1}: {_text(row)}", flush=True)
    return rows


def _latency(pair: WorkerPair, route: perftest.Route) -> dict[str, float]:
    theirs_us = perftest.latency_us(route, LATENCY_BYTES, LATENCY_ITERATIONS)
    ours = _ours(pair, kind="latency", size_bytes=LATENCY_BYTES, iterations=LATENCY_ITERATIONS)
    events_us = perftest.latency_us(route, LATENCY_BYTES, LATENCY_ITERATIONS, "--events")
    ours_us = ours.median_us or 0.0
    return {
        "latency_us": ours_us,
        "latency_perftest_us": theirs_us,
        "latency_perftest_events_us": events_us,
        "latency_ratio": ours_us / theirs_us,
    }


def _bandwidth(
    pair: WorkerPair, route: perftest.Route, size_bytes: int, queue_pairs: int
) -> dict[str, float]:
    count = BANDWIDTH_TOTAL_BYTES // size_bytes
    ours = _ours(
        pair, kind="bandwidth", size_bytes=size_bytes, iterations=count, queue_pairs=queue_pairs
    )
    # perftest counts the messages of each queue pair.
    theirs_gbps = perftest.bandwidth_gbps(route, size_bytes, count // queue_pairs, queue_pairs)
    ours_gbps = ours.gbps or 0.0
    return {
        f"bandwidth_{size_bytes}_gbps": ours_gbps,
        f"bandwidth_{size_bytes}_perftest_gbps": theirs_gbps,
        f"bandwidth_{size_bytes}_ratio": ours_gbps / theirs_gbps,
    }


def _text(row: dict[str, float]) -> str:
    latency = (
        f"latency {row['latency_us']:.0f} us, ib_send_lat {row['latency_perftest_us']:.0f} us "
        f"(with --events {row['latency_perftest_events_us']:.0f} us), "
        f"ratio {row['latency_ratio']:.2f}"
    )
    rates = (
        f"{size} B {row[f'bandwidth_{size}_gbps']:.4f} Gb/s, ib_write_bw "
        f"{row[f'bandwidth_{size}_perftest_gbps']:.4f} Gb/s, "
        f"ratio {row[f'bandwidth_{size}_ratio']:.2f}"
        for size in BANDWIDTH_BYTES
    )
    return "; ".join((latency, *rates))


def main() -> int:
    """Measure, print, and compare with the bars; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lab", default=api.DEFAULT_NAME, help="name of a lab that is up")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queue-pairs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    rows = measure(api.Lab(options.lab), options.rounds, options.queue_pairs)
    latency = median(row["latency_ratio"] for row in rows)
    good = latency <= LATENCY_BAR
    print(f"median latency ratio {latency:.2f} (bar: at most {LATENCY_BAR})")
    for size in BANDWIDTH_BYTES:
        ratio = median(row[f"bandwidth_{size}_ratio"] for row in rows)
        good &= ratio >= BANDWIDTH_BAR
        print(f"median bandwidth ratio at {size} B {ratio:.2f} (bar: at least {BANDWIDTH_BAR})")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
