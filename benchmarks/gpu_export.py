"""How long exporting GPU memory as dma-buf takes, by size, on each GPU of this machine.

python -m benchmarks.gpu_export                  needs an NVIDIA GPU and driver, no NIC
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from gdrcheck.gpu.buffers import allocate
from gdrcheck.gpu.context import Gpu, open_gpu
from gdrcheck.gpu.devices import enumerate_gpus, start
from gdrcheck.gpu.errors import CudaError
from gdrcheck.gpu.export import export
from gdrcheck.sizes import size_text

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SIZES_BYTES = (64 * KIB, 2 * MIB, GIB, 8 * GIB, 100 * GIB)
ROUNDS = 25
# Left alone: the driver needs some memory for itself, and fragments are lost.
SPARE_BYTES = 256 * MIB


@dataclass(frozen=True, slots=True)
class Exported:
    """Times of exporting one buffer again and again, each descriptor closed before the next.

    ``flag`` is the mapping type that was exported; ``refused`` says what was tried before it.
    """

    length_bytes: int
    times_us: tuple[float, ...]
    flag: str
    refused: tuple[str, ...]

    @property
    def median_us(self) -> float:
        """The middle one of the times."""
        return median(self.times_us)


@dataclass(frozen=True, slots=True)
class NotTried:
    """A size for which this GPU has no room now."""

    length_bytes: int
    why: str


def measure(
    gpu: Gpu, sizes_bytes: Sequence[int] = SIZES_BYTES, rounds: int = ROUNDS
) -> list[Exported | NotTried]:
    """One answer a size, in their order. CudaError when memory that is free is refused."""
    return [_one(gpu, size, rounds) for size in sizes_bytes]


def _one(gpu: Gpu, length_bytes: int, rounds: int) -> Exported | NotTried:
    free_bytes, _ = gpu.memory_info()
    if length_bytes + SPARE_BYTES > free_bytes:
        return NotTried(length_bytes, f"not tried: {free_bytes / GIB:.1f} GiB free")
    times_us = []
    with allocate(gpu, length_bytes) as buffer:
        for _ in range(rounds):
            with export(buffer, 0, length_bytes) as exported:
                times_us.append(exported.export_us)
    return Exported(length_bytes, tuple(times_us), exported.flag, exported.refused)


def _row(answer: Exported | NotTried) -> str:
    size = size_text(answer.length_bytes)
    if isinstance(answer, NotTried):
        return f"| {size} | {answer.why} | - | - |"
    return f"| {size} | {answer.median_us:.1f} | {max(answer.times_us):.1f} | {answer.flag} |"


def _show(answers: Sequence[Exported | NotTried]) -> None:
    """The table, and below it, once, why the mapping for PCIe was not made."""
    print("| size | median us | longest us | mapping |\n|---|---|---|---|")
    for answer in answers:
        print(_row(answer))
    refused = [one for answer in answers if isinstance(answer, Exported) for one in answer.refused]
    if refused:
        print(f"\nrefused before the plain mapping: {refused[0]}")


def main() -> int:
    """Prints a table for each GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    try:
        driver = start()
        for device in enumerate_gpus():
            with open_gpu(device) as gpu:
                emulated = "EMULATED " if driver.emulated else ""
                version = "{}.{}".format(*driver.cuda)
                print(f"\n{emulated}{device.name} at {device.slot}, CUDA {version}:\n")
                _show(measure(gpu, rounds=options.rounds))
    except CudaError as error:
        print(f"gpu_export: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
