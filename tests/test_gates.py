"""Gates: each level's own finding, and the same finding as the block of what stands on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrcheck import gates, probes
from gdrcheck.facts import Facts, Unreadable
from gdrcheck.outcome import Blocked, CheckFailure, ProbeError
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
