"""Data that is copied to a GPU, for as long as someone looks at it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gdrcheck import steps
from gdrcheck.gpu.buffers import Buffer, allocate
from gdrcheck.gpu.compat import driver, quiet, undone
from gdrcheck.gpu.context import Gpu
from gdrcheck.gpu.errors import CudaError
from gdrcheck.gpu_load import GpuNow, Load
from gdrcheck.outcome import ProbeError
from gdrcheck.sizes import size_text

BLOCK_BYTES = 32 << 20
# Given to the driver at a time, so that the link does not fall idle between two of them.
BLOCKS_AT_ONCE = 4
# A link raises its generation within milliseconds of the first packets; clocks take longer.
SETTLE_S = 0.3
# A link that has not come up by then will not.
LINK_S = 1.0
BETWEEN_READINGS_S = 0.1
READINGS_LEAST = 2
LONGEST_S = 10.0
# What was given to the driver is over long before, also on the slowest link that there is.
JOIN_S = 20.0


class Copying:
    """Copies that run in a thread of their own, made by ``copying``."""

    def __init__(self, source: Buffer, sink: Buffer) -> None:
        self._gpu = sink.gpu
        self._source = source
        self._sink = sink
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="copies", daemon=True)
        self._error: CudaError | None = None
        self._started = 0.0
        self._ended = 0.0
        self.copied_bytes = 0

    @property
    def running(self) -> bool:
        """Whether copies go on: nobody stopped them, and none failed."""
        return self._thread.is_alive()

    @property
    def took_s(self) -> float:
        """Seconds from the first copy's start to the last one's end; so far, while they run."""
        return (self._ended or time.monotonic()) - self._started

    def start(self) -> None:
        """Begin."""
        self._started = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """End after what was given to the driver; CudaError if a copy failed.

        ProbeError when the copies do not end: a driver call hangs.
        """
        self._stop.set()
        self._thread.join(JOIN_S)
        if self._thread.is_alive():
            what = f"copies to {self._gpu.device.slot}"
            raise ProbeError(f"{what}: not ended within {JOIN_S:g} s", step=what)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._copy()
        except CudaError as error:
            self._error = error
        finally:
            self._ended = time.monotonic()

    def _copy(self) -> None:
        slot, length = self._gpu.device.slot, self._sink.length_bytes
        self._gpu.activate()
        (stream,) = quiet(f"cuStreamCreate on {slot}", driver.cuStreamCreate, 0)
        with undone(f"cuStreamDestroy on {slot}", driver.cuStreamDestroy, stream):
            while not self._stop.is_set():
                for _ in range(BLOCKS_AT_ONCE):
                    quiet(
                        f"cuMemcpyHtoDAsync of {size_text(length)} to {slot}",
                        driver.cuMemcpyHtoDAsync,
                        self._sink.address,
                        self._source.address,
                        length,
                        stream,
                    )
                quiet(f"cuStreamSynchronize on {slot}", driver.cuStreamSynchronize, stream)
                self.copied_bytes += BLOCKS_AT_ONCE * length


@contextmanager
def copying(gpu: Gpu) -> Iterator[Copying]:
    """Copies from pinned memory to the GPU's, over and over, until the block ends.

    CudaError when memory or a copy is refused. No call of CUDA may be made in the block.
    """
    with (
        allocate(gpu, BLOCK_BYTES, "pinned") as source,
        allocate(gpu, BLOCK_BYTES) as sink,
    ):
        copies = Copying(source, sink)
        copies.start()
        try:
            yield copies
        finally:
            copies.stop()


def under_load(gpu: Gpu, ask: Callable[[], GpuNow]) -> Load:
    """What ``ask`` says of the GPU before and during a copy to it, which takes about a second.

    It is asked when data has arrived since the last time: while a busy host keeps the copy from
    going on, the GPU is idle. CudaError when the copy fails; ProbeError when it is too slow to tell
    anything. What ``ask`` raises comes as it is.
    """
    idle, slot = ask(), gpu.device.slot
    seen: list[GpuNow] = []
    arrived_bytes = 0
    with steps.only(f"copies to {slot}, and NVML about it"), copying(gpu) as copies:
        while copies.running and copies.took_s < LONGEST_S:
            time.sleep(BETWEEN_READINGS_S)
            if copies.copied_bytes == arrived_bytes:
                continue
            arrived_bytes = copies.copied_bytes
            seen.append(ask())
            enough_s = SETTLE_S if _is_up(seen[-1]) else LINK_S
            if len(seen) >= READINGS_LEAST and copies.took_s >= enough_s:
                break
    if len(seen) < READINGS_LEAST:
        what = f"copies to {slot}"
        raise ProbeError(
            f"{what}: {copies.copied_bytes} bytes in {copies.took_s:.1f} s: too slow to see the "
            "GPU under load",
            step=what,
        )
    return Load(idle, tuple(seen), copies.copied_bytes, copies.took_s)


def _is_up(now: GpuNow) -> bool:
    """Whether the link is all that it can be, as far as that is told."""
    link = now.pcie
    return (link.generation, link.width) == (link.max_generation, link.max_width)
