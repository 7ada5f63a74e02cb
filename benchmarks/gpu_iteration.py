"""What verification adds to one message that a NIC wrote into GPU memory, by size.

python -m benchmarks.gpu_iteration [--json FILE]    needs an NVIDIA GPU and driver, no NIC

Each step ends when its caller may go on: before a message the sink is poisoned and the source
filled; after its completion the NIC's writes are flushed, the kernel compares, and its verdict is
read back; "verified" is these three in one go. "judged" is what an exchange does instead: flush,
three kernels (the message and the bytes on both sides of it), and all of that once more by the CPU
over a copy. It is timed apart, since a GPU that waited for the CPU is slow at first. "flush call"
is cuFlushGPUDirectRDMAWrites, also on a platform that does not need it. Exit status 1 when a byte
was wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from gdrcheck.gpu.buffers import allocate
from gdrcheck.gpu.compat import call, driver
from gdrcheck.gpu.context import Gpu, open_gpu
from gdrcheck.gpu.devices import enumerate_gpus, start
from gdrcheck.gpu.engine import engine_of
from gdrcheck.gpu.flush import flush_remote_writes
from gdrcheck.gpu.launcher import loaded, scratch
from gdrcheck.memory.payload import GUARD_BYTES, GpuPayload
from gdrcheck.outcome import ProbeError
from gdrcheck.pattern import Key, Pattern
from gdrcheck.sizes import size_text

KIB, MIB = 1 << 10, 1 << 20
SIZES_BYTES = (1, 64, 4 * KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
ROUNDS = 25
# Messages start neither at a word of memory nor at one of their stream.
_OFFSET, _START = 63, 63
_BESIDE_BYTES = 64
# An idle GPU takes its time to reach its clocks.
_WARM_UP_S = 1.0
_VERDICT_BYTES = 24
# CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST of cuda.h.
_BY_HOST = 1


@dataclass(frozen=True, slots=True)
class Steps:
    """Medians of one size, in us. ``verified_us`` is by the GPU alone, ``judged_us`` by both.
    ``flush_call_us`` is None when the driver has no such call.
    """

    length_bytes: int
    fill_us: float
    poison_us: float
    flush_us: float
    flush_call_us: float | None
    kernel_us: float
    verdict_us: float
    verified_us: float
    judged_us: float


@dataclass(frozen=True, slots=True)
class Measured:
    """All sizes on one GPU; ``flush`` is how writes of a NIC are made visible there."""

    gpu: str
    flush: str
    rounds: int
    steps: tuple[Steps, ...]


def measure(gpu: Gpu, sizes_bytes: Sequence[int] = SIZES_BYTES, rounds: int = ROUNDS) -> Measured:
    """The steps of one message of each size on this GPU.

    CudaError if the driver refuses something, ProbeError if a verification finds a wrong byte.
    """
    steps = tuple(_steps(gpu, size, rounds) for size in sizes_bytes)
    return Measured(gpu.device.name, flush_remote_writes(gpu), rounds, steps)


def _steps(gpu: Gpu, length: int, rounds: int) -> Steps:
    engine, key, other = engine_of(gpu), Key(1, 2, 3, 4), Key(5, 6, 7, 8)
    verdict_host = np.empty(_VERDICT_BYTES, dtype=np.uint8)
    with (
        allocate(gpu, length + _OFFSET) as source,
        allocate(gpu, length + _OFFSET) as sink,
        allocate(gpu, length + 2 * (_BESIDE_BYTES + GUARD_BYTES)) as beside,
        loaded(gpu) as kernels,
        scratch(gpu, _VERDICT_BYTES) as verdict,
    ):
        engine.fill(sink, key, _OFFSET, length, _START)

        def kernel() -> None:
            kernels.verify(sink.address + _OFFSET, length, key.stream, _START, verdict)
            gpu.synchronize()

        def verified() -> None:
            flush_remote_writes(gpu)
            _insist(engine.gpu_verify_only(sink, key, _OFFSET, length, _START))

        payload = GpuPayload(beside, Pattern(length + 3 * _BESIDE_BYTES))
        payload.poison(key, 0, length + 2 * _BESIDE_BYTES, 0)
        payload.fill(key, _BESIDE_BYTES, length, _BESIDE_BYTES)

        def judged() -> None:
            payload.flush(_BESIDE_BYTES)
            found = payload.judge(key, _BESIDE_BYTES, length, _BESIDE_BYTES, _BESIDE_BYTES)
            _insist(None if found.right else found)

        actions: dict[str, Callable[[], object]] = {
            "fill": lambda: engine.fill(source, key, _OFFSET, length, _START),
            "poison": lambda: engine.poison(source, other, _OFFSET, length, _START),
            "flush": lambda: flush_remote_writes(gpu),
            "kernel": kernel,
            "verdict": lambda: gpu.device_to_host(verdict, verdict_host),
            "verified": verified,
        }
        if (gpu.device.attributes.flush_options or 0) & _BY_HOST:
            actions["flush call"] = lambda: _flush_call(gpu)
        us = _medians_us(rounds, actions) | _medians_us(rounds, {"judged": judged})
    return Steps(
        length_bytes=length,
        fill_us=us["fill"],
        poison_us=us["poison"],
        flush_us=us["flush"],
        flush_call_us=us.get("flush call"),
        kernel_us=us["kernel"],
        verdict_us=us["verdict"],
        verified_us=us["verified"],
        judged_us=us["judged"],
    )


def _flush_call(gpu: Gpu) -> None:
    call(
        f"cuFlushGPUDirectRDMAWrites on {gpu.device.slot}",
        driver.cuFlushGPUDirectRDMAWrites,
        driver.CUflushGPUDirectRDMAWritesTarget.CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
        driver.CUflushGPUDirectRDMAWritesScope.CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER,
    )


def _insist(mismatch: object) -> None:
    if mismatch:
        raise ProbeError(f"wrong bytes: {mismatch}")


def _medians_us(rounds: int, actions: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Of each action, in ``rounds`` rounds in which they take turns, after some that warm up."""
    until = time.perf_counter() + _WARM_UP_S
    while True:
        for action in actions.values():
            action()
        if time.perf_counter() > until:
            break
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            begun = time.perf_counter_ns()
            action()
            times[name].append((time.perf_counter_ns() - begun) / 1000)
    return {name: median(each) for name, each in times.items()}


def _table(measured: Measured) -> str:
    """A row a size, as Markdown."""
    columns = ("fill", "poison", "flush", "flush_call", "kernel", "verdict", "verified", "judged")
    lines = [
        f"| size | {' | '.join(columns).replace('_', ' ')} |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for row in measured.steps:
        times = [getattr(row, f"{name}_us") for name in columns]
        cells = " | ".join("-" if one is None else f"{one:.1f}" for one in times)
        lines.append(f"| {size_text(row.length_bytes)} | {cells} |")
    return "\n".join(lines)


def main() -> int:
    """Prints a table for each GPU, in us."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    rows = []
    try:
        found = start()
        emulated = "EMULATED " if found.emulated else ""
        for device in enumerate_gpus():
            with open_gpu(device) as gpu:
                measured = measure(gpu, rounds=options.rounds)
            version = "{}.{}".format(*found.cuda)
            print(f"{emulated}{measured.gpu}, CUDA {version}, flush: {measured.flush}\n")
            print(f"{_table(measured)}\n", flush=True)
            rows.append({**asdict(measured), "emulated": found.emulated})
    except ProbeError as error:
        print(f"gpu_iteration: {error}", file=sys.stderr)
        return 1
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
