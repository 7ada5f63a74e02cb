"""Gates: each level's own finding, and the same finding as the block of what stands on it."""

from __future__ import annotations

import pytest

from gdrcheck import gates
from gdrcheck.facts import Facts, Unreadable
from gdrcheck.findings.model import Where
from gdrcheck.outcome import Blocked, CheckFailure, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail, resolve
from tests import facts as builders

TWO = Profile.model_validate(
    {"rails": {"count": 2, "nics": [{"name": "mlx5_0"}, {"name": "mlx5_1"}]}}
)


def node(**changes: object) -> tuple[Facts, tuple[Rail, ...]]:
    """A node with mlx5_0, ``changes`` made to its port; and the rails of TWO."""
    device = builders.rdma_device(ports=(builders.port(**changes),))
    facts = builders.facts(node="a", rdma_devices=(device,))
    return facts, resolve(TWO, facts)


def test_a_present_active_device_passes_every_gate() -> None:
    facts, rails = node()
    assert gates.port_not_active(rails[0]) is None
    gates.require_active_port(rails[0])
    assert gates.rdma_devices(facts) == facts.rdma_devices
    assert gates.pci_tree(facts) == facts.pci
    gates.pci_listed(TWO, facts)


def test_a_port_that_is_down_blocks_what_needs_it() -> None:
    _, rails = node(state="DOWN", physical_state="Disabled")
    finding = gates.port_not_active(rails[0])
    assert finding is not None
    assert (finding.code, finding.observed) == ("PORT-NOT-ACTIVE", "state DOWN")
    assert finding.evidence["physical state"] == "Disabled"
    with pytest.raises(Blocked, match=r"PORT-NOT-ACTIVE at a/mlx5_0"):
        gates.require_active_port(rails[0])


WAITING = {"state": "INIT", "physical_state": "LinkUp", "link_layer": "infiniband", "sm_lid": 0}


def test_an_infiniband_port_with_a_link_waits_for_a_subnet_manager() -> None:
    _, rails = node(**WAITING)
    finding = gates.port_not_active(rails[0])
    assert finding is not None
    assert finding.code == "PORT-NO-SUBNET-MANAGER"
    with pytest.raises(Blocked, match=r"PORT-NO-SUBNET-MANAGER at a/mlx5_0"):
        gates.require_active_port(rails[0])


@pytest.mark.parametrize(
    "change",
    [
        {"state": "DOWN"},
        {"state": "ARMED"},
        {"physical_state": "Polling"},
        {"sm_lid": 1},
        {"sm_lid": Unreadable(unreadable="sm_lid: empty")},
        {"link_layer": "ethernet"},
    ],
)
def test_any_other_port_that_is_not_active_is_not_the_subnet_managers_fault(
    change: dict[str, object],
) -> None:
    _, rails = node(**(WAITING | change))
    finding = gates.port_not_active(rails[0])
    assert finding is not None
    assert finding.code == "PORT-NOT-ACTIVE"


def test_an_unreadable_port_is_an_error_not_a_finding() -> None:
    _, rails = node(state=Unreadable(unreadable="state: empty"))
    with pytest.raises(ProbeError, match="port state is unreadable"):
        gates.port_not_active(rails[0])


def test_a_port_that_is_unreadable_blocks_by_the_check_that_owns_the_error() -> None:
    _, rails = node(state=Unreadable(unreadable="state: empty"))
    with pytest.raises(Blocked, match=r"by error in port_active\[a/mlx5_0\]$"):
        gates.require_active_port(rails[0])


def test_what_is_unreadable_as_a_whole_is_the_error_of_one_check() -> None:
    facts, _ = node()
    denied = Unreadable(unreadable="denied")
    blind = facts.model_copy(update={"rdma_devices": denied, "pci": denied})
    with pytest.raises(Blocked, match=r"by error in no_extra_device\[a\]$"):
        gates.rdma_devices(blind)
    with pytest.raises(Blocked, match=r"by error in pci_listed\[a\]$"):
        gates.pci_tree(blind)
    with pytest.raises(ProbeError, match="denied"):
        gates.pci_listed(TWO, blind)
    with pytest.raises(NotPromised):
        gates.pci_listed(Profile(), blind)


