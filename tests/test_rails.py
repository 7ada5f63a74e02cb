"""Rails: which device serves which rail, and what is missing."""

from __future__ import annotations

import pytest

from gdrcheck.facts import Facts
from gdrcheck.profile import Profile
from gdrcheck.rails import resolve
from tests import facts as builders


def profile(count: int, *selectors: dict[str, str]) -> Profile:
    return Profile.model_validate({"rails": {"count": count, "nics": list(selectors)}})


def machine(*nics: tuple[str, str, str]) -> Facts:
    """A node with these NICs: name, slot and netdev each."""
    devices = tuple(
        builders.rdma_device(name, slot=slot, netdevs=(builders.netdev(netdev),))
        for name, slot, netdev in nics
    )
    return builders.facts(rdma_devices=devices)


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


def test_a_pattern_that_finds_too_few_gives_numbered_rails() -> None:
    facts = machine(("mlx5_0", "0000:19:00.0", "eth1"))
    rails = resolve(profile(2, {"netdev": "eth*"}), facts)
    assert names(rails) == ["mlx5_0", "rail1"]


def test_devices_that_no_selector_matches_are_not_ours() -> None:
    facts = machine(("mlx5_0", "0000:19:00.0", "eth1"), ("mlx5_1", "0000:1a:00.0", "storage0"))
    rails = resolve(profile(1, {"slot": "0000:19:00.0"}), facts)
    assert names(rails) == ["mlx5_0"]


def test_a_profile_without_rails_has_none() -> None:
    assert resolve(Profile(), builders.facts()) == ()


def nics(*numbers: int) -> Facts:
    return machine(
        *((f"mlx5_{number}", f"0000:1{number}:00.0", f"eth{number}") for number in numbers)
    )


THREE = [{"name": f"mlx5_{number}"} for number in range(3)]


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
