"""What holds of any two GPUs that reach each other: run on emulated ones, and on real ones.

A subclass named ``Test…`` is what pytest collects; it needs a fixture ``pair``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gdrcheck.gpu import peers
from gdrcheck.gpu.buffers import allocate, prove
from gdrcheck.gpu.compat import driver
from gdrcheck.gpu.context import Gpu
from gdrcheck.gpu.errors import CudaError
from gdrcheck.peering import PeerReach, PeerTransfer, PeerWay
from gdrcheck.registration import BufferKind

RUN_TAG = 0x1234_5678_9ABC_DEF0
Pair = tuple[Gpu, Gpu]


class Spoiled:
    """The driver, but for ``changed`` functions."""

    def __init__(self, **changed: Any) -> None:
        self._changed = changed

    def __getattr__(self, name: str) -> Any:
        return self._changed.get(name) or getattr(driver, name)


def cuMemcpyDtoD(to: int, source: int, length_bytes: int) -> Any:
    """A copy that leaves out the last byte."""
    if length_bytes == 1:
        return (driver.CUresult.CUDA_SUCCESS,)
    return driver.cuMemcpyDtoD(to, source, length_bytes - 1)


def cuMemcpyDtoDAsync(*_: Any) -> Any:
    """A copy that does nothing."""
    return (driver.CUresult.CUDA_SUCCESS,)


def transfers(ways: tuple[PeerWay, ...], means: str) -> Iterator[PeerTransfer]:
    for way in ways:
        yield from (one for one in way.transfers if one.means == means)


class AnyPair:
    """Tests that every two GPUs with peer access pass."""

    def test_each_may_use_the_memory_of_the_other(self, pair: Pair) -> None:
        assert peers.reach(*pair) == PeerReach(there=True, back=True)

    @pytest.mark.parametrize("kind", ["gpu", "gpu-vmm"])
    def test_memory_of_each_is_told_to_be_its_own(self, pair: Pair, kind: BufferKind) -> None:
        """cuda-python 13.3.1 would have all memory be of the first GPU."""
        with allocate(pair[0], 4096, kind) as first, allocate(pair[1], 4096, kind) as second:
            proofs = prove(first), prove(second)
        assert [proof.ordinal for proof in proofs] == [gpu.device.ordinal for gpu in pair]
        assert all(proof.gpu_memory for proof in proofs)

    def test_every_byte_arrives_both_ways_and_by_each_means(self, pair: Pair) -> None:
        one, other = pair
        ways = peers.exchange(one, other, RUN_TAG)
        slots = one.device.slot, other.device.slot
        assert [(way.source, way.sink) for way in ways] == [slots, slots[::-1]]
        for way in ways:
            made = {(each.means, each.offset_bytes, each.length_bytes) for each in way.transfers}
            assert made == {(means, *place) for means in peers.MEANS for place in peers.RANGES}
            assert [each for each in way.transfers if not each.verdict.right] == []
            assert way.rate.wrong is None
            assert way.rate.gbytes_per_s > 0

    def test_a_byte_that_a_copy_leaves_out_is_found_in_its_place(
        self, pair: Pair, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(peers, "driver", Spoiled(cuMemcpyDtoD=cuMemcpyDtoD))
        ways = peers.exchange(*pair, RUN_TAG)
        for copied in transfers(ways, "copy"):
            found = copied.verdict.by_gpu
            assert found is not None
            assert found == copied.verdict.by_cpu
            assert (found.first_bad_offset, found.bad_bytes) == (copied.length_bytes - 1, 1)
            assert copied.at_source is None
        others = [*transfers(ways, "read in place"), *transfers(ways, "write in place")]
        assert others
        assert all(other.verdict.right for other in others)

    def test_copies_that_bring_nothing_are_no_speed(
        self, pair: Pair, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(peers, "driver", Spoiled(cuMemcpyDtoDAsync=cuMemcpyDtoDAsync))
        for way in peers.exchange(*pair, RUN_TAG):
            assert way.rate.wrong is not None
            assert way.rate.wrong.bad_bytes == way.rate.length_bytes
            assert way.rate.wrong.looks_like == "poison"

    def test_access_is_given_once_at_a_time(self, pair: Pair) -> None:
        with (
            peers.peer_access(*pair),
            pytest.raises(CudaError) as caught,
            peers.peer_access(*pair),
        ):
            pass
        assert caught.value.name == "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"
        assert caught.value.function == "cuCtxEnablePeerAccess"

    def test_access_ends_with_its_block_also_after_a_failure(self, pair: Pair) -> None:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError), peers.peer_access(*pair):
                raise ZeroDivisionError
