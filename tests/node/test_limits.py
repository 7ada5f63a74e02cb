"""What bounds the speed of a rail's end, why it may not be judged, and what can make it slow."""

from __future__ import annotations

import pytest

from gdrcheck import rails
from gdrcheck.facts import Acs, Facts, Iommu, PciTree, Unreadable
from gdrcheck.node.limits import MAX_CAUSE_CHARS, limits_of
from gdrcheck.transfer import EndLimits
from tests import facts as builders

UNREAD = Unreadable(unreadable="no such file")


def limits(found: Facts) -> EndLimits:
    """Those of the node's one rail."""
    (rail,) = rails.resolve(builders.profile(), found)
    return limits_of(rail, found)


def with_function(slot: str, **changes: object) -> Facts:
    """The healthy node with one function changed."""
    tree = builders.pci_tree()
    functions = tuple(
        one.model_copy(update=changes) if one.slot == slot else one for one in tree.functions
    )
    return builders.facts(pci=PciTree(functions=functions, misplaced={}))


def with_port(**changes: object) -> Facts:
    """The healthy node with its port changed."""
    device = builders.rdma_device(ports=(builders.port(**changes),))
    return builders.facts(rdma_devices=(device,))


def test_a_healthy_end_is_bounded_by_its_port_and_both_links() -> None:
    found = limits(builders.facts())
    assert found.nic_rate_gbps == 400
    assert found.nic_link_gbps == found.gpu_link_gbps == pytest.approx(504.1, abs=0.1)
    assert (found.distance, found.not_judged, found.gpu_not_judged) == ("PIX", "", "")
    assert found.slow_causes == ()


@pytest.mark.parametrize(
    ("gts", "lanes", "gbps"),
    [(2.5, 1, 2.0), (5.0, 8, 32.0), (8.0, 16, 126.0), (16.0, 8, 126.0), (64.0, 16, 968.0)],
)
def test_a_link_carries_less_than_its_lanes_signal(gts: float, lanes: int, gbps: float) -> None:
    link = builders.link(current_gts=gts, max_gts=gts, current_width=lanes, max_width=lanes)
    found = limits(with_function(builders.NIC_SLOT, link=link))
    assert found.nic_link_gbps == pytest.approx(gbps, abs=0.1)


def test_an_idle_gpu_is_taken_for_what_its_link_can_be() -> None:
    """Not so a NIC: it does not lower its link."""
    slow = builders.link(current_gts=2.5)
    assert limits(with_function(builders.GPU_SLOT, link=slow)).gpu_link_gbps == pytest.approx(
        504.1, abs=0.1
    )
    assert limits(with_function(builders.NIC_SLOT, link=slow)).nic_link_gbps == 32.0
    narrow = builders.link(current_width=8)
    found = limits(with_function(builders.GPU_SLOT, link=narrow))
    assert found.gpu_link_gbps == pytest.approx(252.1, abs=0.1)
    assert found.slow_causes == ("the link of gpu0 is x8 of x16",)


@pytest.mark.parametrize("link", [None, builders.link(current_width=UNREAD)])
def test_what_is_not_read_is_no_limit(link: object) -> None:
    assert limits(with_function(builders.NIC_SLOT, link=link)).nic_link_gbps is None
    assert limits(with_function(builders.GPU_SLOT, link=link)).gpu_link_gbps is None
    assert limits(with_port(rate_gbps=UNREAD)).nic_rate_gbps is None


def test_a_software_device_is_not_judged() -> None:
    device = builders.rdma_device(software=True, slot=None)
    found = limits(builders.facts(rdma_devices=(device,)))
    assert found.not_judged == "mlx5_0 is a software device"


def test_a_link_that_nobody_sees_the_upper_end_of_is_not_judged() -> None:
    """A virtual machine: the function tells of a link, and no port is above it."""
    alone = with_function(builders.NIC_SLOT, parent=None)
    assert limits(alone).not_judged.startswith("the PCIe link of mlx5_0 is not to be seen")
    alone = with_function(builders.GPU_SLOT, parent=None)
    assert limits(alone).gpu_not_judged.startswith("the PCIe link of gpu0 is not to be seen")
    assert limits(alone).not_judged == ""


def test_an_emulated_gpu_is_not_judged() -> None:
    assert limits(builders.facts(emulated=True)).gpu_not_judged == "gpu0 is emulated"
    virtual = builders.nvml(gpus=(builders.gpu(virtualization="passthrough"),))
    found = limits(builders.facts(nvml=virtual))
    assert found.gpu_not_judged == "gpu0 is in a virtual machine"


