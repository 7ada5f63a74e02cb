"""The GPUs that CUDA shows to this process, told apart by UUID and PCI address, never by index."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gdrcheck import steps
from gdrcheck.gpu.compat import call, driver
from gdrcheck.gpu.errors import INVALID_VALUE, CudaError, DriverTooOld
from gdrcheck.gpu.library import driver_version, emulated
from gdrcheck.registration import BufferKind

__all__ = [
    "MINIMUM_DRIVER_CUDA",
    "Attributes",
    "Driver",
    "GpuDevice",
    "Survey",
    "emulated",
    "enumerate_gpus",
    "find",
    "start",
    "survey",
]

# The oldest line whose drivers have cuGetProcAddress_v2, which the binding needs, and load the PTX
# of the kernels: the drivers from 525 on.
MINIMUM_DRIVER_CUDA = (12, 0)

_PCI_ADDRESS = re.compile(
    r"([0-9a-f]{1,8}):([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?", re.IGNORECASE
)
_NAME_BYTES, _PCI_BYTES = 256, 32


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a GPU says of GPUDirect RDMA; None: its driver does not know the attribute.

    Source: CUdevice_attribute 116, 110, 124, 117 and 118 of cuda.h, and 83: whether managed memory
    can be had, which vGPUs may lack. ``flush_options`` are the bits
    of CUflushGPUDirectRDMAWritesOptions (1: by the host), ``writes_ordering`` is a
    CUGPUDirectRDMAWritesOrdering (0 none, 100 owner, 200 all devices).
    """

    gdr: bool | None
    gdr_vmm: bool | None
    dmabuf: bool | None
    flush_options: int | None
    writes_ordering: int | None
    managed: bool | None = None

    @property
    def lacking(self) -> dict[BufferKind, str]:
        """The kinds of memory that this GPU does not offer, and by which attribute it says so."""
        said: dict[BufferKind, tuple[int, bool | None]] = {
            "gpu-vmm": (110, self.gdr_vmm),
            "managed": (83, self.managed),
        }
        return {
            kind: f"not offered by this GPU (attribute {number} is 0)"
            for kind, (number, offered) in said.items()
            if offered is False
        }


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """One CUDA device: a GPU, or a MIG slice, which has the ``slot`` of its GPU but its own UUID.

    ``ordinal`` is CUDA's number in this process and no identity. ``uuid`` has no prefix; ``slot``
    is written as in sysfs.
    """

    ordinal: int
    uuid: str
    slot: str
    name: str
    total_bytes: int
    capability: tuple[int, int]
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver that was started: its CUDA version, and whether it is the lab's stand-in."""

    cuda: tuple[int, int]
    emulated: bool


@dataclass(frozen=True, slots=True)
class Survey:
    """The devices that CUDA counts: those that answered, and the error of each that did not."""

    gpus: tuple[GpuDevice, ...]
    lost: tuple[CudaError, ...]


def start() -> Driver:
    """Start CUDA in this process. DriverTooOld below ``MINIMUM_DRIVER_CUDA``, else CudaError."""
    with steps.step("cuDriverGetVersion"):
        version = driver_version()
    if version < MINIMUM_DRIVER_CUDA:
        raise DriverTooOld(version, MINIMUM_DRIVER_CUDA)
    call("cuInit", driver.cuInit, 0)
    return Driver(cuda=version, emulated=emulated())


def survey() -> Survey:
    """Ask every device that CUDA counts. ``start`` must have been called.

    CudaError when the devices cannot be counted; a device that does not answer is in ``lost``.
    """
    (count,) = call("cuDeviceGetCount", driver.cuDeviceGetCount)
    gpus: list[GpuDevice] = []
    lost: list[CudaError] = []
    for ordinal in range(count):
        try:
            gpus.append(_device(ordinal))
        except CudaError as problem:
            lost.append(problem)
    return Survey(tuple(gpus), tuple(lost))


