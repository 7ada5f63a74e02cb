"""PCI errors and distances: each fault gives its code, and nothing else."""

from __future__ import annotations

import pytest

from gdrcheck.facts import Facts, PciTree, Unreadable
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


def test_a_promised_distance_in_an_unreadable_tree_is_blocked() -> None:
    with pytest.raises(Blocked, match="error in pci_listed"):
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
    with pytest.raises(NotPromised, match="fewer GPUs than rails"):
        pci.rail_distance(resolve(profile, facts)[1], profile, facts)


def test_a_missing_gpu_blocks_the_distance() -> None:
    tree = PciTree(functions=build.pci_tree().functions[:-1], misplaced={})
    with pytest.raises(Blocked, match=r"GPU-MISSING at node1/gpu0$"):
        distance(build.facts(pci=tree), at_most("PIX"))


def test_one_missing_gpu_blocks_the_distances_of_all_rails() -> None:
    """The GPU that is left would be taken for the other one, which is the closest to the NIC."""
    profile = build.profile(
        gpus={"count": 2, "model": "NVIDIA H200"},
        rails={"count": 1, "nics": [{"name": "mlx5_0", "gpu": 0}]},
        expect={"rail_distance": "PIX"},
    )
    with pytest.raises(Blocked, match=r"GPU-MISSING at node1/gpu1$"):
        distance(apart(), profile)


def test_a_gpu_too_many_blocks_the_distance() -> None:
    functions = (build.gpu_function("0000:01:00.0", parent=None), *build.pci_tree().functions)
    tree = PciTree(functions=functions, misplaced={})
    with pytest.raises(Blocked, match=r"GPU-EXTRA at node1$"):
        distance(build.facts(pci=tree), at_most("PIX"))


def test_a_missing_nic_blocks_the_distance() -> None:
    with pytest.raises(Blocked, match="PORT-DEVICE-MISSING"):
        distance(build.facts(rdma_devices=()), at_most("PIX"))
