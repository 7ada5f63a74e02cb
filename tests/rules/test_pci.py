"""PCI errors, distances, and NICs that lie idle: each fault gives its code, and nothing else."""

from __future__ import annotations

import pytest

from gdrcheck.facts import Facts, PciFunction, PciTree, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, NotJudged, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail, resolve
from gdrcheck.rules import pci
from tests import facts as build

GPU = Where(node=build.NODE, gpu="gpu0")
DENIED = Unreadable(unreadable="denied")


def node(slot: str, **changes: object) -> Facts:
    """The healthy node with another function at ``slot``."""
    functions = tuple(
        one.model_copy(update=changes) if one.slot == slot else one
        for one in build.pci_tree().functions
    )
    return build.facts(pci=PciTree(functions=functions, misplaced={}))


def rail(facts: Facts, profile: Profile | None = None) -> Rail:
    return resolve(profile or build.profile(), facts)[0]


def errors(facts: Facts) -> Finding | None:
    return pci.errors_of_nic(rail(facts), build.profile(), facts)


def gpu_errors(facts: Facts) -> Finding | None:
    return pci.errors_of_gpu(GPU, build.GPU_SLOT, build.profile(), facts)


def finding(found: Finding | None) -> Finding:
    assert found is not None
    return found


# Uncorrectable errors.


def test_no_errors_pass() -> None:
    assert errors(build.facts()) is None
    assert gpu_errors(build.facts()) is None


@pytest.mark.parametrize("slot", [build.NIC_SLOT, build.NIC_PORT, build.ROOT_PORT])
@pytest.mark.parametrize("kind", ["aer_fatal", "aer_nonfatal"])
def test_an_uncorrectable_error_anywhere_on_the_way_is_found(slot: str, kind: str) -> None:
    found = finding(errors(node(slot, **{kind: 2})))
    assert (found.code, found.where.text()) == ("PCI-AER-UNCORRECTABLE", "node1/mlx5_0")
    assert found.observed == f"2 since boot, at {slot}"
    assert "2" in found.evidence[slot]


def test_errors_of_a_shared_port_are_found_once() -> None:
    facts = node(build.UPSTREAM_PORT, aer_fatal=1)
    assert errors(facts) is not None
    with pytest.raises(Blocked, match="PCI-AER-UNCORRECTABLE at node1/mlx5_0"):
        gpu_errors(facts)


def test_errors_of_the_gpu_are_the_gpus() -> None:
    facts = node(build.GPU_SLOT, aer_nonfatal=1)
    assert finding(gpu_errors(facts)).where.text() == "node1/gpu0"
    assert errors(facts) is None


def test_a_function_without_counters_is_left_out() -> None:
    assert errors(node(build.NIC_SLOT, aer_fatal=None, aer_nonfatal=None)) is None


def test_with_no_counters_at_all_nothing_is_judged() -> None:
    functions = tuple(
        one.model_copy(update={"aer_fatal": None, "aer_nonfatal": None})
        for one in build.pci_tree().functions
    )
    with pytest.raises(NotJudged):
        errors(build.facts(pci=PciTree(functions=functions, misplaced={})))


def test_a_count_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ProbeError, match=f"{build.NIC_PORT} is unreadable: denied"):
        errors(node(build.NIC_PORT, aer_fatal=DENIED))


def test_a_count_that_cannot_be_read_does_not_hide_errors() -> None:
    assert errors(node(build.NIC_PORT, aer_fatal=DENIED, aer_nonfatal=1)) is not None


# Distances.


def apart(**changes: object) -> Facts:
    """The GPU below another host bridge than the NIC."""
    gpu = build.gpu_function(
        **({"parent": None, "root_bus": "pci0000:80", "numa_node": 1} | changes)  # type: ignore[arg-type]
    )
    functions = (*build.pci_tree().functions[:-1], gpu)
    return build.facts(pci=PciTree(functions=functions, misplaced={}))


def distance(facts: Facts, profile: Profile) -> Finding | None:
    return pci.rail_distance(rail(facts, profile), profile, facts)


def at_most(word: str) -> Profile:
    return build.profile(expect={"rail_distance": word})


@pytest.mark.parametrize("word", ["PIX", "PXB", "SYS"])
def test_a_rail_that_is_as_close_as_promised_passes(word: str) -> None:
    assert distance(build.facts(), at_most(word)) is None


