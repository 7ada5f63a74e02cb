"""Stands in for the rooms of GPUs and of memory: everything works as the facts of a tree say.

``Wrong`` is what is not as they say: each fault that no file of a tree can show.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from gdrcheck.facts import Facts, Gpu, NvidiaDriver, Nvml, RdmaDevice
from gdrcheck.gpu.devices import Attributes, Driver, GpuDevice, Survey
from gdrcheck.gpu.errors import CudaError
from gdrcheck.gpu_load import GpuNow, Load
from gdrcheck.mismatch import Mismatch, Verdict
from gdrcheck.peering import Means, PeerRate, PeerReach, PeerTransfer, PeerWay
from gdrcheck.profile import Profile
from gdrcheck.registration import (
    WAYS,
    Attempt,
    BufferKind,
    Growth,
    Method,
    Moved,
    Movement,
    Operation,
    Proof,
    RangeKind,
    Refusal,
    Region,
    Support,
)
from gdrcheck.rules.gpudirect import FIRST_KERNEL, RELEASE
from tests.captured.loads import now, whole_load

SIZES_BYTES = (64 << 10, 2 << 20, 1 << 30)
OPERATIONS: tuple[Operation, ...] = ("WRITE", "READ")
LKEY = 0x1000
# Providers of rdma-core 56 that register dma-bufs.
DMABUF_DRIVERS = ("mlx5_core", "bnxt_en", "irdma", "efa")


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """Faults, by the slot of the GPU, or by ``slot nic method``.

    ``flips``: what the verifiers say after a byte was flipped on purpose. ``refuses``: GPUs that
    CUDA lets not use another's memory, both slots. ``peers``: what comes of the data between two,
    or the error, by both slots.
    """

    start: CudaError | None = None
    hidden: tuple[str, ...] = ()
    opens: Mapping[str, CudaError] = field(default_factory=dict)
    makes: Mapping[tuple[str, BufferKind], CudaError] = field(default_factory=dict)
    proofs: Mapping[tuple[str, BufferKind], Mapping[str, Any]] = field(default_factory=dict)
    engines: Mapping[str, CudaError] = field(default_factory=dict)
    fills: Mapping[str, Verdict] = field(default_factory=dict)
    flips: Mapping[str, Verdict] = field(default_factory=dict)
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    attempts: Mapping[str, Callable[[Attempt], Attempt]] = field(default_factory=dict)
    movements: Mapping[str, Callable[[Movement], Movement]] = field(default_factory=dict)
    refuses: tuple[tuple[str, str], ...] = ()
    peers: Mapping[tuple[str, str], PeerTransfer | CudaError] = field(default_factory=dict)
    loads: Mapping[str, Callable[[Load], Load]] = field(default_factory=dict)


NOTHING_WRONG = Wrong()


def cuda_error(name: str, number: int, function: str) -> CudaError:
    """The error of a call of the driver."""
    return CudaError(function, function=function, name=name, number=number, explanation="so it is")


@dataclass(frozen=True, eq=False)
class OpenGpu:
    """An open GPU; ``flipped`` are the addresses to which the host has written."""

    device: GpuDevice
    flipped: list[int] = field(default_factory=list)

    def activate(self) -> None:
        return

    def device_to_host(self, _address: int, out: Any) -> None:
        out[:] = 0

    def host_to_device(self, address: int, _data: Any) -> None:
        self.flipped.append(address)


class Session:
    """CUDA as the facts of a tree tell of it."""

    def __init__(self, facts: Facts, wrong: Wrong) -> None:
        self._facts = facts
        self._wrong = wrong

    def driver(self) -> Driver:
        if self._wrong.start is not None:
            raise self._wrong.start
        return Driver(cuda=(12, 4), emulated=self._facts.emulated)

    def survey(self) -> Survey:
        self.driver()
        shown = [gpu for gpu in _gpus(self._facts) if gpu.slot not in self._wrong.hidden]
        return Survey(tuple(self._device(number, gpu) for number, gpu in enumerate(shown)), ())

    def open(self, device: GpuDevice) -> OpenGpu:
        if device.slot in self._wrong.opens:
            raise self._wrong.opens[device.slot]
        return OpenGpu(device)

    def close(self) -> dict[str, CudaError]:
        return {}

    def _device(self, ordinal: int, gpu: Gpu) -> GpuDevice:
        names = [one.uuid for one in gpu.mig_devices] if gpu.mig_devices else [gpu.uuid]
        attributes = Attributes(
            gdr=True,
            gdr_vmm=True,
            dmabuf=_exports(self._facts),
            flush_options=1,
            writes_ordering=100,
        )
        return GpuDevice(
            ordinal=ordinal,
            uuid=str(names[0]).partition("-")[2],
            slot=gpu.slot,
            name=str(gpu.model),
            total_bytes=80 << 30,
            capability=(9, 0),
            attributes=replace(attributes, **self._wrong.attributes.get(gpu.slot, {})),
        )


def _gpus(facts: Facts) -> tuple[Gpu, ...]:
    return facts.nvml.gpus if isinstance(facts.nvml, Nvml) else ()


def _exports(facts: Facts) -> bool:
    """Whether driver and kernel export GPU memory: the open module, Linux 5.12."""
    release = RELEASE.match(str(facts.host.kernel))
    new = release is not None and (int(release[1]), int(release[2])) >= FIRST_KERNEL
    return new and isinstance(facts.nvidia, NvidiaDriver) and facts.nvidia.open_module is True


def _peermem(facts: Facts) -> bool:
    """Whether the RDMA stack asks nvidia-peermem; where it shows no clients, loaded is enough."""
    if not isinstance(facts.nvidia, NvidiaDriver):
        return False
    peermem = facts.nvidia.peermem
    return peermem.loaded is True and (peermem.clients is None or peermem.registered is True)


@dataclass(frozen=True)
class FakeBuffer:
    """Memory of a GPU that is not there."""

    gpu: OpenGpu
    kind: BufferKind
    length_bytes: int
    address: int = 0x7F0000000000
    host_view: None = None


class Rooms:
    """The functions of the two rooms for one tree."""

    def __init__(self, facts: Facts, wrong: Wrong) -> None:
        self._facts = facts
        self._wrong = wrong

    def session(self) -> Session:
        return Session(self._facts, self._wrong)

    @contextmanager
    def allocate(
        self, gpu: OpenGpu, length_bytes: int, kind: BufferKind = "gpu"
    ) -> Iterator[FakeBuffer]:
        if (gpu.device.slot, kind) in self._wrong.makes:
            raise self._wrong.makes[gpu.device.slot, kind]
        yield FakeBuffer(gpu, kind, length_bytes)

    def prove(self, buffer: FakeBuffer) -> Proof:
        proof = Proof(
            kind=buffer.kind,
            memory_type="host" if buffer.kind == "pinned" else "device",
            managed=buffer.kind == "managed",
            ordinal=buffer.gpu.device.ordinal,
            expected_ordinal=buffer.gpu.device.ordinal,
            gdr_capable=buffer.kind in ("gpu", "gpu-vmm"),
            range_bytes=buffer.length_bytes,
            length_bytes=buffer.length_bytes,
        )
        return replace(proof, **self._wrong.proofs.get((buffer.gpu.device.slot, buffer.kind), {}))

    def engine_of(self, gpu: OpenGpu) -> Engine:
        if gpu.device.slot in self._wrong.engines:
            raise self._wrong.engines[gpu.device.slot]
        return Engine(gpu, self._wrong)

    def reach(self, one: OpenGpu, other: OpenGpu) -> PeerReach:
        return PeerReach(there=self._reaches(one, other), back=self._reaches(other, one))

    def _reaches(self, gpu: OpenGpu, peer: OpenGpu) -> bool:
        slots = gpu.device.slot, peer.device.slot
        nvml = self._facts.nvml
        said = nvml.peers if isinstance(nvml, Nvml) and isinstance(nvml.peers, tuple) else ()
        allowed = {(one.slot, one.peer) for one in said if one.read == "ok"}
        return slots in allowed and slots not in self._wrong.refuses

    def exchange(self, one: OpenGpu, other: OpenGpu, _run_tag: int) -> tuple[PeerWay, PeerWay]:
        slots = one.device.slot, other.device.slot
        return self._peer_way(*slots), self._peer_way(*reversed(slots))

    def _peer_way(self, source: str, sink: str) -> PeerWay:
        arrived = self._wrong.peers.get((source, sink), peer_transfer())
        if isinstance(arrived, CudaError):
            raise arrived
        return PeerWay(source, sink, (arrived,), PeerRate(256 << 20, 32, 390.0, None))

    def attempt(self, gpu: OpenGpu, device: Any, method: Method, **_: Any) -> Attempt:
        facts: RdmaDevice = device.facts
        place = f"{gpu.device.slot} {facts.name} {method}"
        made = whole_attempt(method, self._support(gpu, facts), self._works(method, facts))
        return self._wrong.attempts.get(place, _same)(made)

    def move(self, gpu: OpenGpu, device: Any, _path: Any, method: Method, **_: Any) -> Movement:
        place = f"{gpu.device.slot} {device.facts.name} {method}"
        return self._wrong.movements.get(place, _same)(movement(method))

    def under_load(self, gpu: OpenGpu, ask: Callable[[], GpuNow]) -> Load:
        return self._wrong.loads.get(gpu.device.slot, _same)(whole_load(ask()))

    @contextmanager
    def asking(self, slot: str) -> Iterator[Callable[[], GpuNow]]:
        yield lambda: now(self._facts, slot)

    def _support(self, gpu: OpenGpu, nic: RdmaDevice) -> Support:
        return Support(
            dmabuf_errno=9 if nic.driver in DMABUF_DRIVERS else 95,
            dmabuf_attribute=gpu.device.attributes.dmabuf,
            gdr_attribute=gpu.device.attributes.gdr,
        )

    def _works(self, method: Method, nic: RdmaDevice) -> Refusal | None:
        if method == "peermem":
            if _peermem(self._facts):
                return None
            return Refusal("register", "ibv_reg_mr: EFAULT", 14, range="whole")
        if not _exports(self._facts):
            name = "CUDA_ERROR_NOT_SUPPORTED"
            return Refusal("export", f"export: {name}", cuda=name, range="whole")
        if nic.driver not in DMABUF_DRIVERS:
            return Refusal("register", "ibv_reg_dmabuf_mr: EOPNOTSUPP", 95, range="whole")
        return None


def _same(made: Any) -> Any:
    return made


@dataclass(frozen=True)
class Engine:
    """Kernels and CPU agree, and find what was flipped."""

    gpu: OpenGpu
    wrong: Wrong

    def fill(self, *_: Any) -> None:
        self.gpu.flipped.clear()

    fill_even = fill

    def verify(self, buffer: FakeBuffer, _key: Any, offset: int, _length: int) -> Verdict:
        slot = self.gpu.device.slot
        if not self.gpu.flipped:
            return self.wrong.fills.get(slot, RIGHT)
        found = one_byte(self.gpu.flipped[0] - buffer.address - offset)
        return self.wrong.flips.get(slot, Verdict(found, found))

    def verify_even(self, _buffer: FakeBuffer, _offset: int, _length: int) -> Verdict:
        return RIGHT


RIGHT = Verdict(None, None)


def peer_transfer(means: Means = "copy", verdict: Verdict = RIGHT) -> PeerTransfer:
    """A transfer from one GPU's memory to another's."""
    return PeerTransfer(means, 4093, 4097, verdict)


def one_byte(offset: int) -> Mismatch:
    """What a verifier says of one wrong byte."""
    return Mismatch(
        first_bad_offset=offset,
        bad_bytes=1,
        excerpt_offset=offset,
        expected_hex="00",
        got_hex="01",
        looks_like="other",
    )


def region(kind: RangeKind, length_bytes: int, method: Method, number: int) -> Region:
    """A region as it should come back."""
    address = 0 if method == "dmabuf" else 0x7F0000000000
    return Region(
        range=kind,
        requested_address=address,
        requested_bytes=length_bytes,
        address=address,
        length_bytes=length_bytes,
        lkey=LKEY + number,
        rkey=LKEY + number,
        flag="plain" if method == "dmabuf" else None,
        export_us=15.0 if method == "dmabuf" else None,
        register_us=200.0,
        deregister_us=100.0,
    )


def whole_attempt(method: Method, support: Support, refusal: Refusal | None = None) -> Attempt:
    """An attempt that worked, or that ended at the first registration."""
    proof = Proof("gpu", "device", False, 0, 0, True, SIZES_BYTES[-1], SIZES_BYTES[-1])
    kinds: tuple[tuple[RangeKind, int], ...] = (
        *(("whole", size) for size in SIZES_BYTES),
        ("interior", 70_001),
        ("first neighbour", 4097),
        ("second neighbour", 4099),
    )
    regions = tuple(region(kind, size, method, number) for number, (kind, size) in enumerate(kinds))
    growth = Growth(64, 9, 9, 1 << 27, 1 << 27, 70 << 30, 70 << 30, 200.0, 201.0)
    return Attempt(
        method=method,
        support=support,
        sizes_bytes=SIZES_BYTES if refusal is None else SIZES_BYTES[:1],
        limited_by="",
        proof=proof,
        regions=regions if refusal is None else (),
        growth=growth if refusal is None else None,
        refusal=refusal,
    )


def movement(method: Method) -> Movement:
    """Everything moved, and every byte right."""
    return Movement(
        method=method,
        moved=tuple(
            Moved(way, operation, 65_537, way != "gpu to host", None, None, None, "flushed")
            for way in WAYS
            for operation in OPERATIONS
        ),
        refusal=None,
    )


def _loopback_path(device: Any, port: int, profile: Profile, _completion_s: float) -> object:
    return device.choose_gid(device.port(port), profile.gid)


@contextmanager
def in_place_of_gpus(facts: Facts, wrong: Wrong) -> Iterator[None]:
    """Meanwhile, checks that ask for these rooms get the ones of the tree."""
    rooms = Rooms(facts, wrong)
    modules: dict[str, dict[str, object]] = {
        "gdrcheck.gpu.session": {"Session": rooms.session},
        "gdrcheck.gpu.buffers": {"allocate": rooms.allocate, "prove": rooms.prove},
        "gdrcheck.gpu.engine": {"engine_of": rooms.engine_of},
        "gdrcheck.gpu.peers": {"reach": rooms.reach, "exchange": rooms.exchange},
        "gdrcheck.gpu.copying": {"under_load": rooms.under_load},
        "gdrcheck.probes.nvml_now": {"asking": rooms.asking},
        "gdrcheck.memory.attempt": {"attempt": rooms.attempt},
        "gdrcheck.memory.move": {"move": rooms.move},
        "gdrcheck.memory.path": {"loopback_path": _loopback_path},
    }
    before = {name: sys.modules.get(name) for name in modules}
    for name, values in modules.items():
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__dict__.update(values)
    try:
        yield
    finally:
        for name, loaded in before.items():
            del sys.modules[name]
            if loaded is not None:
                sys.modules[name] = loaded
