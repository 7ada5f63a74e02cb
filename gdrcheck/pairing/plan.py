"""What is sent, how often, and how long that takes. Pure; every number here is our choice.

Measurements are bounded by time, not by deadlines: ``time_scale`` makes none of them longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar, cast

from gdrcheck.pairing.items import Item, exchanges, items
from gdrcheck.pairing.reports import StagedPlan, TimedPlan
from gdrcheck.pairing.schedule import Pair, rounds
from gdrcheck.pairing.tools import PerftestPlan
from gdrcheck.profile import Profile
from gdrcheck.run import RunSpec
from gdrcheck.transfer import DIRECTIONS, MODES, OPERATIONS, Direction, Mode, Operation

T = TypeVar("T")

KIB, MIB = 1 << 10, 1 << 20
# Around the borders at which implementations differ: words, what may travel inside a work request,
# cache lines, pages; the last is of no round number of anything. Those of the path MTU come beside.
SIZES_BYTES = (1, 8, 32, 33, 64, 65, 4095, 4097, 65535, 65537, MIB + 13)
# Three, since the messages start at bytes 0, 1 and 63 of a cache line in turn.
ITERATIONS = 3
FAR_SIZES_BYTES = (1, 4097, 65537)

# As ib_send_lat, which it is compared with, has it by default.
LATENCY_BYTES = 2
LATENCY_ROUNDS = 1000
# Of slow software fewer will do: what a first few rounds take says how many fit into this time.
LATENCY_S = 1.0
FIRST_ROUNDS, LEAST_ROUNDS = 30, 100
BANDWIDTH_SIZES_BYTES = (64 * KIB, MIB, 4 * MIB)
# The size for measurements of which one is enough, and for the comparison with perftest.
ONE_SIZE_BYTES = MIB
# Enough for a million microseconds of clock to tell 1 % at any rate, and for a rail to settle.
BANDWIDTH_S = 0.1
# Of all rails at once: they begin up to some 50 ms apart, and most of it must be at the same time.
AT_ONCE_S = 0.5
BANDWIDTH_MESSAGES = 8
QUEUE_PAIRS = 4
# In flight on each queue pair: far more than a link holds, and soon drained by a slow one.
IN_FLIGHT_BYTES = 2 * MIB
MAX_DEPTH = 32
PERFTEST_MESSAGES = 20_000
STAGED_SIZES_BYTES = (64 * KIB, 4 * MIB)
STAGED_MESSAGES = 8


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """Which exchanges prove the data of every rail of a pair, and with which messages.

    ``operations`` may hold atomic ones, which move eight bytes whatever the sizes are.
    ``around_mtu``: also one byte less and one more than the path MTU.
    """

    sizes_bytes: tuple[int, ...] = SIZES_BYTES
    iterations: int = ITERATIONS
    modes: tuple[Mode, ...] = MODES
    operations: tuple[Operation, ...] = OPERATIONS
    directions: tuple[Direction, ...] = DIRECTIONS
    far_sizes_bytes: tuple[int, ...] = FAR_SIZES_BYTES
    far_iterations: int = 1
    around_mtu: bool = True

    def sizes(self, path_mtu: int) -> tuple[int, ...]:
        """The sizes to move over a path of this MTU, the smallest first, each once."""
        around = {path_mtu - 1, path_mtu + 1} if self.around_mtu else set()
        return tuple(sorted({*self.sizes_bytes, *around}))


def program_plan(one: Profile, other: Profile) -> ProgramPlan:
    """What nodes of two profiles owe each other."""
    owed = exchanges(one, other, gpus=True)
    operations = dict.fromkeys(item.operation for item in owed if item.check == "pingpong")
    return ProgramPlan(operations=tuple(cast(Operation, name) for name in operations))


def latency_plan(mode: Mode, rounds: int = LATENCY_ROUNDS) -> TimedPlan:
    """Rounds of the smallest message, one after the other."""
    return TimedPlan("latency", mode, LATENCY_BYTES, rounds)


def latency_rounds(half_us: float | None) -> int:
    """How many rounds to measure of which half takes ``half_us``, as far as is known."""
    fit = LATENCY_ROUNDS if not half_us else int(LATENCY_S * 1e6 / (2 * half_us))
    return max(LEAST_ROUNDS, min(LATENCY_ROUNDS, fit))


def bandwidth_plan(
    mode: Mode, size_bytes: int, *, both_ways: bool = False, seconds: float = BANDWIDTH_S
) -> TimedPlan:
    """Messages of one size, many in flight."""
    return TimedPlan(
        "bandwidth",
        mode,
        size_bytes,
        BANDWIDTH_MESSAGES,
        seconds=seconds,
        depth=max(2, min(MAX_DEPTH, IN_FLIGHT_BYTES // size_bytes)),
        queue_pairs=QUEUE_PAIRS,
        both_ways=both_ways,
    )


def at_once_plan(mode: Mode) -> TimedPlan:
    """Both ways of a rail while all others do the same."""
    return bandwidth_plan(mode, ONE_SIZE_BYTES, both_ways=True, seconds=AT_ONCE_S)


def staged_plans() -> tuple[StagedPlan, ...]:
    """The sizes of which the way through host memory is compared with the direct one."""
    return tuple(StagedPlan(size, STAGED_MESSAGES) for size in STAGED_SIZES_BYTES)


def perftest_bandwidth_plan(ours_gbps: float) -> PerftestPlan:
    """perftest's counterpart of our bandwidth, for about as long: it counts messages only.

    ``ours_gbps`` is what we measured of the same size.
    """
    in_time = BANDWIDTH_S * ours_gbps * 1e9 / 8 / ONE_SIZE_BYTES / QUEUE_PAIRS
    return PerftestPlan(
        kind="bandwidth",
        size_bytes=ONE_SIZE_BYTES,
        iterations=max(BANDWIDTH_MESSAGES, min(PERFTEST_MESSAGES, round(in_time))),
        queue_pairs=QUEUE_PAIRS,
    )


def perftest_latency_plan(ours_us: float | None) -> PerftestPlan:
    """perftest's counterpart of our latency, which was ``ours_us``, if it was measured."""
    rounds = latency_rounds(ours_us)
    return PerftestPlan(kind="latency", size_bytes=LATENCY_BYTES, iterations=rounds)


