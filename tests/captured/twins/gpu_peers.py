"""Twins on which two GPUs do not reach each other, or data between them arrives wrong."""

from __future__ import annotations

from gdrcheck.mismatch import Verdict
from tests.captured.gpu_stand_in import Wrong, cuda_error, one_byte, peer_transfer
from tests.captured.twins.model import Twin

FIRST, SECOND = "0000:1b:00.0", "0000:43:00.0"  # of the machine ``dgx``
PAIR = "node1/gpu0 (with node1/gpu1)"
BOTH = ((FIRST, SECOND), (SECOND, FIRST))
WRONG = Verdict(one_byte(8), one_byte(8))
NO_ACCESS = cuda_error("CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", 217, "cuCtxEnablePeerAccess")
ILLEGAL = cuda_error("CUDA_ERROR_ILLEGAL_ADDRESS", 700, "cuMemcpyDtoH")

GPU_PEERS = (
    Twin(code="GPU-PEER-ACCESS", machine="dgx", places=(PAIR,), wrong=Wrong(refuses=BOTH)),
    Twin(
        code="GPU-PEER-ACCESS",
        machine="dgx",
        name="one way",
        places=(PAIR,),
        wrong=Wrong(refuses=BOTH[1:]),
    ),
    Twin(
        code="GPU-PEER-ACCESS",
        machine="vm",
        name="promised over PCIe",
        places=(PAIR,),
        promise={"expect": {"peer_access": "all"}},
    ),
    Twin(
        code="GPU-PEER-ACCESS",
        machine="dgx",
        name="refused in the end",
        places=(PAIR,),
        wrong=Wrong(peers={(FIRST, SECOND): NO_ACCESS}),
    ),
    Twin(
        code="GPU-PEER-DATA",
        machine="dgx",
        places=(PAIR,),
        wrong=Wrong(peers={(FIRST, SECOND): peer_transfer("copy", WRONG)}),
    ),
    Twin(
        code="GPU-PEER-DATA",
        machine="dgx",
        name="the way back",
        places=(PAIR,),
        wrong=Wrong(peers={(SECOND, FIRST): peer_transfer("write in place", WRONG)}),
    ),
    Twin(
        code="GPU-PEER-DATA",
        machine="dgx",
        name="seen through the link only",
        places=(PAIR,),
        wrong=Wrong(
            peers={(FIRST, SECOND): peer_transfer("read in place", Verdict(one_byte(8), None))}
        ),
    ),
    # Both contexts may be lost: neither GPU is used after it.
    Twin(
        code="GPU-CUDA-FAILED",
        machine="dgx",
        name="in the memory of a peer",
        places=(PAIR,),
        blocks=("gpu_peers",),
        wrong=Wrong(peers={(FIRST, SECOND): ILLEGAL}),
    ),
    Twin(
        code="GPU-VERIFIERS-DISAGREE",
        machine="dgx",
        name="after a copy",
        places=(PAIR,),
        wrong=Wrong(peers={(FIRST, SECOND): peer_transfer("copy", Verdict(None, one_byte(8)))}),
    ),
)
