"""Two GPUs of a node that use each other's memory: every byte verified, and how fast it goes.

The driver moves data between GPUs by way of the host where they cannot reach each other; only a
kernel that touches the other's memory proves that they do. Hence both.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gdrcheck import steps
from gdrcheck.gpu.buffers import Buffer, allocate
from gdrcheck.gpu.compat import call, driver, quiet, undone
from gdrcheck.gpu.context import Gpu
from gdrcheck.gpu.engine import engine_of
from gdrcheck.gpu.launcher import scratch
from gdrcheck.mismatch import Verdict
from gdrcheck.pattern import Key
from gdrcheck.peering import Means, PeerRate, PeerReach, PeerTransfer, PeerWay
from gdrcheck.sizes import size_text

__all__ = ["RANGES", "exchange", "peer_access", "reach"]

# Offset and length: neither is aligned, and the longest is spread over all links of a GPU.
RANGES = ((0, 1), (4093, 4097), (1, (64 << 10) + 1), (8191, (16 << 20) + 13))
MEANS: tuple[Means, ...] = ("copy", "read in place", "write in place")
_BUFFER_BYTES = max(offset + length for offset, length in RANGES)
# Long enough that the start of a copy does not count; no more than a part of what is free.
_RATE_BYTES, _RATE_PART = 256 << 20, 16
_RATE_S, _COPIES_MOST = 0.02, 32


def reach(one: Gpu, other: Gpu) -> PeerReach:
    """Whether CUDA lets each of the two use the other's memory. CudaError if it does not say."""
    return PeerReach(there=_can(one, other), back=_can(other, one))


def _can(gpu: Gpu, peer: Gpu) -> bool:
    what = f"cuDeviceCanAccessPeer of {gpu.device.slot} to {peer.device.slot}"
    ordinals = gpu.device.ordinal, peer.device.ordinal
    (can,) = call(what, driver.cuDeviceCanAccessPeer, *ordinals)
    return bool(can)


@contextmanager
def peer_access(gpu: Gpu, peer: Gpu) -> Iterator[None]:
    """``gpu`` may use the memory of ``peer`` until the end of the block. CudaError if refused."""
    which = f"of {gpu.device.slot} to {peer.device.slot}"
    gpu.activate()
    call(f"cuCtxEnablePeerAccess {which}", driver.cuCtxEnablePeerAccess, peer.context, 0)
    with (
        undone(f"cuCtxDisablePeerAccess {which}", driver.cuCtxDisablePeerAccess, peer.context),
        gpu.current(),
    ):
        yield


def exchange(one: Gpu, other: Gpu, run_tag: int) -> tuple[PeerWay, PeerWay]:
    """Everything moved from ``one`` to ``other``, and from ``other`` to ``one``, in this order.

    ``run_tag`` makes the bytes of this exchange unlike those of others. CudaError when the driver
    refuses a call; the contexts of both GPUs may be lost after one.
    """
    with peer_access(one, other), peer_access(other, one):
        return _way(one, other, run_tag, 0), _way(other, one, run_tag, 1)


def _way(source: Gpu, sink: Gpu, run_tag: int, direction: int) -> PeerWay:
    turns = [(means, *place) for means in MEANS for place in RANGES]
    with allocate(source, _BUFFER_BYTES) as there, allocate(sink, _BUFFER_BYTES) as here:
        transfers = tuple(
            _transfer(there, here, means, Key(run_tag, turn, direction, 0), offset, length)
            for turn, (means, offset, length) in enumerate(turns)
        )
    rate = _rate(source, sink, Key(run_tag, len(turns), direction, 0))
    return PeerWay(source.device.slot, sink.device.slot, transfers, rate)


def _transfer(
    there: Buffer, here: Buffer, means: Means, key: Key, offset_bytes: int, length_bytes: int
) -> PeerTransfer:
    place = (offset_bytes, length_bytes)
    way = f"from {there.gpu.device.slot} to {here.gpu.device.slot}"
    with steps.only(f"{means} of {size_text(length_bytes)} {way}"):
        verdict = _MOVES[means](there, here, key, *place)
        at_source = None
        if means != "write in place" and not verdict.right:
            at_source = engine_of(there.gpu).gpu_verify_only(there, key, *place)
    return PeerTransfer(means, *place, verdict, at_source)


def _copy(there: Buffer, here: Buffer, key: Key, offset_bytes: int, length_bytes: int) -> Verdict:
    place = (offset_bytes, length_bytes)
    engine_of(there.gpu).fill(there, key, *place)
    engine_of(here.gpu).poison(here, key, *place)
    there.gpu.activate()
    call(
        f"cuMemcpyDtoD of {size_text(length_bytes)} to {here.gpu.device.slot}",
        driver.cuMemcpyDtoD,
        here.address + offset_bytes,
        there.address + offset_bytes,
        length_bytes,
    )
    # A copy between GPUs may still be under way when the call returns.
    there.gpu.synchronize()
    return engine_of(here.gpu).verify(here, key, *place)


def _read(there: Buffer, here: Buffer, key: Key, offset_bytes: int, length_bytes: int) -> Verdict:
    place = (offset_bytes, length_bytes)
    engine_of(there.gpu).fill(there, key, *place)
    return engine_of(here.gpu).verify(there, key, *place)


def _write(there: Buffer, here: Buffer, key: Key, offset_bytes: int, length_bytes: int) -> Verdict:
    place = (offset_bytes, length_bytes)
    engine_of(here.gpu).poison(here, key, *place)
    engine_of(there.gpu).fill(here, key, *place)
    return engine_of(here.gpu).verify(here, key, *place)


_MOVES = {"copy": _copy, "read in place": _read, "write in place": _write}


def _rate(source: Gpu, sink: Gpu, key: Key) -> PeerRate:
    length = _rate_bytes(source, sink)
    way = f"from {source.device.slot} to {sink.device.slot}"
    with (
        _plain(source, length) as there,
        _plain(sink, length) as here,
        steps.only(f"copies of {size_text(length)} {way}"),
    ):
        engine_of(source).fill(there, key, 0, length)
        engine_of(sink).poison(here, key, 0, length)
        _copies_s(there, here, 1)
        one_s = _copies_s(there, here, 1)
        copies = max(2, min(_COPIES_MOST, math.ceil(_RATE_S / one_s)))
        took_s = _copies_s(there, here, copies)
        wrong = engine_of(sink).gpu_verify_only(here, key, 0, length)
    return PeerRate(length, copies, length * copies / took_s / 1e9, wrong)


def _rate_bytes(*gpus: Gpu) -> int:
    free = min(gpu.memory_info()[0] for gpu in gpus) // _RATE_PART
    return min(_RATE_BYTES, 1 << max(free, 1).bit_length() - 1)


@contextmanager
def _plain(gpu: Gpu, length_bytes: int) -> Iterator[Buffer]:
    """Memory that does not make every copy wait for its end, which would be part of its time."""
    with scratch(gpu, length_bytes) as address, gpu.current():
        yield Buffer(
            gpu, "gpu", address=address, length_bytes=length_bytes, allocated_bytes=length_bytes
        )


def _copies_s(there: Buffer, here: Buffer, count: int) -> float:
    """The time of ``count`` copies of the whole buffer, by the source's copy engines."""
    there.gpu.activate()
    what = f"cuMemcpyDtoDAsync of {size_text(here.length_bytes)} to {here.gpu.device.slot}"
    length = here.length_bytes
    start = time.perf_counter()
    for _ in range(count):
        quiet(what, driver.cuMemcpyDtoDAsync, here.address, there.address, length, 0)
    there.gpu.synchronize()
    return time.perf_counter() - start