# Seconds that a case takes on a real node, beyond what the plans above say: what both ends agree
# on, what is filled and verified, interpreters and programs that start. Estimates, not limits.
START_S = 4.0  # endpoint children, their CUDA contexts, registrations, queue pairs; all rails
EXCHANGE_S = 0.1  # one exchange: some 80 messages; all rails side by side
FAR_S = 0.05  # one exchange of few messages
LATENCY_CASE_S = 0.05
TIMED_S = 0.03
STAGED_S = 0.15
PERFTEST_S = 0.7  # start, connect, warm up, and its own measurement
RDMA_CM_S = 0.5  # a connection, with its child started once a rail

# Of a case that passed: its records as planned, started and ended.
BYTES_OF_CASE = 1000
# The same in the record of its pair: a character each for what became of it and what was expected,
# and the numbers that few cases have; and of the record itself.
BYTES_OF_WIDE_CASE, BYTES_OF_PAIR = 8, 400
# Above this a node writes one record a pair: a merge reads no more of one node.
WIDE_BYTES = 64 * MIB

SECONDS_OF_CASE = {
    "pingpong": EXCHANGE_S,
    "pingpong_far": FAR_S,
    "latency": LATENCY_CASE_S,
    "bandwidth": len(BANDWIDTH_SIZES_BYTES) * (BANDWIDTH_S + TIMED_S),
    "bandwidth_both_ways": BANDWIDTH_S + TIMED_S,
    "staged_against_direct": len(STAGED_SIZES_BYTES) * STAGED_S,
    "perftest_bandwidth": PERFTEST_S,
    "perftest_latency": PERFTEST_S,
    # Both directions and all rails at once: its share of one measurement.
    "bandwidth_all_rails": (AT_ONCE_S + TIMED_S) / 2,
    "rdma_cm": RDMA_CM_S,
}
# All rails do these at the same time.
SIDE_BY_SIDE = frozenset({"pingpong", "bandwidth_all_rails"})


def planned_s(run: RunSpec) -> float:
    """About how long all rounds of a run take: in each the pair that takes longest counts."""
    seconds = _by_profiles(run, _promised_s)
    return sum(
        max((seconds(pair) for pair in one_round), default=0)
        for one_round in rounds(run.nodes, run.rounds)
    )


def _by_profiles(run: RunSpec, told: Callable[[Profile, Profile], T]) -> Callable[[Pair], T]:
    """``told`` of a pair's two profiles, asked once for each two of them: pairs can be many."""
    known: dict[tuple[str, str], T] = {}

    def of(pair: Pair) -> T:
        names = run.node(pair.initiator).profile, run.node(pair.responder).profile
        if names not in known:
            known[names] = told(run.profiles[names[0]], run.profiles[names[1]])
        return known[names]

    return of


def _promised_s(one: Profile, other: Profile) -> float:
    if one.rails is None or other.rails is None or "none" in (one.pairs, other.pairs):
        return 0
    rails = min(one.rails.count, other.rails.count)
    gpus = min(profile.gpus.count if profile.gpus else 0 for profile in (one, other))
    return pair_s(one, other, rails, min(rails, gpus))


def is_wide(run: RunSpec) -> bool:
    """Whether the nodes of a run write one record for each pair, not one for each case."""
    return max(recorded_bytes(run).values(), default=0) > WIDE_BYTES


def recorded_bytes(run: RunSpec) -> dict[str, int]:
    """About how much each node writes of the pairs that it initiates, where nothing fails, with
    records of each case."""
    return _written(run, lambda cases: BYTES_OF_CASE * cases)


def wide_bytes(run: RunSpec) -> dict[str, int]:
    """The same with one record for each pair."""
    return _written(run, lambda cases: BYTES_OF_PAIR + BYTES_OF_WIDE_CASE * cases)


def _written(run: RunSpec, bytes_of: Callable[[int], int]) -> dict[str, int]:
    of_pair = _by_profiles(run, lambda one, other: bytes_of(_cases(one, other)))
    written: Counter[str] = Counter()
    for pair in (pair for one_round in rounds(run.nodes, run.rounds) for pair in one_round):
        written[pair.initiator] += of_pair(pair)
    return dict(written)


def _cases(one: Profile, other: Profile) -> int:
    if one.rails is None or other.rails is None or "none" in (one.pairs, other.pairs):
        return 0
    owed = items(one, other, gpus=bool(one.gpus and other.gpus))
    return min(one.rails.count, other.rails.count) * sum(len(item.directions) for item in owed)


def pair_s(one: Profile, other: Profile, rails: int, gpu_rails: int) -> float:
    """About how long a pair takes on real nodes where nothing is wrong, of so many rails."""
    if not rails:
        return 0
    with_gpus = _seconds(items(one, other, gpus=True), gpu_rails)
    without = _seconds(items(one, other, gpus=False), rails - gpu_rails)
    return START_S + with_gpus + without


def _seconds(owed: Iterable[Item], rails: int) -> float:
    if not rails:
        return 0
    return sum(
        SECONDS_OF_CASE[item.check]
        * len(item.directions)
        * (1 if item.check in SIDE_BY_SIDE else rails)
        for item in owed
        if item.promised
    )
