"""Rails: which device serves which rail, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrcheck import probes
from gdrcheck.profile import Profile
from gdrcheck.rails import resolve
from tests.probes import trees


def profile(count: int, *selectors: dict[str, str]) -> Profile:
    return Profile.model_validate({"rails": {"count": count, "nics": list(selectors)}})


def names(rails: tuple[object, ...]) -> list[str]:
    return [rail.nic for rail in rails]  # type: ignore[attr-defined]


def test_rails_follow_the_pci_order_not_the_device_numbers(tmp_path: Path) -> None:
    trees.pci_nic(tmp_path, "mlx5_0", "0000:9a:00.0", "eth9")
    trees.pci_nic(tmp_path, "mlx5_1", "0000:19:00.0", "eth1")
    rails = resolve(profile(2, {"name": "mlx5_*"}), probes.collect("a", tmp_path))
    assert names(rails) == ["mlx5_1", "mlx5_0"]
    assert [rail.id for rail in rails] == [0, 1]


def test_a_promised_device_that_is_absent_is_a_missing_rail_under_its_name(tmp_path: Path) -> None:
    trees.software_nic(tmp_path, "rxe0", "data0", "0000:81:00.0")
    rails = resolve(profile(2, {"name": "rxe0"}, {"name": "rxe1"}), probes.collect("a", tmp_path))
    assert names(rails) == ["rxe0", "rxe1"]
    assert rails[0].missing is None
    assert rails[1].missing is not None


def test_a_pattern_that_finds_too_few_gives_numbered_rails(tmp_path: Path) -> None:
    trees.pci_nic(tmp_path, "mlx5_0", "0000:19:00.0", "eth1")
    rails = resolve(profile(2, {"netdev": "eth*"}), probes.collect("a", tmp_path))
    assert names(rails) == ["mlx5_0", "rail1"]


def test_devices_that_no_selector_matches_are_not_ours(tmp_path: Path) -> None:
    trees.pci_nic(tmp_path, "mlx5_0", "0000:19:00.0", "eth1")
    trees.pci_nic(tmp_path, "mlx5_1", "0000:1a:00.0", "storage0")
    rails = resolve(profile(1, {"slot": "0000:19:00.0"}), probes.collect("a", tmp_path))
    assert names(rails) == ["mlx5_0"]


def test_a_profile_without_rails_has_none(tmp_path: Path) -> None:
    assert resolve(Profile(), probes.collect("a", tmp_path)) == ()


def nics(root: Path, *numbers: int) -> None:
    for number in numbers:
        trees.pci_nic(root, f"mlx5_{number}", f"0000:1{number}:00.0", f"eth{number}")


THREE = [{"name": f"mlx5_{number}"} for number in range(3)]


@pytest.mark.parametrize("dead", range(3))
def test_a_device_that_is_missing_does_not_move_the_others(tmp_path: Path, dead: int) -> None:
    nics(tmp_path, *(number for number in range(3) if number != dead))
    rails = resolve(profile(3, *THREE), probes.collect("a", tmp_path))
    assert names(rails) == ["mlx5_0", "mlx5_1", "mlx5_2"]
    assert [rail.id for rail in rails if rail.missing] == [dead]
    assert [rail.id for rail in rails if rail.device is None] == [dead]


def test_devices_named_one_by_one_are_rails_in_that_order(tmp_path: Path) -> None:
    nics(tmp_path, 1, 2)
    selectors = ({"slot": "0000:12:00.0"}, {"netdev": "eth1"})
    rails = resolve(profile(2, *selectors), probes.collect("a", tmp_path))
    assert names(rails) == ["mlx5_2", "mlx5_1"]


def test_a_device_serves_one_rail_only(tmp_path: Path) -> None:
    nics(tmp_path, 1)
    selectors = ({"name": "mlx5_1"}, {"netdev": "eth1"})
    rails = resolve(profile(2, *selectors), probes.collect("a", tmp_path))
    assert [rail.missing is None for rail in rails] == [True, False]


def test_pci_domains_are_numbers(tmp_path: Path) -> None:
    trees.pci_nic(tmp_path, "mlx5_0", "10000:01:00.0", "eth0")
    trees.pci_nic(tmp_path, "mlx5_1", "2000:01:00.0", "eth1")
    rails = resolve(profile(2, {"name": "mlx5_*"}), probes.collect("a", tmp_path))
    assert names(rails) == ["mlx5_1", "mlx5_0"]


def test_a_rail_has_the_port_of_the_selector_that_found_it(tmp_path: Path) -> None:
    nics(tmp_path, 0, 1)
    selectors = ({"name": "mlx5_0", "port": 2}, {"name": "mlx5_1"})
    facts = probes.collect("a", tmp_path)
    for order in (selectors, selectors[::-1]):
        rails = resolve(profile(2, *order), facts)
        assert {rail.nic: (rail.port, rail.named_port) for rail in rails} == {
            "mlx5_0": (2, 2),
            "mlx5_1": (1, None),
        }