def test_a_gpu_that_is_too_far_away_is_not_judged() -> None:
    tree = builders.pci_tree()
    functions = tuple(
        one.model_copy(update={"parent": None, "root_bus": "pci0000:80", "numa_node": 1})
        if one.slot == builders.GPU_PORT
        else one
        for one in tree.functions
    )
    host = builders.host(numa_nodes=(0, 1))
    found = limits(builders.facts(pci=PciTree(functions=functions, misplaced={}), host=host))
    assert found.distance == "SYS"
    assert found.gpu_not_judged == "gpu0 and mlx5_0 are SYS apart"
    assert "GPU and NIC are at different sockets (SYS)" in found.slow_causes


def test_what_the_facts_know_of_slow_paths() -> None:
    redirecting = builders.settings(acs=Acs(enabled=("SrcValid", "ReqRedir")))
    assert limits(with_function(builders.NIC_PORT, settings=redirecting)).slow_causes == (
        f"ACS redirects peer-to-peer traffic at {builders.NIC_PORT}",
    )
    strict = builders.settings(relaxed_ordering=False)
    assert limits(with_function(builders.NIC_SLOT, settings=strict)).slow_causes == (
        "relaxed ordering is off at mlx5_0",
    )
    iommu = Iommu(units=("dmar0",), default_domain="DMA")
    assert limits(builders.facts(host=builders.host(iommu=iommu))).slow_causes == (
        "the IOMMU translates addresses of devices",
    )
    assert limits(with_function(builders.NIC_PORT, settings=UNREAD)).slow_causes == ()


def test_causes_are_short_whatever_they_name() -> None:
    found = limits(with_function(builders.NIC_SLOT, link=builders.link(current_width=4)))
    assert all(len(cause) <= MAX_CAUSE_CHARS for cause in found.slow_causes)


def test_without_pci_nothing_is_judged() -> None:
    found = limits(builders.facts(pci=UNREAD))
    assert found.not_judged
    assert (found.nic_link_gbps, found.gpu_link_gbps, found.distance) == (None, None, None)


def two_rails(second_port: str, second_gpu: str) -> tuple[EndLimits, ...]:
    """Those of a node with a second NIC and GPU, each below the bridge that is named."""
    tree = builders.pci_tree()
    functions = (
        *tree.functions,
        builders.bridge("0000:16:02.0", None, "root port"),
        builders.bridge("0000:27:00.0", "0000:16:02.0", "upstream port"),
        builders.bridge("0000:28:00.0", "0000:27:00.0", "downstream port"),
        builders.bridge("0000:28:01.0", "0000:27:00.0", "downstream port"),
        builders.bridge("0000:18:02.0", builders.UPSTREAM_PORT, "downstream port"),
        builders.bridge("0000:18:03.0", builders.UPSTREAM_PORT, "downstream port"),
        builders.pci_function("0000:2a:00.0", parent=second_port),
        builders.gpu_function("0000:2b:00.0", parent=second_gpu),
    )
    devices = (
        builders.rdma_device(),
        builders.rdma_device("mlx5_1", slot="0000:2a:00.0"),
    )
    found = builders.facts(rdma_devices=devices, pci=PciTree(functions=functions, misplaced={}))
    promised = builders.profile(
        gpus={"count": 2, "model": "NVIDIA H200"},
        rails={"count": 2, "nics": [{"name": "mlx5_0", "gpu": 0}, {"name": "mlx5_1", "gpu": 1}]},
    )
    resolved = rails.resolve(promised, found)
    return tuple(limits_of(rail, found, resolved) for rail in resolved)


def test_rails_below_switches_of_their_own_share_nothing() -> None:
    for one in two_rails("0000:28:00.0", "0000:28:01.0"):
        assert (one.shared, one.gpu_shared) == ("", "")


def test_rails_below_one_switch_share_its_link_to_the_host_alone() -> None:
    first, second = two_rails("0000:18:02.0", "0000:18:03.0")
    assert first.shared.endswith("with mlx5_1")
    assert second.shared.endswith("with mlx5_0")
    assert (first.gpu_shared, second.gpu_shared) == ("", "")


def test_two_functions_of_one_card_share_its_link() -> None:
    first, second = two_rails(builders.NIC_PORT, "0000:18:03.0")
    assert "mlx5_1" in first.shared
    assert "mlx5_1" in first.gpu_shared
    assert "mlx5_0" in second.shared
    assert "mlx5_0" in second.gpu_shared


def test_a_gpu_below_another_switch_is_reached_over_the_link_to_the_host() -> None:
    first, second = two_rails("0000:18:02.0", "0000:28:01.0")
    assert first.gpu_shared == ""
    assert second.gpu_shared == ""
    assert first.shared
    assert second.shared