def test_a_port_that_went_down_after_the_facts_were_read() -> None:
    where = Where(node="a", nic="mlx5_0")
    assert gates.port_went_down(where, "ACTIVE") is None
    finding = gates.port_went_down(where, "DOWN")
    assert finding is not None
    assert (finding.code, finding.where) == ("PORT-NOT-ACTIVE", where)
    assert "DOWN" in finding.observed


def test_a_profile_without_rails_says_nothing_about_extra_devices() -> None:
    facts, _ = node()
    with pytest.raises(NotPromised):
        gates.devices_extra(Profile(), facts)


def test_more_devices_than_rails_is_a_finding() -> None:
    devices = (builders.rdma_device("mlx5_0"), builders.rdma_device("mlx5_1"))
    facts = builders.facts(node="a", rdma_devices=devices)
    one = Profile.model_validate({"rails": {"count": 1, "nics": [{"name": "mlx5_*"}]}})
    finding = gates.devices_extra(one, facts)
    assert finding is not None
    assert finding.code == "PORT-DEVICE-EXTRA"
    assert gates.devices_extra(TWO, facts) is None
    with pytest.raises(CheckFailure):
        gates.fail(finding)


def test_an_unreadable_list_of_devices_does_not_prove_that_none_is_extra() -> None:
    facts, _ = node()
    blind = facts.model_copy(update={"rdma_devices": Unreadable(unreadable="denied")})
    with pytest.raises(ProbeError, match="denied"):
        gates.devices_extra(TWO, blind)


def two_ports(first: str, second: str, port: int | None) -> Rail:
    """The rail on a device with two ports in these states; the profile names ``port``."""
    ports = (builders.port(state=first), builders.port(number=2, state=second))
    facts = builders.facts(rdma_devices=(builders.rdma_device("mlx4_0", ports=ports),))
    nic = {"name": "mlx4_0"} | ({} if port is None else {"port": port})
    return resolve(Profile.model_validate({"rails": {"count": 1, "nics": [nic]}}), facts)[0]


@pytest.mark.parametrize(
    ("first", "second", "port", "number", "active"),
    [
        ("ACTIVE", "DOWN", None, 1, True),
        ("DOWN", "DOWN", None, 1, False),
        ("ACTIVE", "ACTIVE", 1, 1, True),
        ("ACTIVE", "DOWN", 2, 2, False),
        ("DOWN", "ACTIVE", 2, 2, True),
    ],
)
def test_the_port_that_the_profile_means_is_judged(
    first: str, second: str, port: int | None, number: int, active: bool
) -> None:
    rail = two_ports(first, second, port)
    assert gates.port_of(rail).number == number
    assert (gates.port_not_active(rail) is None) is active


@pytest.mark.parametrize("first", ["ACTIVE", "DOWN"])
def test_which_of_several_ports_must_be_said_when_another_is_active(first: str) -> None:
    with pytest.raises(ProbeError, match=r"port 2 is active .* rails\.nics"):
        gates.port_not_active(two_ports(first, "ACTIVE", None))


def test_a_port_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ProbeError, match="no port 3"):
        gates.port_not_active(two_ports("ACTIVE", "DOWN", 3))


@pytest.mark.parametrize(("emulated", "told"), [(False, False), (True, True), (False, True)])
def test_an_emulated_driver_that_is_told_of_is_no_error(emulated: bool, told: bool) -> None:
    gates.require_emulation_told(emulated, builders.facts(emulated=told))


def test_an_emulated_driver_never_passes_for_a_real_one() -> None:
    with pytest.raises(ProbeError, match="emulated driver of the lab"):
        gates.require_emulation_told(True, builders.facts(emulated=False))
