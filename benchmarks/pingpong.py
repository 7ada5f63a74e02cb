"""Our timed modes against perftest, on the same two lab nodes, turn by turn.

    python -m benchmarks.pingpong [--lab NAME] [--rounds 5] [--json FILE]

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

from benchmarks import perftest
from benchmarks.worker_pair import WorkerPair, worker_pair
from gdrcheck.verbs import protocol
from lab import api

DEVICE = "rxe0"
LATENCY_BYTES = 64
LATENCY_ITERATIONS = 500
LATENCY_BAR = 1.2
BANDWIDTH_BYTES = 65536
BANDWIDTH_ITERATIONS = 1000
BANDWIDTH_BAR = 0.95
_COMPLETION_S = 60


def _ours(pair: WorkerPair, kind: str, size_bytes: int, iterations: int) -> protocol.TimedResult:
    plan = {"kind": kind, "size_bytes": size_bytes, "iterations": iterations, "depth": 64}
    source, sink = pair.both(
        protocol.Timed.model_validate({**plan, "role": "source"}),
        protocol.Timed.model_validate({**plan, "role": "sink"}),
        protocol.TimedResult,
    )
    if not (source.completed and sink.completed):
        raise RuntimeError(f"{kind} did not complete: {source} {sink}")
    return source


def measure(lab: api.Lab, rounds: int) -> list[dict[str, float]]:
    """One row a round; latencies in us, bandwidths in Gb/s."""
    client, server = lab.node("node2"), lab.node("node1")
    image = lab.state().image
    if not image:
        raise SystemExit(f"lab {lab.name} is up without an image: use `lab up --image REF`")
    rows = []
    request = protocol.Open(device=DEVICE, completion_s=_COMPLETION_S)
    with worker_pair(client, server, request, image) as (pair, opened):
        for number in range(rounds):
            theirs = (client, server, DEVICE, opened.gid_index, LATENCY_BYTES, LATENCY_ITERATIONS)
            row = {
                "latency_perftest_us": perftest.latency_us(*theirs),
                "latency_perftest_events_us": perftest.latency_us(*theirs, "--events"),
                "latency_us": _ours(pair, "latency", LATENCY_BYTES, LATENCY_ITERATIONS).median_us
                or 0.0,
                "bandwidth_gbps": _ours(
                    pair, "bandwidth", BANDWIDTH_BYTES, BANDWIDTH_ITERATIONS
                ).gbps
                or 0.0,
                "bandwidth_perftest_gbps": perftest.bandwidth_gbps(
                    client, server, DEVICE, opened.gid_index, BANDWIDTH_BYTES, BANDWIDTH_ITERATIONS
                ),
            }
            row["latency_ratio"] = row["latency_us"] / row["latency_perftest_us"]
            row["bandwidth_ratio"] = row["bandwidth_gbps"] / row["bandwidth_perftest_gbps"]
            rows.append(row)
            print(
                f"round {number + 1}: "
                f"latency {row['latency_us']:.0f} us, ib_send_lat "
                f"{row['latency_perftest_us']:.0f} us, ratio {row['latency_ratio']:.2f} "
                f"(with --events {row['latency_perftest_events_us']:.0f} us); "
                f"bandwidth {row['bandwidth_gbps']:.4f} Gb/s, ib_write_bw "
                f"{row['bandwidth_perftest_gbps']:.4f} Gb/s, ratio {row['bandwidth_ratio']:.2f}",
                flush=True,
            )
    return rows


def main() -> int:
    """Measure, print, and compare with the bars; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lab", default=api.DEFAULT_NAME, help="name of a lab that is up")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    rows = measure(api.Lab(options.lab), options.rounds)
    latency = median(row["latency_ratio"] for row in rows)
    bandwidth = median(row["bandwidth_ratio"] for row in rows)
    print(f"median latency ratio {latency:.2f} (bar: at most {LATENCY_BAR})")
    print(f"median bandwidth ratio {bandwidth:.2f} (bar: at least {BANDWIDTH_BAR})")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if latency <= LATENCY_BAR and bandwidth >= BANDWIDTH_BAR else 1


if __name__ == "__main__":
    raise SystemExit(main())
