"""What NVML says of each two GPUs. Source: nvml.h, nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_t."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import pynvml

from gdrcheck.facts import GpuPeer, Unreadable
from gdrcheck.probes import nvml_ask as ask

# Numbers of nvml.h: the binding's name for READ is a tuple by mistake.
READ, WRITE, NVLINK = 0, 1, 2
STATUSES = {
    0: "ok",
    1: "chipset not supported",
    2: "GPU not supported",
    3: "topology not supported",
    4: "disabled by a setting of the driver",
    5: "not supported",
    6: "unknown",
}


def peers(handles: Mapping[str, Any]) -> tuple[GpuPeer, ...]:
    """Each GPU with each other one, in the order of their slots; ``handles`` are by slot."""
    return tuple(_peer(handles, slot, peer) for slot, peer in permutations(sorted(handles), 2))


def _peer(handles: Mapping[str, Any], slot: str, peer: str) -> GpuPeer:
    def asked(index: int, what: str) -> str | Unreadable:
        try:
            return ask.field(
                slot, f"{what} of {peer}", lambda: _status(handles[slot], handles[peer], index)
            )
        except ask.GONE as error:
            # It answered until now; which of the two is gone NVML does not say.
            return Unreadable(unreadable=f"NVML: {ask.words(error)}")

    return GpuPeer(
        slot=slot,
        peer=peer,
        read=asked(READ, "peer read"),
        write=asked(WRITE, "peer write"),
        nvlink=asked(NVLINK, "NVLink peer"),
    )


def _status(one: Any, other: Any, index: int) -> str:
    try:
        status = pynvml.nvmlDeviceGetP2PStatus(one, other, index)
    except pynvml.NVMLError_NotSupported:
        return STATUSES[pynvml.NVML_P2P_STATUS_NOT_SUPPORTED]
    return STATUSES.get(status, f"status {status}")
