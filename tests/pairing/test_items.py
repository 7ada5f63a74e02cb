"""What is owed of a rail, and how long a pair is planned to take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.pairing import plan
from gdrcheck.pairing.items import items, rail_has_gpu
from gdrcheck.pairing.messages import RailInfo
from gdrcheck.profile import Profile
from gdrcheck.transfer import ATOMICS, DIRECTIONS, MODES, OPERATIONS
from tests.pairing.support import run_of

NICS = [{"name": "mlx5_*"}]


def profile(gpus: int = 8, rails: int = 8, **changes: object) -> Profile:
    """A profile with GPUs, if any, and rails."""
    model = {"model": "NVIDIA H200"} if gpus else {}
    return Profile.model_validate(
        {"gpus": {"count": gpus, **model}, "rails": {"count": rails, "nics": NICS}, **changes}
    )


def pingpong(one: Profile, other: Profile, *, gpus: bool) -> list[tuple[str, str]]:
    """Mode and operation of each exchange that is owed."""
    owed = items(one, other, gpus=gpus)
    return [(item.mode, item.operation) for item in owed if item.check == "pingpong"]


def test_every_mode_and_operation_is_owed_and_must_be_proven() -> None:
    owed = pingpong(profile(), profile(), gpus=True)
    assert owed == [(mode, operation) for mode in MODES for operation in OPERATIONS]
    proofs = [item for item in items(profile(), profile(), gpus=True) if item.proof]
    assert {item.check for item in proofs} == {"pingpong"}
    assert all(item.directions == DIRECTIONS for item in proofs)


def test_a_rail_without_gpus_owes_host_memory_alone() -> None:
    owed = items(profile(0), profile(0), gpus=False)
    assert {item.mode for item in owed} == {"host-host"}
    assert not any(item.uses_gpus for item in owed)


def test_atomics_are_owed_where_both_ends_promise_them() -> None:
    atomic = profile(transfers={"atomics": True})
    assert set(ATOMICS) <= {operation for _, operation in pingpong(atomic, atomic, gpus=True)}
    assert pingpong(atomic, profile(), gpus=True) == pingpong(profile(), profile(), gpus=True)
    assert plan.program_plan(atomic, atomic).operations == (*OPERATIONS, *ATOMICS)
    assert plan.program_plan(atomic, profile()).operations == OPERATIONS


def test_all_modes_are_timed_when_one_end_asks_for_them() -> None:
    default = items(profile(), profile(), gpus=True)
    every = items(profile(), profile(modes="all"), gpus=True)
    for check in ("latency", "bandwidth", "bandwidth_both_ways", "bandwidth_all_rails"):
        assert [one.mode for one in default if one.check == check] == ["host-host", "gpu-gpu"]
        assert [one.mode for one in every if one.check == check] == list(MODES)


def test_what_lies_beyond_2_gib_is_a_case_that_says_so_when_it_is_not_promised() -> None:
    near = profile(transfers={"beyond_2gib": False})
    for one, other, promised in ((profile(), profile(), True), (near, profile(), False)):
        (far,) = (item for item in items(one, other, gpus=True) if item.check == "pingpong_far")
        assert far.promised is promised


@given(st.booleans(), st.booleans(), st.booleans(), st.sampled_from(["default", "all"]))
def test_no_two_cases_of_a_rail_have_one_name(
    atomics: bool, far: bool, gpus: bool, modes: str
) -> None:
    one = profile(transfers={"atomics": atomics, "beyond_2gib": far}, modes=modes)
    owed = items(one, one, gpus=gpus)
    names = [(item.check, item.mode, item.operation) for item in owed]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("gpus", "rails", "rail", "has"),
    [
        (0, 1, {"gpu": "gpu0"}, False),
        (1, 1, {}, True),
        (1, 2, {}, False),
        (1, 2, {"gpu": "gpu0"}, True),
        (1, 2, {"gpu_blocked_by": "GPU-MISSING at node1/gpu0"}, True),
    ],
)
def test_which_rail_has_a_gpu(gpus: int, rails: int, rail: dict[str, str], has: bool) -> None:
    told = RailInfo.model_validate({"id": 0, "nic": "mlx5_0", **rail})
    assert rail_has_gpu(profile(gpus, rails), told) is has


def test_a_pair_of_eight_rails_is_planned_to_take_a_minute() -> None:
    assert 20 < plan.pair_s(profile(), profile(), 8, 8) <= 60


def test_more_rails_take_longer_and_none_no_time() -> None:
    one = profile()
    times = [plan.pair_s(one, one, rails, rails) for rails in range(9)]
    assert times[0] == 0
    assert times == sorted(set(times))
    assert plan.pair_s(one, one, 8, 0) < plan.pair_s(one, one, 8, 4) < times[8]


def test_rounds_add_up_and_pairs_of_one_round_do_not() -> None:
    one = plan.pair_s(profile(), profile(), 8, 8)
    for nodes, rounds, expected in ((2, 4, one), (4, 1, one), (4, "all", 3 * one)):
        run = run_of(nodes, profiles={"p": profile()}, rounds=rounds)
        assert plan.planned_s(run) == pytest.approx(expected)
    assert plan.planned_s(run_of(2, profiles={"p": profile(pairs="none")})) == 0


def test_every_case_has_a_planned_time() -> None:
    every = items(profile(modes="all"), profile(transfers={"atomics": True}), gpus=True)
    assert {item.check for item in every} == set(plan.SECONDS_OF_CASE)


def test_messages_in_flight_are_bounded_whatever_their_size() -> None:
    for size in plan.BANDWIDTH_SIZES_BYTES:
        asked = plan.bandwidth_plan("host-host", size)
        assert asked.depth * size <= 2 * max(plan.IN_FLIGHT_BYTES, size)
        assert asked.depth >= 2


@given(st.floats(min_value=1e-3, max_value=1e6))
def test_perftest_is_asked_for_a_number_of_messages_that_it_takes(gbps: float) -> None:
    asked = plan.perftest_bandwidth_plan(gbps)
    assert 5 <= asked.iterations <= plan.PERFTEST_MESSAGES


@given(st.sampled_from([256, 512, 1024, 2048, 4096]))
def test_messages_end_on_both_sides_of_the_path_mtu(path_mtu: int) -> None:
    sizes = plan.ProgramPlan().sizes(path_mtu)
    assert {path_mtu - 1, path_mtu + 1} <= set(sizes)
    assert list(sizes) == sorted(set(sizes))
    assert set(plan.SIZES_BYTES) <= set(sizes)
    assert plan.ProgramPlan(sizes_bytes=(9, 7), around_mtu=False).sizes(path_mtu) == (7, 9)


@pytest.mark.parametrize(
    ("half_us", "rounds"), [(None, 1000), (2.0, 1000), (500.0, 1000), (2500.0, 200), (1e6, 100)]
)
def test_slow_software_makes_fewer_rounds(half_us: float | None, rounds: int) -> None:
    assert plan.latency_rounds(half_us) == rounds
    assert plan.perftest_latency_plan(half_us).iterations == rounds
