"""Facts about the drivers: NVIDIA's and the RDMA stack."""

from __future__ import annotations

from gdrcheck.facts.base import FactsModel, Unreadable


class Peermem(FactsModel):
    """nvidia-peermem: whether the module is loaded, and whether it is known to ib_core.

    ``clients`` are the entries of /sys/kernel/mm/memory_peers; None when the kernel's ib_core has
    no peer memory interface at all (inbox kernels). Loaded is not registered: both are kept.
    """

    loaded: bool | Unreadable
    module: str | None
    clients: tuple[str, ...] | Unreadable | None

    @property
    def registered(self) -> bool | Unreadable:
        """Whether NVIDIA's client is registered with ib_core."""
        if isinstance(self.clients, Unreadable):
            return self.clients
        return any(name in ("nv_mem", "nv_mem_nc") for name in self.clients or ())


class NvidiaDriver(FactsModel):
    """NVIDIA's kernel driver. ``cuda`` is the newest CUDA version that it supports (NVML).

    ``parameters`` are the module's settings of interest, as in /proc/driver/nvidia/params.
    ``nvswitches`` are the slots of the NVSwitches that this node sees, empty when it has none.
    """

    version: str | Unreadable
    open_module: bool | Unreadable
    cuda: str | Unreadable
    peermem: Peermem
    parameters: dict[str, str] | Unreadable
    nvswitches: tuple[str, ...] | Unreadable


class Provider(FactsModel):
    """A user-space verbs provider of the image, and whether its library is there."""

    name: str
    library: str | None


class RdmaStack(FactsModel):
    """The RDMA software, in the kernel and in the image.

    ``ofed`` is what ``ofed_info -s`` says on the host, ``inbox`` when it has none. ``uverbs_abi``
    is the kernel's interface version. ``exclusive_namespaces``: devices are seen only in the
    network namespace that they were moved to (rdma-system(8)).
    """

    ofed: str | Unreadable
    uverbs_abi: int | Unreadable | None
    rdma_core: str | Unreadable
    providers: tuple[Provider, ...] | Unreadable
    exclusive_namespaces: bool | Unreadable
