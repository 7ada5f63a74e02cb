"""How fast each GPU verifies its memory, against how fast it copies it, in one process.

python -m benchmarks.gpu_verify [--json FILE]    needs an NVIDIA GPU and driver, no NIC

A rate of a copy counts bytes read and bytes written, that of a verification bytes read. Both times
are what a caller waits for, the answer of the GPU included. Exit status 1 if the bar is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from gdrcheck.gpu.buffers import Buffer, allocate
from gdrcheck.gpu.compat import call, driver
from gdrcheck.gpu.context import Gpu, open_gpu
from gdrcheck.gpu.devices import enumerate_gpus, start
from gdrcheck.gpu.engine import Engine, engine_of
from gdrcheck.outcome import ProbeError
from gdrcheck.pattern import Key
from gdrcheck.sizes import size_text

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LENGTH_BYTES = 8 * GIB
ROUNDS = 25
BAR = 0.95
# A GPU that was idle takes its time to reach its clocks, and what computes suffers most until then.
WARM_UP_S = 1.0
ROUND_TRIPS_BYTES = (64, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB)
_TRIPS = 25
# The words of the stream lie across those of the memory.
_ODD_START = 5
_KEY = Key(run_tag=1, iteration=2, direction=3, source=4)


@dataclass(frozen=True, slots=True)
class Rates:
    """Medians over the rounds, in which copy, verification and fill take turns.

    ``odd_verify_gb_per_s`` is of a stream that starts at an odd byte. ``round_trips_us`` is the
    time of one verification by size.
    """

    gpu: str
    length_bytes: int
    rounds: int
    copy_gb_per_s: float
    verify_gb_per_s: float
    fill_gb_per_s: float
    odd_verify_gb_per_s: float
    round_trips_us: dict[int, float]

    @property
    def ratio(self) -> float:
        """Bytes verified over bytes that a copy moves, in the same time."""
        return self.verify_gb_per_s / self.copy_gb_per_s

    def text(self) -> str:
        """All of it in one line."""
        trips = ", ".join(f"{size_text(n)} {us:.0f} us" for n, us in self.round_trips_us.items())
        return (
            f"{self.gpu}: {size_text(self.length_bytes)}, median of {self.rounds}: "
            f"copy {self.copy_gb_per_s:.0f} GB/s, verify {self.verify_gb_per_s:.0f} GB/s "
            f"(ratio {self.ratio:.3f}, bar {BAR}; from an odd byte "
            f"{self.odd_verify_gb_per_s:.0f} GB/s), fill {self.fill_gb_per_s:.0f} GB/s; "
            f"verification round trip: {trips}"
        )


def measure(gpu: Gpu, length_bytes: int = LENGTH_BYTES, rounds: int = ROUNDS) -> Rates:
    """What this GPU does with two buffers of ``length_bytes``.

    CudaError if there is no room for them, ProbeError if a verification finds a wrong byte.
    """
    engine = engine_of(gpu)
    with allocate(gpu, length_bytes) as first, allocate(gpu, length_bytes) as second:
        engine.fill(first, _KEY, 0, length_bytes)
        times = _times(
            rounds,
            {
                "copy": lambda: _copy(first, second, length_bytes),
                "verify": lambda: _verify(engine, second, length_bytes),
                "fill": lambda: engine.fill(second, _KEY, 0, length_bytes),
            },
        )
        trips = {
            size: 1e6 * median(_trips(engine, first, size))
            for size in ROUND_TRIPS_BYTES
            if size <= length_bytes
        }
        engine.fill(first, _KEY, 0, length_bytes, _ODD_START)
        odd = {"odd": lambda: _verify(engine, first, length_bytes, _ODD_START)}
        times |= _times(rounds, odd)
    rate = {name: length_bytes / median(seconds) / 1e9 for name, seconds in times.items()}
    return Rates(
        gpu=gpu.device.name,
        length_bytes=length_bytes,
        rounds=rounds,
        copy_gb_per_s=2 * rate["copy"],
        verify_gb_per_s=rate["verify"],
        fill_gb_per_s=rate["fill"],
        odd_verify_gb_per_s=rate["odd"],
        round_trips_us=trips,
    )


def _times(rounds: int, actions: dict[str, Callable[[], None]]) -> dict[str, list[float]]:
    """Seconds by action, of ``rounds`` rounds after a second of them that warms up."""
    begin = time.perf_counter()
    while time.perf_counter() < begin + WARM_UP_S:
        for action in actions.values():
            action()
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            times[name].append(_seconds(action))
    return times


def _trips(engine: Engine, buffer: Buffer, length_bytes: int) -> list[float]:
    return [_seconds(lambda: _verify(engine, buffer, length_bytes)) for _ in range(_TRIPS)]


def _seconds(action: Callable[[], None]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def _copy(source: Buffer, sink: Buffer, length_bytes: int) -> None:
    what = f"cuMemcpyDtoD of {size_text(length_bytes)} on {source.gpu.device.slot}"
    call(what, driver.cuMemcpyDtoD, sink.address, source.address, length_bytes)
    source.gpu.synchronize()


def _verify(engine: Engine, buffer: Buffer, length_bytes: int, start_byte: int = 0) -> None:
    found = engine.gpu_verify_only(buffer, _KEY, 0, length_bytes, start_byte)
    if found:
        raise ProbeError(f"wrong bytes in {buffer.name}: {found}")


def main() -> int:
    """Prints a line and writes a row for each GPU."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--length-mib", type=int, default=LENGTH_BYTES // MIB)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    rows = []
    try:
        emulated = "EMULATED " if start().emulated else ""
        for device in enumerate_gpus():
            with open_gpu(device) as gpu:
                rates = measure(gpu, options.length_mib * MIB, options.rounds)
            print(f"{emulated}{rates.text()}", flush=True)
            rows.append({**asdict(rates), "ratio": rates.ratio, "emulated": bool(emulated)})
    except ProbeError as error:
        print(f"gpu_verify: {error}", file=sys.stderr)
        return 1
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if rows and min(row["ratio"] for row in rows) >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