def test_a_rail_that_is_farther_than_promised_is_found_with_the_way() -> None:
    found = finding(distance(apart(), at_most("PXB")))
    assert (found.code, found.where.text()) == ("PCI-RAIL-DISTANCE", "node1/gpu0/mlx5_0")
    assert (found.observed, found.expected) == ("SYS", "at most PXB")
    assert build.ROOT_PORT in found.evidence[f"above the NIC {build.NIC_SLOT}"]


def test_a_distance_that_nobody_promised_is_shown() -> None:
    with pytest.raises(NotJudged, match="SYS"):
        distance(apart(), build.profile())
    with pytest.raises(NotJudged, match="unknown"):
        distance(apart(numa_node=None), build.profile())


def test_a_promised_distance_that_is_unknown_is_an_error() -> None:
    with pytest.raises(ProbeError, match="NUMA node"):
        distance(apart(numa_node=None), at_most("SYS"))


def test_a_promised_distance_in_an_unreadable_tree_is_an_error() -> None:
    with pytest.raises(ProbeError, match="denied"):
        distance(build.facts(pci=DENIED), at_most("SYS"))


def test_a_rail_for_which_no_gpu_is_promised_has_no_distance() -> None:
    profile = build.profile(
        rails={"count": 2, "nics": [{"name": "mlx5_*"}]}, expect={"rail_distance": "PIX"}
    )
    slot = "0000:1a:00.1"
    tree = PciTree(functions=(*build.pci_tree().functions, build.pci_function(slot)), misplaced={})
    facts = build.facts(
        pci=tree, rdma_devices=(build.rdma_device(), build.rdma_device("mlx5_1", slot=slot))
    )
    with pytest.raises(NotPromised, match="1 GPUs are promised for 2 rails"):
        pci.rail_distance(resolve(profile, facts)[1], profile, facts)


def test_a_missing_gpu_blocks_the_distance() -> None:
    tree = PciTree(functions=build.pci_tree().functions[:-1], misplaced={})
    with pytest.raises(Blocked, match="GPU-MISSING at node1"):
        distance(build.facts(pci=tree), at_most("PIX"))


def test_a_missing_nic_blocks_the_distance() -> None:
    with pytest.raises(Blocked, match="PORT-DEVICE-MISSING"):
        distance(build.facts(rdma_devices=()), at_most("PIX"))


# NICs without a driver.


def idle(*functions: PciFunction) -> Facts:
    """No RDMA device, and these functions on the bus."""
    tree = PciTree(functions=functions, misplaced={})
    return build.facts(pci=tree, rdma_devices=())


def unbound(facts: Facts, *selectors: dict[str, object]) -> Finding | None:
    nics = list(selectors) or [{"name": "mlx5_0"}]
    profile = build.profile(rails={"count": 1, "nics": nics})
    return pci.driver_unbound(resolve(profile, facts)[0], profile, facts)


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
    with pytest.raises(NotJudged, match="vfio-pci"):
        unbound(idle(build.pci_function(driver="vfio-pci")))


def test_a_nic_at_a_slot_that_no_selector_asks_for_is_left_alone() -> None:
    facts = idle(build.pci_function(driver=None))
    with pytest.raises(Blocked, match="PORT-DEVICE-MISSING"):
        unbound(facts, {"slot": "0000:5a:00.0"})
    assert unbound(facts, {"slot": build.NIC_SLOT}) is not None
    assert unbound(facts, {"slot": "0000:1a:*"}) is not None


def test_a_nic_that_serves_a_device_is_not_idle() -> None:
    facts = build.facts(rdma_devices=(build.rdma_device("other"),))
    with pytest.raises(Blocked, match="PORT-DEVICE-MISSING"):
        unbound(facts)


def test_a_missing_module_explains_more_than_an_idle_nic() -> None:
    nic = build.pci_function(driver=None)
    modules = (build.module("ib_core", loaded=False), build.module("ib_uverbs"))
    facts = idle(nic).model_copy(update={"host": build.host(modules=modules)})
    with pytest.raises(Blocked, match="DRV-MODULE-MISSING"):
        unbound(facts)


def test_an_unreadable_tree_does_not_say_that_none_is_idle() -> None:
    with pytest.raises(ProbeError, match="denied"):
        unbound(build.facts(pci=DENIED, rdma_devices=()))
