"""Which numbers got slower by more than the noise of both runs."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.results.compare import compare
from gdrcheck.results.compare_model import Comparison
from gdrcheck.results.compare_text import lines
from tests.results.compared import OLD_ID, Made, Pair

# Sixteen pairs whose bandwidths lie within 1 % of each other.
NODES = tuple(f"n{number}" for number in range(41))
STEADY = [390.0 + (number % 4) for number in range(16)]


def fleet(values: Sequence[float | None], number: str = "gbps_4194304", **made: object) -> Made:
    """One pair for each value, from one node to the next."""
    return Made(
        nodes=NODES,
        pairs=[
            Pair(
                f"n{at}/mlx5_0",
                f"n{at + 1}/mlx5_0",
                numbers={} if value is None else {number: value},
            )
            for at, value in enumerate(values)
        ],
    ).but(**made)


def compared(old: Made, new: Made) -> Comparison:
    return compare(old.but(run_id=OLD_ID).build(), new.build(), "old", "new")


def with_one(value: float, values: Sequence[float] = STEADY) -> list[float]:
    return [value, *values[1:]]


def test_one_pair_that_lost_an_eighth_is_named() -> None:
    found = compared(fleet(STEADY), fleet(with_one(345.0)))
    (slower,) = found.slower
    assert slower.case == "bandwidth[n0/mlx5_0 -> n1/mlx5_0, gpu-gpu, WRITE]"
    assert (slower.old, slower.new) == (390.0, 345.0)
    assert slower.slower_share == pytest.approx(390 / 345 - 1, abs=1e-3)
    assert slower.noise_share is not None
    assert slower.limit_share < slower.slower_share
    assert found.exit_code == 1
    assert "4194304 bytes: 390 -> 345 Gb/s, 13% slower" in "\n".join(lines(found))


def test_what_the_noise_of_the_runs_explains_is_not_slower() -> None:
    old = [300.0 + 30 * (number % 4) for number in range(16)]
    new = [300.0 + 30 * (number // 4) for number in range(16)]
    found = compared(fleet(old), fleet(with_one(250.0, new)))
    assert found.numbers == 16
    assert found.slower == ()
    assert found.exit_code == 0


def test_what_sets_pairs_apart_in_both_runs_is_no_noise() -> None:
    """Pairs in one leaf are faster than those across, in every run."""
    leaves = [300.0 + 30 * (number % 4) for number in range(16)]
    (slower,) = compared(fleet(leaves), fleet(with_one(270.0, leaves))).slower
    assert (slower.old, slower.new) == (300.0, 270.0)


def test_the_noise_of_either_run_counts() -> None:
    noisy = [300.0 + 30 * (number % 4) for number in range(16)]
    steady = [300.0] * 16
    assert compared(fleet(steady), fleet(with_one(250.0, steady))).slower
    assert not compared(fleet(noisy), fleet(with_one(250.0, steady))).slower


@pytest.mark.parametrize("bad", range(1, 17))
def test_however_many_pairs_lose_half_it_is_worse(bad: int) -> None:
    """Neither exactly half of them, nor thirds of three speeds, pass for noise."""
    values = [value / 2 if at < bad else value for at, value in enumerate(STEADY)]
    assert compared(fleet(STEADY), fleet(values)).exit_code == 1
    thirds = [value / (1, 1.15, 2)[at % 3] for at, value in enumerate(STEADY)]
    assert compared(fleet(STEADY), fleet(thirds)).exit_code == 1


OTHERS = [(f"n{at}/mlx5_0", f"n{at + step}/mlx5_0") for at in range(1, 21) for step in (7, 9)]
RATES = ([300.0 + 3 * (at % 4) for at in range(40)], [300.0 + 3 * (at * 7 % 5) for at in range(40)])
OUT = ([300.0 + 3 * (at % 4) for at in range(8)], [300.0 + 3 * (at // 2) for at in range(8)])


def hub(which: int, out: float = 1, back: float = 1, others: float = 1) -> Made:
    """n0 with eight partners, both ways, and forty pairs of others, in one of two runs that
    differ by chance; by how much each is slower than that.
    """
    partners = [f"n{at + 1}/mlx5_0" for at in range(8)]
    told = [
        *((("n0/mlx5_0", end), rate / out) for end, rate in zip(partners, OUT[which], strict=True)),
        *(
            (((end, "n0/mlx5_0")), rate / back)
            for end, rate in zip(partners, OUT[which], strict=True)
        ),
        *((ends, rate / others) for ends, rate in zip(OTHERS, RATES[which], strict=True)),
    ]
    return Made(
        nodes=NODES, pairs=[Pair(*ends, numbers={"gbps_65536": rate}) for ends, rate in told]
    )


@pytest.mark.parametrize(
    ("out", "back", "role", "pairs"), [(1.07, 1.07, "both", 16), (1.07, 1, "source", 8)]
)
def test_an_end_that_lost_with_most_partners_is_named_though_no_pair_is_beyond_the_noise(
    out: float, back: float, role: str, pairs: int
) -> None:
    assert compared(hub(0), hub(1)).exit_code == 0
    found = compared(hub(0), hub(1, out, back))
    (end,) = found.slower_ends
    assert (end.place, end.role, end.pairs) == ("n0/mlx5_0", role, pairs)
    assert (found.slower, found.reasons) == ((), ("1 end slower with most partners",))
    assert "slower with most partners (1):\n  n0/mlx5_0" in "\n".join(lines(found))


def test_what_all_lose_is_told_of_no_end_and_an_end_that_lost_more_is_named() -> None:
    assert compared(hub(0), hub(1, 1.2, 1.2, 1.2)).slower_ends == ()
    assert [one.place for one in compared(hub(0), hub(1, 1.3, 1.3, 1.2)).slower_ends] == [
        "n0/mlx5_0"
    ]


def test_pairs_of_an_end_that_is_told_are_one_line() -> None:
    found = compared(hub(0), hub(1, 2, 2))
    assert len(found.slower) == 16
    assert "\n  16 of the ends that are slower with most partners" in "\n".join(lines(found))
    assert sum("n0/mlx5_0" in line for line in lines(found)) == 1
    assert sum("n0/mlx5_0" in line for line in lines(found, None)) == 17


def test_a_small_loss_is_none_however_steady_the_runs_are() -> None:
    assert compared(fleet([400.0] * 16), fleet(with_one(390.0, [400.0] * 16))).exit_code == 0


def test_what_all_lose_is_told_as_a_whole_and_not_once_for_each() -> None:
    noisy = [300.0 + 10 * (number % 4) for number in range(16)]
    found = compared(fleet(noisy), fleet([value / 1.1 for value in noisy]))
    (kind,) = found.slower_kinds
    assert (kind.check, kind.pairs) == ("bandwidth", 16)
    assert kind.slower_share == pytest.approx(0.1, abs=1e-3)
    assert found.slower_ends == ()
    assert found.slower == ()
    assert found.exit_code == 1
    assert "10.0% slower in the middle of 16" in "\n".join(lines(found))


def test_faster_is_not_slower() -> None:
    assert compared(fleet(STEADY), fleet([2 * value for value in STEADY])).exit_code == 0


def test_of_times_more_is_slower() -> None:
    times = [3.0] * 16
    found = compared(fleet(times, "p50_us"), fleet(with_one(4.5, times), "p50_us"))
    assert [one.slower_share for one in found.slower] == [0.5]
    assert not compared(fleet(times, "p50_us"), fleet(with_one(2.0, times), "p50_us")).slower


@pytest.mark.parametrize("number", ["p99_us", "max_us", "min_us", "expected_gbps"])
def test_tails_and_expectations_are_not_judged(number: str) -> None:
    found = compared(fleet([3.0] * 16, number), fleet(with_one(300.0, [3.0] * 16), number))
    assert (found.numbers, found.exit_code) == (0, 0)


def test_of_few_pairs_only_a_large_loss_counts() -> None:
    assert compared(fleet([400.0, 400.0]), fleet([330.0, 400.0])).exit_code == 0
    found = compared(fleet([400.0, 400.0]), fleet([300.0, 400.0]))
    assert [one.noise_share for one in found.slower] == [None]
    assert "noise unknown" in "\n".join(lines(found))


def test_pairs_of_other_profiles_are_another_kind() -> None:
    """Twenty nodes of 400 Gb/s and twenty of 200: neither is the noise of the other."""
    values = [400.0] * 20 + [200.0] * 20
    profiles = {f"n{number}": "slow" for number in range(20, 41)}
    slow = with_one(340.0, values)
    assert compared(fleet(values, profiles=profiles), fleet(slow, profiles=profiles)).slower


def test_numbers_that_one_run_has_not_are_not_compared() -> None:
    assert compared(fleet(STEADY), fleet([None] * 16)).numbers == 0


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_what_no_rate_can_be_is_no_number_and_that_is_said(value: float) -> None:
    assert compared(fleet([value] * 16), fleet(STEADY)).numbers == 0
    found = compared(fleet(STEADY), fleet(with_one(value)))
    assert (found.numbers, found.numbers_gone) == (15, 1)
    assert "1 number of OLD not in NEW" in "\n".join(lines(found))


def test_speeds_of_software_are_not_compared_and_that_is_said() -> None:
    found = compared(fleet(STEADY, software_rdma=True), fleet([1.0] * 16, software_rdma=True))
    assert (found.numbers, found.exit_code) == (0, 0)
    assert any("speeds are not compared" in note for note in found.notes)


def test_a_renamed_device_keeps_its_numbers() -> None:
    def named(nic: str, values: Sequence[float]) -> Made:
        made = fleet(values, devices={"n0": {nic: "0000:1a:00.0"}})
        return made.but(
            pairs=[
                Pair(one.source.replace("n0/mlx5_0", f"n0/{nic}"), one.sink, numbers=one.numbers)
                for one in made.pairs
            ]
        )

    (slower,) = compared(named("mlx5_0", STEADY), named("mlx5_9", with_one(200.0))).slower
    assert slower.case == "bandwidth[n0/mlx5_9 -> n1/mlx5_0, gpu-gpu, WRITE]"
    assert slower.old_case == "bandwidth[n0/mlx5_0 -> n1/mlx5_0, gpu-gpu, WRITE]"


def chance(
    rng: random.Random, scatter: float, slow: frozenset[int] = frozenset(), count: int = 40
) -> Made:
    """Pairs that differ from each other by 3 % in each run, and in each of their numbers by
    ``scatter`` of that run.
    """
    return Made(
        nodes=NODES,
        pairs=[
            Pair(
                f"n{at}/mlx5_0",
                f"n{at + 1}/mlx5_0",
                numbers={
                    f"gbps_{size}": 400
                    * (1 + 0.03 * (at % 5))
                    * rng.gauss(1, scatter)
                    * (0.9 if at in slow else 1)
                    for size in range(4)
                },
            )
            for at in range(count)
        ],
    )


@pytest.mark.parametrize(("scatter", "count"), [(0.004, 40), (0.01, 40), (0.03, 40), (0.02, 16)])
def test_two_hundred_pairs_of_runs_of_the_same_hardware_are_no_worse(
    scatter: float, count: int
) -> None:
    rng = random.Random(1)
    runs = [chance(rng, scatter, count=count) for _ in range(400)]
    alarms = sum(compared(*both).worse for both in zip(runs[::2], runs[1::2], strict=True))
    assert alarms == 0


def test_a_tenth_that_one_pair_lost_is_found_where_runs_are_steady() -> None:
    rng = random.Random(1)
    for _ in range(50):
        found = compared(chance(rng, 0.004), chance(rng, 0.004, frozenset({7})))
        assert [one.case[:20] for one in found.slower] == ["bandwidth[n7/mlx5_0 "] * 4


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=16))
def test_no_number_is_slower_than_itself(values: list[float]) -> None:
    assert compared(fleet(values), fleet(values)).exit_code == 0


@given(
    st.lists(st.floats(0.96, 1.0), min_size=8, max_size=32),
    st.lists(st.floats(0.96, 1.0), min_size=8, max_size=32),
)
def test_what_stays_within_the_floor_is_never_slower(one: list[float], other: list[float]) -> None:
    count = min(len(one), len(other))
    found = compared(
        fleet([400 * share for share in one[:count]]),
        fleet([400 * share for share in other[:count]]),
    )
    assert found.exit_code == 0


@given(
    st.lists(st.floats(0.99, 1.01), min_size=16, max_size=16),
    st.integers(0, 15),
    st.floats(1.5, 10),
)
def test_a_pair_that_lost_a_third_among_steady_ones_is_always_found(
    shares: list[float], at: int, factor: float
) -> None:
    values = [400 * share for share in shares]
    slow: Mapping[int, float] = {at: values[at] / factor}
    found = compared(
        fleet(values), fleet([slow.get(number, value) for number, value in enumerate(values)])
    )
    assert len(found.slower) == 1
