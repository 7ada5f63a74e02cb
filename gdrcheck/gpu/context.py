"""A GPU's primary context, and copies between its memory and the host's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from gdrcheck.gpu.compat import call, driver, quiet, undone
from gdrcheck.gpu.devices import GpuDevice
from gdrcheck.pattern import Bytes
from gdrcheck.sizes import size_text


class Gpu:
    """A GPU with its primary context retained, made and closed by ``open_gpu``.

    ``stack`` holds what lives as long as the context: closed before it, last in first out.
    ``context`` is for calls that name one, and of no use after the block.
    Everything of a GPU raises CudaError when the driver refuses.
    """

    def __init__(self, device: GpuDevice, context: Any, stack: ExitStack) -> None:
        self.device = device
        self.stack = stack
        self.context = context

    def activate(self) -> None:
        """Make this GPU's context the current one of the thread: calls of CUDA go to it."""
        quiet(f"cuCtxSetCurrent on {self.device.slot}", driver.cuCtxSetCurrent, self.context)

    @contextmanager
    def current(self) -> Iterator[None]:
        """``activate`` before the block, and once more after it: for what is undone then, whichever
        GPU was used meanwhile.
        """
        self.activate()
        what = f"cuCtxSetCurrent on {self.device.slot}"
        with undone(what, driver.cuCtxSetCurrent, self.context):
            yield

    def synchronize(self) -> None:
        """Wait until everything that was given to this GPU is done."""
        self.activate()
        call(f"cuCtxSynchronize on {self.device.slot}", driver.cuCtxSynchronize)

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes of the GPU's memory, for all of its users together."""
        self.activate()
        free, total = call(f"cuMemGetInfo on {self.device.slot}", driver.cuMemGetInfo)
        return int(free), int(total)

    def host_to_device(self, address: int, data: Bytes) -> None:
        """Copy ``data`` to the device pointer ``address``; all of it is there on return."""
        _contiguous(data)
        self.activate()
        what = f"cuMemcpyHtoD of {size_text(data.nbytes)} to {self.device.slot}"
        call(what, driver.cuMemcpyHtoD, address, int(data.ctypes.data), data.nbytes)
        # From memory that is not pinned the call returns before the last bytes have arrived.
        self.synchronize()

    def device_to_host(self, address: int, out: Bytes) -> None:
        """Copy ``out.nbytes`` bytes from the device pointer ``address`` into ``out``."""
        _contiguous(out)
        if not out.flags.writeable:
            raise ValueError("the array to copy to is read-only")
        self.activate()
        what = f"cuMemcpyDtoH of {size_text(out.nbytes)} from {self.device.slot}"
        call(what, driver.cuMemcpyDtoH, int(out.ctypes.data), address, out.nbytes)


@contextmanager
def open_gpu(device: GpuDevice) -> Iterator[Gpu]:
    """The GPU with its primary context, current in this thread, released at the end of the block.

    CudaError if the GPU cannot be opened.
    """
    slot = device.slot
    (handle,) = call(f"cuDeviceGet on {slot}", driver.cuDeviceGet, device.ordinal)
    (context,) = call(
        f"cuDevicePrimaryCtxRetain on {slot}", driver.cuDevicePrimaryCtxRetain, handle
    )
    with (
        undone(f"cuDevicePrimaryCtxRelease on {slot}", driver.cuDevicePrimaryCtxRelease, handle),
        ExitStack() as stack,
    ):
        gpu = Gpu(device, context, stack)
        with gpu.current():
            yield gpu


def _contiguous(data: Bytes) -> None:
    if not data.flags.c_contiguous:
        raise ValueError("the array is not contiguous")
