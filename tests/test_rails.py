"""Rails: which device serves which rail, and what is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.facts import DEVICE_NAME_PATTERN, Facts, Unreadable
from gdrcheck.profile import Profile
from gdrcheck.rails import resolve, told_apart
from tests import facts as builders


def profile(count: int, *selectors: Mapping[str, object]) -> Profile:
    return Profile.model_validate(
        {"rails": {"count": count, "nics": [dict(one) for one in selectors]}}
    )


def machine(*nics: tuple[str, str, str]) -> Facts:
    """A node with these NICs: name, slot and netdev each."""
    devices = tuple(
        builders.rdma_device(name, slot=slot, netdevs=(builders.netdev(netdev),))
        for name, slot, netdev in nics
    )
    return builders.facts(rdma_devices=devices)


def nics(*numbers: int) -> Facts:
    return machine(
        *((f"mlx5_{number}", f"0000:1{number}:00.0", f"eth{number}") for number in numbers)
    )


THREE = [{"name": f"mlx5_{number}"} for number in range(3)]


def names(rails: tuple[object, ...]) -> list[str]:
    return [rail.nic for rail in rails]  # type: ignore[attr-defined]


def test_rails_follow_the_pci_order_not_the_device_numbers() -> None:
    facts = machine(("mlx5_0", "0000:9a:00.0", "eth9"), ("mlx5_1", "0000:19:00.0", "eth1"))
    rails = resolve(profile(2, {"name": "mlx5_*"}), facts)
    assert names(rails) == ["mlx5_1", "mlx5_0"]
    assert [rail.id for rail in rails] == [0, 1]


def test_a_promised_device_that_is_absent_is_a_missing_rail_under_its_name() -> None:
    facts = machine(("rxe0", "0000:81:00.0", "data0"))
    rails = resolve(profile(2, {"name": "rxe0"}, {"name": "rxe1"}), facts)
    assert names(rails) == ["rxe0", "rxe1"]
    assert rails[0].missing is None
    assert rails[1].missing is not None


@pytest.mark.parametrize("there", [0, 1, 2, 4])
def test_with_more_or_fewer_devices_than_rails_no_rail_is_any_of_them(there: int) -> None:
    """What a pattern finds in PCI order is on other rails when one is gone from the middle."""
    promised, facts = profile(3, {"netdev": "eth*"}), nics(*range(there))
    rails = resolve(promised, facts)
    assert names(rails) == ["rail0", "rail1", "rail2"]
    assert all(rail.device is None and rail.missing for rail in rails)
    assert not told_apart(promised, facts)


def test_with_as_many_devices_as_rails_the_pattern_tells_which_is_which() -> None:
    promised = profile(3, {"netdev": "eth*"})
    assert told_apart(promised, nics(0, 1, 2))
    assert names(resolve(promised, nics(0, 1, 2))) == ["mlx5_0", "mlx5_1", "mlx5_2"]


def test_devices_that_are_named_one_by_one_are_told_apart_whatever_is_missing() -> None:
    assert told_apart(profile(3, *THREE), nics(1))


def test_an_unreadable_list_of_devices_tells_nothing() -> None:
    facts = builders.facts(rdma_devices=Unreadable(unreadable="denied"))
    for selectors in (THREE, [{"name": "mlx5_*"}]):
        assert not told_apart(profile(3, *selectors), facts)
        assert all(
            "denied" in (rail.missing or "") for rail in resolve(profile(3, *selectors), facts)
        )


def test_devices_that_no_selector_matches_are_not_ours() -> None:
    facts = machine(("mlx5_0", "0000:19:00.0", "eth1"), ("mlx5_1", "0000:1a:00.0", "storage0"))
    rails = resolve(profile(1, {"slot": "0000:19:00.0"}), facts)
    assert names(rails) == ["mlx5_0"]


def test_a_profile_without_rails_has_none() -> None:
    assert resolve(Profile(), builders.facts()) == ()


@pytest.mark.parametrize("dead", range(3))
def test_a_device_that_is_missing_does_not_move_the_others(dead: int) -> None:
    facts = nics(*(number for number in range(3) if number != dead))
    rails = resolve(profile(3, *THREE), facts)
    assert names(rails) == ["mlx5_0", "mlx5_1", "mlx5_2"]
    assert [rail.id for rail in rails if rail.missing] == [dead]
    assert [rail.id for rail in rails if rail.device is None] == [dead]


def test_devices_named_one_by_one_are_rails_in_that_order() -> None:
    selectors = ({"slot": "0000:12:00.0"}, {"netdev": "eth1"})
    rails = resolve(profile(2, *selectors), nics(1, 2))
    assert names(rails) == ["mlx5_2", "mlx5_1"]


def test_a_device_serves_one_rail_only() -> None:
    selectors = ({"name": "mlx5_1"}, {"netdev": "eth1"})
    rails = resolve(profile(2, *selectors), nics(1))
    assert [rail.missing is None for rail in rails] == [True, False]


def test_two_selectors_of_one_device_leave_a_rail_missing_at_a_place_of_its_own() -> None:
    selectors = ({"slot": "0000:10:00.0"}, {"name": "mlx5_0", "port": 2})
    rails = resolve(profile(2, *selectors), nics(0))
    assert names(rails) == ["mlx5_0", "rail1"]
    assert rails[1].missing == (
        "no RDMA device for rail 1: name mlx5_0 is mlx5_0, which serves another rail"
    )


SELECTORS = st.sampled_from(
    [
        *({"name": name} for name in ("rail0", "rail1", "rail2", "rail1_", "mlx5_0")),
        *({"slot": f"0000:1{number}:00.0"} for number in range(4)),
        *({"netdev": f"eth{number}"} for number in range(4)),
    ]
)


@given(st.lists(SELECTORS, min_size=1, max_size=6, unique_by=str))
def test_no_two_rails_have_the_same_place(selectors: list[dict[str, str]]) -> None:
    facts = machine(("rail1", "0000:11:00.0", "eth0"), ("mlx5_0", "0000:12:00.0", "eth1"))
    rails = resolve(profile(len(selectors), *selectors), facts)
    assert len(set(names(rails))) == len(selectors)
    assert all(re.fullmatch(DEVICE_NAME_PATTERN, name) for name in names(rails))


SOFTWARE = builders.rdma_device(
    "rxe0", slot="0000:11:00.0", netdevs=(builders.netdev("eth1"),), software=True
)


@pytest.mark.parametrize(
    "selector",
    [{"slot": "0000:11:00.0"}, {"netdev": "eth1"}, {"slot": "0000:*"}, {"netdev": "eth*"}],
)
def test_a_software_device_never_takes_the_place_of_the_nic_below_it(
    selector: dict[str, str],
) -> None:
    """The NIC has lost its RDMA device, and Soft-RoCE sits on its interface."""
    (rail,) = resolve(profile(1, selector), builders.facts(rdma_devices=(SOFTWARE,)))
    assert rail.device is None


@pytest.mark.parametrize("name", ["rxe0", "rxe*"])
def test_a_software_device_is_selected_by_its_name(name: str) -> None:
    (rail,) = resolve(profile(1, {"name": name}), builders.facts(rdma_devices=(SOFTWARE,)))
    assert (rail.nic, rail.missing) == ("rxe0", None)


def test_pci_domains_are_numbers() -> None:
    facts = machine(("mlx5_0", "10000:01:00.0", "eth0"), ("mlx5_1", "2000:01:00.0", "eth1"))
    rails = resolve(profile(2, {"name": "mlx5_*"}), facts)
    assert names(rails) == ["mlx5_1", "mlx5_0"]


def test_a_rail_has_the_port_of_the_selector_that_found_it() -> None:
    selectors = ({"name": "mlx5_0", "port": 2}, {"name": "mlx5_1"})
    facts = nics(0, 1)
    for order in (selectors, selectors[::-1]):
        rails = resolve(profile(2, *order), facts)
        assert {rail.nic: (rail.port, rail.named_port) for rail in rails} == {
            "mlx5_0": (2, 2),
            "mlx5_1": (1, None),
        }
