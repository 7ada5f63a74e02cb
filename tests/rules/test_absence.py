"""Why a rail lacks its device: one finding for each cause, and it blocks all the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from gdrcheck.facts import Facts, PciFunction, PciTree, RdmaDevice, Unreadable
from gdrcheck.findings.model import Finding
from gdrcheck.outcome import Blocked, NotJudged, NotPromised
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail, resolve
from gdrcheck.rules import absence
from tests import facts as build

DENIED = Unreadable(unreadable="denied")
NAMED = {"name": "mlx5_0"}
PATTERN = {"name": "mlx5_*"}


def promised(*selectors: Mapping[str, object], count: int = 1) -> Profile:
    return build.profile(rails={"count": count, "nics": list(selectors or [NAMED])})


def idle(*functions: PciFunction) -> Facts:
    """No RDMA device, and these functions on the bus."""
    tree = PciTree(functions=functions, misplaced={})
    return build.facts(pci=tree, rdma_devices=())


def without_module(facts: Facts) -> Facts:
    modules = (build.module("ib_core", loaded=False), build.module("ib_uverbs"))
    return facts.model_copy(update={"host": build.host(modules=modules)})


Rule = Callable[[Rail, Profile, Facts], Finding | None]


def of_first(rule: Rule, facts: Facts, profile: Profile | None = None) -> Finding | None:
    profile = profile or promised()
    return rule(resolve(profile, facts)[0], profile, facts)


def unbound(facts: Facts, *selectors: Mapping[str, object]) -> Finding | None:
    return of_first(absence.driver_unbound, facts, promised(*selectors))


def finding(found: Finding | None) -> Finding:
    assert found is not None
    return found


def blocks(facts: Facts, profile: Profile | None = None) -> str:
    """What blocks a check that needs the device of the first rail."""
    profile = profile or promised()
    with pytest.raises(Blocked) as blocked:
        absence.device_of(resolve(profile, facts)[0], profile, facts)
    return blocked.value.by


# A rail whose device is named.


def test_a_device_that_is_there_is_not_missing() -> None:
    facts = without_module(build.facts())
    assert of_first(absence.device_missing, facts) is None
    assert of_first(absence.driver_unbound, facts) is None
    assert absence.device_of(resolve(promised(), facts)[0], promised(), facts).name == "mlx5_0"
    absence.require_some_device(promised(), facts)


def test_a_missing_device_is_one_finding_and_blocks_by_its_code() -> None:
    facts = build.facts(rdma_devices=(build.rdma_device("mlx5_7"),))
    found = finding(of_first(absence.device_missing, facts))
    assert (found.code, found.where.text()) == ("PORT-DEVICE-MISSING", "node1/mlx5_0")
    assert "mlx5_7" in found.observed
    assert blocks(facts) == "PORT-DEVICE-MISSING at node1/mlx5_0"


def test_a_missing_device_that_something_explains_is_blocked_by_that() -> None:
    bare = idle(build.pci_function(driver=None))
    for facts, cause in (
        (bare, "PCI-DRIVER-UNBOUND at node1/mlx5_0"),
        (without_module(idle()), "DRV-MODULE-MISSING at node1"),
        (without_module(bare), "DRV-MODULE-MISSING at node1"),
    ):
        assert blocks(facts) == cause
        with pytest.raises(Blocked, match=f"by {cause}$"):
            of_first(absence.device_missing, facts)
        with pytest.raises(Blocked, match=f"by {cause}$"):
            absence.require_some_device(promised(), facts)


def test_a_tree_that_is_unreadable_explains_nothing() -> None:
    facts = build.facts(rdma_devices=(), pci=DENIED)
    assert finding(of_first(absence.device_missing, facts)).code == "PORT-DEVICE-MISSING"
    with pytest.raises(Blocked, match="error in pci_listed"):
        of_first(absence.driver_unbound, facts)


def test_an_unreadable_list_of_devices_is_the_error_of_one_check() -> None:
    facts = build.facts(rdma_devices=DENIED)
    for profile in (promised(), promised(PATTERN, count=3)):
        assert blocks(facts, profile) == "error in no_extra_device[node1]"
        for rule in (absence.device_missing, absence.driver_unbound):
            with pytest.raises(Blocked, match="error in no_extra_device"):
                of_first(rule, facts, profile)
        with pytest.raises(Blocked, match="error in no_extra_device"):
            absence.devices_lacking(profile, facts)
        with pytest.raises(Blocked, match="error in no_extra_device"):
            absence.require_some_device(profile, facts)


def test_a_device_is_enough_for_what_is_about_any() -> None:
    facts = build.facts()
    absence.require_some_device(promised({"name": "mlx5_9"}, NAMED, count=2), facts)
    absence.require_some_device(build.profile(rails=None), facts)


# NICs without a driver.


def test_a_nic_without_a_driver_explains_the_missing_device() -> None:
    found = finding(unbound(idle(build.pci_function(driver=None))))
    assert (found.code, found.where.text()) == ("PCI-DRIVER-UNBOUND", "node1/mlx5_0")
    assert build.NIC_SLOT in found.observed


def test_a_rail_that_has_its_device_needs_no_other_nic() -> None:
    spare = build.pci_function("0000:1a:00.1", driver=None)
    tree = PciTree(functions=(*build.pci_tree().functions, spare), misplaced={})
    assert unbound(build.facts(pci=tree)) is None


@pytest.mark.parametrize(
    "nic",
    [
        build.pci_function(vendor=0x8086, driver=None),
        build.pci_function(class_code=0x010802, driver=None),
        build.pci_function(driver="mlx5_core"),
    ],
)
def test_what_is_no_idle_nic_leaves_the_device_missing(nic: PciFunction) -> None:
    with pytest.raises(Blocked, match="PORT-DEVICE-MISSING at node1/mlx5_0"):
        unbound(idle(nic))


def test_a_nic_that_a_virtual_machine_has_is_not_judged() -> None:
    facts = idle(build.pci_function(driver="vfio-pci"))
    with pytest.raises(NotJudged, match="vfio-pci"):
        unbound(facts)
    assert finding(of_first(absence.device_missing, facts)).code == "PORT-DEVICE-MISSING"


def test_a_nic_at_a_slot_that_the_selector_does_not_ask_for_is_left_alone() -> None:
    facts = idle(build.pci_function(driver=None))
    with pytest.raises(Blocked, match="PORT-DEVICE-MISSING"):
        unbound(facts, {"slot": "0000:5a:00.0"})
    assert unbound(facts, {"slot": build.NIC_SLOT}) is not None


@pytest.mark.parametrize("software", [False, True])
def test_a_nic_serves_a_device_unless_that_is_one_in_software(software: bool) -> None:
    nic = build.pci_function(driver=None)
    other = build.rdma_device("other", software=software)
    tree = PciTree(functions=(nic,), misplaced={})
    facts = build.facts(pci=tree, rdma_devices=(other,))
    if software:
        assert finding(unbound(facts)).code == "PCI-DRIVER-UNBOUND"
    else:
        with pytest.raises(Blocked, match="PORT-DEVICE-MISSING"):
            unbound(facts)


# Rails that nothing tells apart.


def devices(*numbers: int) -> tuple[RdmaDevice, ...]:
    return tuple(
        build.rdma_device(f"mlx5_{number}", slot=f"0000:4{number}:00.0") for number in numbers
    )


THREE = promised(PATTERN, count=3)


def test_too_few_devices_for_a_pattern_are_found_once_and_block_every_rail() -> None:
    facts = build.facts(rdma_devices=devices(0, 2))
    found = finding(absence.devices_lacking(THREE, facts))
    assert (found.code, found.where.text()) == ("PORT-DEVICE-MISSING", "node1")
    assert found.observed == "2 devices match: mlx5_0, mlx5_2"
    assert found.expected.startswith("3")
    for rail in resolve(THREE, facts):
        for rule in (absence.device_missing, absence.driver_unbound):
            with pytest.raises(Blocked, match=r"by PORT-DEVICE-MISSING at node1$"):
                rule(rail, THREE, facts)


def test_too_few_devices_are_explained_by_module_or_driver() -> None:
    nic = build.pci_function("0000:41:00.0", driver=None)
    tree = PciTree(functions=(*build.pci_tree().functions, nic), misplaced={})
    facts = build.facts(rdma_devices=devices(0, 2), pci=tree)
    found = finding(absence.devices_lacking(THREE, facts))
    assert (found.code, found.where.text()) == ("PCI-DRIVER-UNBOUND", "node1")
    assert blocks(facts, THREE) == "PCI-DRIVER-UNBOUND at node1"
    with pytest.raises(Blocked, match=r"DRV-MODULE-MISSING at node1$"):
        absence.devices_lacking(THREE, without_module(facts))


def test_a_nic_at_a_slot_that_no_pattern_matches_explains_nothing() -> None:
    facts = idle(build.pci_function(driver=None))
    for pattern, code in (
        ("0000:5a:*", "PORT-DEVICE-MISSING"),
        ("0000:1a:*", "PCI-DRIVER-UNBOUND"),
    ):
        found = finding(absence.devices_lacking(promised({"slot": pattern}), facts))
        assert found.code == code


def test_a_nic_that_a_virtual_machine_has_is_told_with_the_missing_device() -> None:
    facts = idle(build.pci_function(driver="vfio-pci"))
    found = finding(absence.devices_lacking(promised(PATTERN), facts))
    assert found.code == "PORT-DEVICE-MISSING"
    assert "vfio-pci" in " ".join(found.evidence.values())


def test_too_many_devices_for_a_pattern_block_every_rail() -> None:
    facts = build.facts(rdma_devices=devices(0, 1, 2, 3))
    assert absence.devices_lacking(THREE, facts) is None
    assert blocks(facts, THREE) == "PORT-DEVICE-EXTRA at node1"


def test_as_many_devices_as_rails_lack_none() -> None:
    facts = build.facts(rdma_devices=devices(0, 1, 2))
    assert absence.devices_lacking(THREE, facts) is None
    absence.require_told_apart(THREE, facts)


def test_nothing_is_counted_where_each_device_is_named_or_none_is_promised() -> None:
    facts = build.facts(rdma_devices=())
    for profile in (promised(NAMED), build.profile(rails=None)):
        with pytest.raises(NotPromised):
            absence.devices_lacking(profile, facts)
