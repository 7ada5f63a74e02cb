"""Twins whose operating system or drivers are wrong."""

from __future__ import annotations

from tests.captured import edits
from tests.captured.edits import collected, collected_part, gone, put
from tests.captured.twins.model import RDMA, Twin

HOST = (
    Twin(code="HOST-OS", machine="roce", edits=(collected("os", "Ubuntu 22.04.5 LTS"),)),
    Twin(
        code="HOST-KERNEL",
        machine="lab",
        edits=(put("proc/sys/kernel/osrelease", "6.1.0-31-amd64"),),
        promise={"expect": {"kernel": "6.12.57+deb13-amd64"}},
    ),
    Twin(
        code="HOST-COMMAND-LINE",
        machine="dgx",
        edits=(put("proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz root=/dev/md0 ro"),),
    ),
    Twin(code="HOST-IOMMU", machine="roce", promise={"expect": {"iommu": "passthrough"}}),
    Twin(
        code="HOST-IOMMU",
        machine="lab",
        name="on",
        edits=(put("sys/class/iommu/dmar0/name", "dmar0"),),
    ),
)

DRIVERS = (
    Twin(
        code="DRV-MODULE-MISSING",
        machine="mig",
        name="peermem",
        edits=(gone("sys/module/nvidia_peermem", "sys/kernel/mm/memory_peers/nv_mem"),),
    ),
    Twin(
        code="DRV-MODULE-MISSING",
        machine="roce",
        promise={"expect": {"modules": ["gdrdrv"]}},
    ),
    Twin(
        code="DRV-MODULE-MISSING",
        machine="lab",
        name="no devices",
        edits=(
            gone(
                "sys/module/rdma_rxe",
                f"{RDMA}/rxe0",
                "sys/class/infiniband_verbs/uverbs0",
            ),
        ),
        blocks=("device_present", "port_active", "port_rate", "device_opens", "pci_errors"),
    ),
    Twin(
        code="DRV-NVIDIA-MISSING",
        machine="vm",
        edits=(gone("sys/module/nvidia", "proc/driver/nvidia", "dev/nvidiactl"),),
        blocks=("nvml_answers", "gpu_answers", "gpu_model", "gpu_bar1"),
    ),
    Twin(code="DRV-NVIDIA-VERSION", machine="vm", promise={"expect": {"driver": "570.*"}}),
    Twin(
        code="DRV-NVIDIA-PROPRIETARY",
        machine="vm",
        edits=(
            put(
                "proc/driver/nvidia/version",
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Release Build",
            ),
            # It exports no dma-buf: something must be left to register with.
            put("sys/module/nvidia_peermem/initstate", "live"),
        ),
        promise={"expect": {"open_module": True}},
    ),
    Twin(code="DRV-CUDA-OLD", machine="vm", edits=(edits.driver_said(cuda_version="12.8"),)),
    Twin(
        code="DRV-PEERMEM-INERT",
        machine="mig",
        edits=(gone("sys/kernel/mm/memory_peers/nv_mem", "sys/kernel/mm/memory_peers/nv_mem_nc"),),
    ),
    Twin(
        code="DRV-PEERMEM-SYMBOLS",
        machine="mig",
        edits=(
            gone("sys/module/nvidia_peermem", "sys/kernel/mm/memory_peers/nv_mem"),
            collected(
                "kernel_log",
                [
                    {
                        "topic": "peermem",
                        "seconds_since_boot": 42.5,
                        "text": "nvidia_peermem: disagrees about version of symbol "
                        "ib_register_peer_memory_client",
                    }
                ],
            ),
        ),
    ),
    Twin(
        code="DRV-DMABUF-IMPOSSIBLE",
        machine="roce",
        edits=(collected_part("kernel_config", "CONFIG_DMA_SHARED_BUFFER", value="n"),),
    ),
    Twin(
        code="DRV-FABRIC-MANAGER",
        machine="dgx",
        edits=(collected_part("units", "nvidia-fabricmanager.service", value="failed"),),
    ),
    Twin(code="DRV-OFED", machine="mig", edits=(collected("ofed", "MLNX_OFED_LINUX-5.8-1"),)),
    Twin(
        code="DRV-STACK-MIXED",
        machine="mig",
        edits=(
            collected_part(
                "modules",
                "ib_core",
                path="/lib/modules/6.1.0-31-amd64/kernel/drivers/infiniband/core/ib_core.ko",
            ),
        ),
    ),
    Twin(
        code="DRV-PROVIDER-MISSING",
        machine="roce",
        edits=(gone("usr/lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav34.so"),),
    ),
)
