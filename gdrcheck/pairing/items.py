"""What is owed of each rail of a pair: one item for each case name, by both ends' profiles. Pure.

The checks make their cases from this list, and the merge misses what it holds and nobody reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gdrcheck.pairing.messages import RailInfo
from gdrcheck.profile import Profile
from gdrcheck.transfer import ATOMICS, DIRECTIONS, MODES, OPERATIONS, Direction, Mode, has_gpu

# What the speed is measured of unless a profile asks for all modes: the two that say most.
DEFAULT_TIMED_MODES: tuple[Mode, ...] = ("host-host", "gpu-gpu")
# A measurement of both ways at once has no direction: it is told as one that leaves the initiator.
ONCE: tuple[Direction, ...] = ("out",)


@dataclass(frozen=True, slots=True)
class Item:
    """One case of a rail in each of ``directions``.

    ``proof``: only a case that was measured will do. Of the others (numbers, which nobody may judge
    everywhere; tools and paths that not every node has) it is enough to say why not.
    ``promised``: False for what the case is to say that the profile does not promise.
    """

    check: str
    mode: str
    operation: str
    directions: tuple[Direction, ...] = DIRECTIONS
    proof: bool = False
    promised: bool = True

    @property
    def uses_gpus(self) -> bool:
        """Whether GPUs take part: pinned memory of the host is filled by them."""
        return self.mode != "host-host"

    def id(self, source: str, sink: str) -> str:
        """The name of its case between two places."""
        return f"{self.check}[{source} -> {sink}, {self.mode}, {self.operation}]"


def items(one: Profile, other: Profile, *, gpus: bool) -> tuple[Item, ...]:
    """Everything that is owed of a rail between nodes of two profiles, in the order of measuring.

    ``gpus``: the rail has a GPU at both ends.
    """
    return (
        *exchanges(one, other, gpus=gpus),
        *_alone(one, other, gpus=gpus),
        *at_once(one, other, gpus=gpus),
        *(rdma_cm() if gpus else ()),
    )


def promises_gpus(profile: Profile) -> bool:
    """Whether nodes of this profile have GPUs."""
    return profile.gpus is not None and profile.gpus.count > 0


def rail_has_gpu(profile: Profile, rail: RailInfo) -> bool:
    """Whether a node of this profile owes GPU memory on ``rail``, which it says it has.

    With as many GPUs as rails each has one, whatever the node says; with fewer it says which.
    """
    if profile.gpus is None or profile.rails is None or not profile.gpus.count:
        return False
    told = rail.gpu is not None or rail.gpu_blocked_by is not None
    return told or profile.gpus.count >= profile.rails.count


def exchanges(one: Profile, other: Profile, *, gpus: bool) -> Iterator[Item]:
    """The exchanges that prove the data: every mode and operation."""
    atomics = one.transfers.atomics and other.transfers.atomics
    for mode in MODES:
        if gpus or not has_gpu(mode):
            for operation in (*OPERATIONS, *(ATOMICS if atomics else ())):
                yield Item("pingpong", mode, operation, proof=True)
    if gpus:
        far = one.transfers.beyond_2gib and other.transfers.beyond_2gib
        yield Item("pingpong_far", "gpu-gpu", "WRITE_WITH_IMM", promised=far)


def timed_modes(one: Profile, other: Profile, *, gpus: bool) -> tuple[Mode, ...]:
    """The modes of which the speed is measured."""
    every = "all" in (one.modes, other.modes)
    modes = MODES if every else DEFAULT_TIMED_MODES
    return tuple(mode for mode in modes if gpus or not has_gpu(mode))


def _alone(one: Profile, other: Profile, *, gpus: bool) -> Iterator[Item]:
    """The numbers of one rail while no other one runs."""
    for mode in timed_modes(one, other, gpus=gpus):
        yield Item("latency", mode, "SEND")
        yield Item("bandwidth", mode, "WRITE")
        yield Item("bandwidth_both_ways", mode, "WRITE", ONCE)
    if gpus:
        yield Item("staged_against_direct", "gpu-gpu", "WRITE")
    yield Item("perftest_bandwidth", "host-host", "WRITE")
    yield Item("perftest_latency", "host-host", "SEND", ONCE)


def at_once(one: Profile, other: Profile, *, gpus: bool) -> Iterator[Item]:
    """The numbers of a rail while all rails run, both ways."""
    for mode in timed_modes(one, other, gpus=gpus):
        yield Item("bandwidth_all_rails", mode, "WRITE")


def rdma_cm() -> Iterator[Item]:
    """Connections by address and port, with data that a kernel makes.

    Mapped host memory once, for what differs is the connection; memory of the GPU both ways.
    """
    yield Item("rdma_cm", "pinned-pinned", "SEND_WITH_IMM", ONCE)
    yield Item("rdma_cm", "gpu-gpu", "SEND_WITH_IMM")
