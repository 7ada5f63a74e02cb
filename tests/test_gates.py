"""Gates: each level's own finding, and the same finding as the block of what stands on it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gdrcheck import gates, probes
from gdrcheck.facts import Facts, Unreadable
from gdrcheck.outcome import Blocked, CheckFailure, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail, resolve
from tests.probes import trees

TWO = Profile.model_validate(
    {"rails": {"count": 2, "nics": [{"name": "mlx5_0"}, {"name": "mlx5_1"}]}}
)


def tree(root: Path, **changes: str) -> tuple[Facts, tuple[Rail, ...]]:
    trees.pci_nic(root, "mlx5_0", "0000:19:00.0", "eth1", **changes)
    facts = probes.collect("a", root)
    return facts, resolve(TWO, facts)


def test_a_present_active_device_passes_every_gate(tmp_path: Path) -> None:
    facts, rails = tree(tmp_path)
    assert gates.device_missing(rails[0], facts) is None
    assert gates.port_not_active(rails[0]) is None
    gates.require_active_port(rails[0], facts)


def test_a_missing_device_is_one_finding_and_blocks_by_its_code(tmp_path: Path) -> None:
    facts, rails = tree(tmp_path)
    finding = gates.device_missing(rails[1], facts)
    assert finding is not None
    assert (finding.code, finding.where.text()) == ("PORT-DEVICE-MISSING", "a/mlx5_1")
    assert "mlx5_0" in finding.observed
    with pytest.raises(Blocked, match=r"PORT-DEVICE-MISSING at a/mlx5_1"):
        gates.require_active_port(rails[1], facts)


def test_a_port_that_is_down_blocks_what_needs_it(tmp_path: Path) -> None:
    facts, rails = tree(tmp_path, state="1: DOWN\n", phys_state="3: Disabled\n")
    finding = gates.port_not_active(rails[0])
    assert finding is not None
    assert (finding.code, finding.observed) == ("PORT-NOT-ACTIVE", "state DOWN")
    assert finding.evidence["physical state"] == "Disabled"
    with pytest.raises(Blocked, match=r"PORT-NOT-ACTIVE at a/mlx5_0"):
        gates.require_active_port(rails[0], facts)


def test_an_unreadable_port_is_an_error_not_a_finding(tmp_path: Path) -> None:
    _, rails = tree(tmp_path, state="")
    with pytest.raises(ProbeError, match="port state is unreadable"):
        gates.port_not_active(rails[0])


def test_an_unreadable_list_of_devices_does_not_make_devices_missing(tmp_path: Path) -> None:
    facts, rails = tree(tmp_path)
    blind = facts.model_copy(update={"rdma_devices": Unreadable(unreadable="denied")})
    with pytest.raises(ProbeError, match="denied"):
        gates.device_missing(rails[1], blind)


def test_a_profile_without_rails_says_nothing_about_extra_devices(tmp_path: Path) -> None:
    facts, _ = tree(tmp_path)
    with pytest.raises(NotPromised):
        gates.devices_extra(Profile(), facts)


def test_more_devices_than_rails_is_a_finding(tmp_path: Path) -> None:
    trees.pci_nic(tmp_path, "mlx5_0", "0000:19:00.0", "eth1")
    trees.pci_nic(tmp_path, "mlx5_1", "0000:1a:00.0", "eth2")
    facts = probes.collect("a", tmp_path)
    one = Profile.model_validate({"rails": {"count": 1, "nics": [{"name": "mlx5_*"}]}})
    finding = gates.devices_extra(one, facts)
    assert finding is not None
    assert finding.code == "PORT-DEVICE-EXTRA"
    assert gates.devices_extra(TWO, facts) is None
    with pytest.raises(CheckFailure):
        gates.fail(finding)


def test_an_unreadable_list_of_devices_does_not_prove_that_none_is_extra(tmp_path: Path) -> None:
    facts, _ = tree(tmp_path)
    blind = facts.model_copy(update={"rdma_devices": Unreadable(unreadable="denied")})
    with pytest.raises(ProbeError, match="denied"):
        gates.devices_extra(TWO, blind)


def two_ports(root: Path, first: str, second: str, port: int | None) -> Rail:
    """The rail on a device with two ports in these states; the profile names ``port``."""
    trees.pci_nic(root, "mlx4_0", "0000:19:00.0", "eth1", state=first)
    ports = root / "sys/class/infiniband/mlx4_0/ports"
    shutil.copytree(ports / "1", ports / "2")
    (ports / "2/state").write_text(second)
    nic = {"name": "mlx4_0"} | ({} if port is None else {"port": port})
    promised = Profile.model_validate({"rails": {"count": 1, "nics": [nic]}})
    return resolve(promised, probes.collect("a", root))[0]


@pytest.mark.parametrize(
    ("first", "second", "port", "number", "active"),
    [
        ("4: ACTIVE", "1: DOWN", None, 1, True),
        ("1: DOWN", "1: DOWN", None, 1, False),
        ("4: ACTIVE", "4: ACTIVE", 1, 1, True),
        ("4: ACTIVE", "1: DOWN", 2, 2, False),
        ("1: DOWN", "4: ACTIVE", 2, 2, True),
    ],
)
def test_the_port_that_the_profile_means_is_judged(
    tmp_path: Path, first: str, second: str, port: int | None, number: int, active: bool
) -> None:
    rail = two_ports(tmp_path, first, second, port)
    assert gates.port_of(rail).number == number
    assert (gates.port_not_active(rail) is None) is active


@pytest.mark.parametrize("first", ["4: ACTIVE", "1: DOWN"])
def test_which_of_several_ports_must_be_said_when_another_is_active(
    tmp_path: Path, first: str
) -> None:
    with pytest.raises(ProbeError, match=r"port 2 is active .* rails\.nics"):
        gates.port_not_active(two_ports(tmp_path, first, "4: ACTIVE", None))


def test_a_port_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="no port 3"):
        gates.port_not_active(two_ports(tmp_path, "4: ACTIVE", "1: DOWN", 3))