def enumerate_gpus() -> tuple[GpuDevice, ...]:
    """The devices of ``survey`` that answered, in CUDA's order."""
    return survey().gpus


def find(gpus: Sequence[GpuDevice], *, slot: str, uuids: Sequence[str]) -> GpuDevice | None:
    """The CUDA device of a GPU that NVML calls by ``uuids``, or None.

    ``uuids`` are written as NVML does (``GPU-…``, ``MIG-…``), the first that CUDA shows counts.
    Only when none is known does ``slot`` decide, and only when one device alone has it: the slices
    of a GPU share its slot.
    """
    for wanted in uuids:
        for gpu in gpus:
            if gpu.uuid == _plain_uuid(wanted):
                return gpu
    there = [gpu for gpu in gpus if gpu.slot == slot]
    return there[0] if not uuids and len(there) == 1 else None


def _device(ordinal: int) -> GpuDevice:
    which = f"device {ordinal}"
    (handle,) = call(f"cuDeviceGet of {which}", driver.cuDeviceGet, ordinal)
    (address,) = call(
        f"cuDeviceGetPCIBusId of {which}", driver.cuDeviceGetPCIBusId, _PCI_BYTES, handle
    )
    slot = _slot(_text(address))
    # Before line 13 the plain name gives a MIG slice the UUID of its GPU.
    get_uuid = getattr(driver, "cuDeviceGetUuid_v2", driver.cuDeviceGetUuid)
    (identity,) = call(f"cuDeviceGetUuid on {slot}", get_uuid, handle)
    (name,) = call(f"cuDeviceGetName on {slot}", driver.cuDeviceGetName, _NAME_BYTES, handle)
    (total,) = call(f"cuDeviceTotalMem on {slot}", driver.cuDeviceTotalMem, handle)
    number = driver.CUdevice_attribute
    return GpuDevice(
        ordinal=ordinal,
        uuid=str(uuid.UUID(bytes=bytes(identity.bytes))),
        slot=slot,
        name=_text(name),
        total_bytes=int(total),
        capability=(
            _value(handle, slot, number.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            _value(handle, slot, number.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        ),
        attributes=_attributes(handle, slot),
    )


def _attributes(handle: Any, slot: str) -> Attributes:
    prefix = "CU_DEVICE_ATTRIBUTE_"

    def known(name: str) -> int | None:
        try:
            return _value(handle, slot, getattr(driver.CUdevice_attribute, prefix + name))
        except CudaError as problem:
            if problem.name != INVALID_VALUE:
                raise
            return None

    def flag(name: str) -> bool | None:
        value = known(name)
        return None if value is None else value != 0

    return Attributes(
        gdr=flag("GPU_DIRECT_RDMA_SUPPORTED"),
        gdr_vmm=flag("GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED"),
        dmabuf=flag("DMA_BUF_SUPPORTED"),
        flush_options=known("GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS"),
        writes_ordering=known("GPU_DIRECT_RDMA_WRITES_ORDERING"),
        managed=flag("MANAGED_MEMORY"),
    )


def _value(handle: Any, slot: str, attribute: Any) -> int:
    what = f"cuDeviceGetAttribute {int(attribute)} on {slot}"
    (value,) = call(what, driver.cuDeviceGetAttribute, attribute, handle)
    return int(value)


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace").strip()


def _slot(address: str) -> str:
    parts = _PCI_ADDRESS.fullmatch(address)
    if parts is None:
        raise CudaError(
            "cuDeviceGetPCIBusId",
            function="cuDeviceGetPCIBusId",
            name="no PCI address",
            number=-1,
            explanation=f"the driver answered {address[:40]!r}",
        )
    domain, bus, device, function = parts.groups(default="0")
    return f"{int(domain, 16):04x}:{int(bus, 16):02x}:{int(device, 16):02x}.{function}"


def _plain_uuid(text: str) -> str:
    return text.removeprefix("GPU-").removeprefix("MIG-").lower()
