"""CUDA of one process: started by the first who asks, one context for each GPU, kept to the end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

from gdrcheck.gpu.context import Gpu, open_gpu
from gdrcheck.gpu.devices import Driver, GpuDevice, Survey, start, survey
from gdrcheck.gpu.errors import CudaError

T = TypeVar("T")


class Session:
    """Starts CUDA and opens GPUs at first use. Whoever made it must ``close`` it.

    What was refused once is not asked for again: the same CudaError is raised each time.
    """

    def __init__(self) -> None:
        self._refused: dict[str, CudaError] = {}
        self._driver: Driver | None = None
        self._survey: Survey | None = None
        # By UUID: MIG slices share the slot.
        self._open: dict[str, tuple[Gpu, ExitStack]] = {}

    def driver(self) -> Driver:
        """The driver, CUDA having been started. CudaError if it does not start."""
        if self._driver is None:
            self._driver = self._once("start", start)
        return self._driver

    def survey(self) -> Survey:
        """The devices that CUDA shows. CudaError if CUDA does not start or count them."""
        self.driver()
        if self._survey is None:
            self._survey = self._once("survey", survey)
        return self._survey

    def open(self, device: GpuDevice) -> Gpu:
        """The GPU, open. CudaError if it cannot be opened.

        What was done with another one since may have made that one's context the current one: each
        call of this package makes its own current again.
        """
        if device.uuid not in self._open:
            self._open[device.uuid] = self._once(device.uuid, lambda: _opened(device))
        gpu, _ = self._open[device.uuid]
        return gpu

    def close(self) -> dict[str, CudaError]:
        """Give every context back, the last one first; the errors of those that did not let go, by
        the slot of the GPU.
        """
        errors: dict[str, CudaError] = {}
        while self._open:
            _, (gpu, stack) = self._open.popitem()
            try:
                stack.close()
            except CudaError as error:
                errors[gpu.device.slot] = error
        return errors

    def _once(self, what: str, call: Callable[[], T]) -> T:
        if what in self._refused:
            raise self._refused[what].with_traceback(None)
        try:
            return call()
        except CudaError as error:
            self._refused[what] = error
            raise


def _opened(device: GpuDevice) -> tuple[Gpu, ExitStack]:
    stack = ExitStack()
    return stack.enter_context(open_gpu(device)), stack
