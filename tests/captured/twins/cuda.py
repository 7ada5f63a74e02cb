"""Twins on which CUDA does not start, or a GPU does not do what NVML says of it."""

from __future__ import annotations

from gdrcheck.mismatch import Verdict
from tests.captured.edits import collected_part
from tests.captured.gpu_stand_in import Wrong, cuda_error, one_byte
from tests.captured.twins.model import Twin

GPU0, GPU1 = "0000:00:05.0", "0000:00:06.0"  # of the machine ``vm``
ALL_OF_CUDA = ("gpu_opens", "gpu_memory_kinds", "gpu_pattern", "gpu_memory_registers")
ON_THE_GPU = ("gpu_pattern", "gpu_memory_registers", "gpu_memory_moves")
NOT_READY = cuda_error("CUDA_ERROR_SYSTEM_NOT_READY", 802, "cuInit")
OLD_PTX = cuda_error("CUDA_ERROR_UNSUPPORTED_PTX_VERSION", 222, "cuModuleLoadData")
UNKNOWN = cuda_error("CUDA_ERROR_UNKNOWN", 999, "cuMemAlloc")


def _start(code: str, name: str, number: int) -> Twin:
    error = cuda_error(name, number, "cuInit")
    return Twin(code=code, machine="vm", blocks=ALL_OF_CUDA, wrong=Wrong(start=error))


CUDA = (
    _start("GPU-CUDA-FAILED", "CUDA_ERROR_OPERATING_SYSTEM", 304),
    _start("GPU-CUDA-DRIVER-OLD", "CUDA_ERROR_INSUFFICIENT_DRIVER", 35),
    _start("GPU-CUDA-FABRIC", "CUDA_ERROR_SYSTEM_NOT_READY", 802),
    _start("GPU-CUDA-MISMATCH", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", 803),
    _start("GPU-CUDA-NONE", "CUDA_ERROR_NO_DEVICE", 100),
    Twin(
        code="GPU-CUDA-NONE",
        machine="vm",
        name="counts none",
        blocks=ALL_OF_CUDA,
        wrong=Wrong(hidden=(GPU0, GPU1)),
    ),
    # The fabric is found by the check of its own; CUDA only meets it.
    Twin(
        code="DRV-FABRIC-MANAGER",
        machine="dgx",
        name="CUDA waits for it",
        edits=(collected_part("units", "nvidia-fabricmanager.service", value="failed"),),
        blocks=("cuda_starts", *ALL_OF_CUDA),
        wrong=Wrong(start=NOT_READY),
    ),
    # Too old for the kernels is too old for all of them: once for the node.
    Twin(
        code="GPU-CUDA-DRIVER-OLD",
        machine="vm",
        name="for the kernels",
        blocks=("gpu_pattern", "gpu_memory_registers", "gpu_memory_moves"),
        wrong=Wrong(engines={GPU0: OLD_PTX, GPU1: OLD_PTX}),
    ),
    Twin(
        code="GPU-CUDA-UNSEEN",
        machine="vm",
        places=("node1/gpu1",),
        blocks=("gpu_memory_kinds", *ON_THE_GPU),
        wrong=Wrong(hidden=(GPU1,)),
    ),
    Twin(
        code="GPU-CUDA-FAILED",
        machine="vm",
        name="one GPU",
        places=("node1/gpu0",),
        blocks=("gpu_memory_kinds", *ON_THE_GPU),
        wrong=Wrong(
            opens={
                GPU0: cuda_error("CUDA_ERROR_DEVICE_UNAVAILABLE", 46, "cuDevicePrimaryCtxRetain")
            }
        ),
    ),
    Twin(
        code="GPU-GONE",
        machine="vm",
        places=("node1/gpu1",),
        blocks=ON_THE_GPU,
        wrong=Wrong(makes={(GPU1, "gpu"): UNKNOWN}),
    ),
    Twin(
        code="GPU-MEMORY-FULL",
        machine="vm",
        places=("node1/gpu0",),
        blocks=ON_THE_GPU,
        wrong=Wrong(
            makes={(GPU0, "gpu-vmm"): cuda_error("CUDA_ERROR_OUT_OF_MEMORY", 2, "cuMemCreate")}
        ),
    ),
    Twin(
        code="GPU-MEMORY-KIND",
        machine="vm",
        name="managed",
        places=("node1/gpu0",),
        blocks=ON_THE_GPU,
        wrong=Wrong(proofs={(GPU0, "gpu"): {"managed": True, "gdr_capable": False}}),
    ),
    Twin(
        code="GPU-MEMORY-KIND",
        machine="vm",
        name="managed that passes for the GPU's own",
        places=("node1/gpu0",),
        blocks=ON_THE_GPU,
        wrong=Wrong(proofs={(GPU0, "managed"): {"managed": False, "gdr_capable": True}}),
    ),
    Twin(
        code="GPU-MEMORY-KIND",
        machine="vm",
        name="pinned that passes for the GPU's own",
        places=("node1/gpu1",),
        blocks=ON_THE_GPU,
        wrong=Wrong(proofs={(GPU1, "pinned"): {"memory_type": "device", "gdr_capable": True}}),
    ),
    Twin(
        code="GPU-PATTERN-WRONG",
        machine="vm",
        places=("node1/gpu0",),
        blocks=("gpu_memory_registers", "gpu_memory_moves"),
        wrong=Wrong(fills={GPU0: Verdict(one_byte(8), one_byte(8))}),
    ),
    Twin(
        code="GPU-PATTERN-WRONG",
        machine="vm",
        name="a flipped byte is missed by both",
        places=("node1/gpu0",),
        blocks=("gpu_memory_registers",),
        wrong=Wrong(flips={GPU0: Verdict(None, None)}),
    ),
    Twin(
        code="GPU-VERIFIERS-DISAGREE",
        machine="vm",
        places=("node1/gpu0",),
        blocks=("gpu_memory_registers", "gpu_memory_moves"),
        wrong=Wrong(fills={GPU0: Verdict(None, one_byte(8))}),
    ),
    Twin(
        code="GPU-VERIFIERS-DISAGREE",
        machine="vm",
        name="a flipped byte is missed by the GPU",
        places=("node1/gpu1",),
        blocks=("gpu_memory_registers",),
        wrong=Wrong(flips={GPU1: Verdict(None, one_byte(8))}),
    ),
)
