"""A node with two emulated GPUs and a simulated NIC, on which the real checks of GPUs run.

cuda-python, the layer above it, the engine and the memory room are the real ones; the driver is the
lab's emulated one, and pyverbs is a fake. The facts are those of a node on which both methods work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from gdrcheck.facts import Facts, PciTree
from gdrcheck.profile import Profile
from lab.emulated_gpu.config import Config, Faults, h200s
from tests import facts as builders
from tests.captured.running import Ran, judge
from tests.gpu_layer.emulation import release_contexts
from tests.verbs import fake_pyverbs

NIC = "sim0"
MIB = 1 << 20
# Enough for every kind of range; memory that is touched costs time.
CONFIG = Config(gpus=h200s(2, memory_mib=160, bar1_mib=160))
FILES = ("check_cuda.py", "check_registration.py")


def profile(**changes: object) -> Profile:
    """Both GPUs, each with the one NIC: what the profile demands, it demands of both pairs."""
    return builders.profile(
        **{
            "gpus": {"count": 2, "model": "NVIDIA H200"},
            "rails": {"count": 1, "nics": [{"name": NIC, "gpu": 0}]},
            "matrix": "full",
            "registration": "both",
            **changes,
        }
    )


def facts(config: Config = CONFIG, **changes: object) -> Facts:
    """What the probes would have read."""
    functions = builders.pci_tree().functions
    others = tuple(one for one in functions if one.slot != builders.GPU_SLOT)
    gpus = tuple(builders.gpu_function(gpu.slot) for gpu in config.gpus)
    answers = tuple(
        builders.gpu(
            gpu.slot,
            uuid=gpu.uuid,
            memory_total_bytes=gpu.memory_mib * MIB,
            bar1_total_bytes=gpu.bar1_mib * MIB,
        )
        for gpu in config.gpus
    )
    values: dict[str, object] = {
        "pci": PciTree(functions=(*others, *gpus), misplaced={}),
        "nvml": builders.nvml(gpus=answers),
        "nvidia": builders.nvidia_driver(peermem=peermem()),
        "rdma_devices": (builders.rdma_device(NIC),),
        "emulated": True,
    }
    return builders.facts(**(values | changes))


def peermem(**changes: object) -> Any:
    """nvidia-peermem, loaded and known to the RDMA stack."""
    values = {"loaded": True, "module": "nvidia_peermem", "clients": ("nv_mem",)}
    return builders.peermem(**(values | changes))


def wrong(gpu: int, config: Config = CONFIG, **fields: Any) -> Config:
    """``config`` with faults of one GPU."""
    return replace(config, gpu_faults={gpu: Faults(**fields)})


class World:
    """Runs the checks in this process. ``conf`` is the file that the emulated driver reads."""

    def __init__(self, conf: Path, out: Path) -> None:
        self._conf = conf
        self._out = out

    @contextmanager
    def driven_by(self, config: Config) -> Iterator[None]:
        """The emulated driver reads ``config`` meanwhile."""
        config.write(self._conf)
        try:
            yield
        finally:
            CONFIG.write(self._conf)

    def run(
        self,
        config: Config = CONFIG,
        *,
        promises: Profile | None = None,
        known: Facts | None = None,
        nic: Callable[[fake_pyverbs.Nic], None] = lambda _: None,
        files: Sequence[str] = FILES,
    ) -> Ran:
        """What the checks in ``files`` find: ``config`` for the driver, ``nic`` done to the NIC."""
        found = known or facts()
        try:
            with self.driven_by(config), fake_pyverbs.installed():
                fake_pyverbs.load("gdrcheck.memory.path").loopback_path = loopback_path
                nic(fake_pyverbs.nic)
                return Ran(found, judge(found, promises or profile(), self._out, files))
        finally:
            release_contexts()


def loopback_path(_device: Any, port: int, _profile: Profile, completion_s: float) -> Any:
    """The way of a port of the fake to itself; it has no GID table to choose from."""
    device, gid = (fake_pyverbs.load(f"gdrcheck.verbs.{name}") for name in ("device", "gid"))
    return fake_pyverbs.load("gdrcheck.verbs.queue_pair").Path(
        port=device.PortInfo(port, "ACTIVE", "LinkUp", "infiniband", 17, 1, 4096),
        gid=gid.GidChoice(0, "fe80::1", "IB", ""),
        pkey_index=0,
        traffic_class=0,
        service_level=0,
        promised_mtu=None,
        completion_s=completion_s,
    )
