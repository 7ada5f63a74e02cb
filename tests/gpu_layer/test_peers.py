"""Two emulated GPUs that use each other's memory, and what is told when the link is at fault."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gdrcheck.gpu import peers
from gdrcheck.gpu.context import open_gpu
from gdrcheck.gpu.devices import enumerate_gpus, start
from gdrcheck.peering import PeerReach
from lab.emulated_gpu.config import Corrupt, Faults
from tests.gpu_layer.emulation import Emulation
from tests.gpu_layer.peer_bodies import RUN_TAG, AnyPair, Pair


@pytest.fixture
def pair(emulation: Emulation) -> Iterator[Pair]:
    emulation.set()
    start()
    one, other = enumerate_gpus()
    with open_gpu(one) as first, open_gpu(other) as second:
        yield first, second


class TestOnEmulatedGpus(AnyPair):
    """The real cuda-python and the PTX in git on the emulated driver."""


def test_a_gpu_that_is_refused_is_told_each_way(pair: Pair, emulation: Emulation) -> None:
    emulation.set(faults_of={0: Faults(peer_refuse=True).lines()})
    assert peers.reach(*pair) == PeerReach(there=False, back=True)


def test_a_link_that_spoils_bytes_is_seen_by_gpu_and_cpu(pair: Pair, emulation: Emulation) -> None:
    emulation.set(faults_of={0: Faults(peer_corrupt=Corrupt()).lines()})
    out, back = peers.exchange(*pair, RUN_TAG)
    assert all(one.verdict.right for one in out.transfers)
    spoiled = [one for one in back.transfers if not one.verdict.right]
    assert {one.means for one in spoiled} == {"copy", "read in place"}
    assert len(spoiled) == 2 * len(peers.RANGES)
    # The memory that was read is right: only on its way the data changed.
    assert all(one.at_source is None for one in spoiled)
    assert all((one.verdict.by_cpu is None) is (one.means == "read in place") for one in spoiled)
    assert back.rate.wrong is not None
