"""The kernel modules of the RDMA stacks and drivers that machines have loaded."""

from __future__ import annotations

from dataclasses import replace

from tests.captured.system import Module

CORE = "kernel/drivers/infiniband/core"
MLX5 = {
    "mlx5_core": "kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko.zst",
    "mlx5_ib": "kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko.zst",
}
CORE_MODULES = ("ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm")
OFED_VERSION = "24.10-0.7.0"


def inbox(*, mlx5: bool = True) -> dict[str, Module]:
    """The kernel's own RDMA stack."""
    paths = {name: f"{CORE}/{name}.ko.zst" for name in CORE_MODULES} | (MLX5 if mlx5 else {})
    return {
        name: Module(path=path, source=f"{number:023X}")
        for number, (name, path) in enumerate(paths.items(), start=0xA0)
    }


def ofed() -> dict[str, Module]:
    """MLNX_OFED's stack, built by DKMS beside the kernel's."""
    return {
        name: replace(module, path=f"updates/dkms/{name}.ko", version=OFED_VERSION)
        for name, module in inbox().items()
    }


def nvidia(
    version: str, *, peermem: bool = False, license: str = "Dual MIT/GPL"
) -> dict[str, Module]:
    """NVIDIA's kernel modules: the open ones, unless ``license`` is that of the others."""
    names = ("nvidia", "nvidia_uvm", "nvidia_modeset", *(("nvidia_peermem",) if peermem else ()))
    return {
        name: Module(
            path=f"updates/dkms/{name.replace('_', '-')}.ko",
            version=version,
            source=f"{number:023X}",
            license=license if name != "nvidia_peermem" else "Dual BSD/GPL",
        )
        for number, name in enumerate(names, start=0xB0)
    }
