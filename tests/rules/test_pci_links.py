"""PCIe links: too narrow, too slow, not judged, unreadable; each cause once."""

from __future__ import annotations

import pytest

from gdrcheck.facts import Facts, Link, PciFunction, PciTree, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, NotJudged, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail, resolve
from gdrcheck.rules import pci_links
from tests import facts as build

GPU = Where(node=build.NODE, gpu="gpu0")
DENIED = Unreadable(unreadable="denied")


def node(links: dict[str, Link | None]) -> Facts:
    """The healthy node with other links at these slots."""
    return node_of(build.pci_tree().functions, links)


def node_of(functions: tuple[PciFunction, ...], links: dict[str, Link | None]) -> Facts:
    changed = tuple(
        one.model_copy(update={"link": links[one.slot]}) if one.slot in links else one
        for one in functions
    )
    return build.facts(pci=PciTree(functions=changed, misplaced={}))


def rail(facts: Facts, profile: Profile, number: int = 0) -> Rail:
    return resolve(profile, facts)[number]


def width(facts: Facts, profile: Profile | None = None, number: int = 0) -> Finding | None:
    profile = profile or build.profile()
    return pci_links.width_of_nic(rail(facts, profile, number), profile, facts)


def speed(facts: Facts, profile: Profile | None = None) -> Finding | None:
    profile = profile or build.profile()
    return pci_links.speed_of_nic(rail(facts, profile), profile, facts)


def gpu_width(facts: Facts, profile: Profile | None = None) -> Finding | None:
    return pci_links.width_of_gpu(GPU, build.GPU_SLOT, profile or build.profile(), facts)


def gpu_speed(facts: Facts, profile: Profile | None = None) -> Finding | None:
    return pci_links.speed_of_gpu(GPU, build.GPU_SLOT, profile or build.profile(), facts)


def finding(found: Finding | None) -> Finding:
    assert found is not None
    return found


def promise(**expect: object) -> Profile:
    return build.profile(expect=expect)


def test_whole_links_pass() -> None:
    facts = build.facts()
    for judge in (width, speed, gpu_width, gpu_speed):
        assert judge(facts) is None


def test_a_narrow_link_of_the_nic_is_found() -> None:
    found = finding(width(node({build.NIC_SLOT: build.link(current_width=8)})))
    assert (found.code, found.where.text()) == ("PCI-LINK-WIDTH", "node1/mlx5_0")
    assert found.observed == f"x8 on {build.NIC_PORT} - {build.NIC_SLOT}"
    assert found.expected == "both ends can do x16"
    assert len(found.evidence) == 2


def test_a_slow_link_of_the_nic_is_found() -> None:
    found = finding(speed(node({build.NIC_SLOT: build.link(current_gts=16.0)})))
    assert found.code == "PCI-LINK-SPEED"
    assert found.observed.startswith("16 GT/s on ")
    assert found.expected == "both ends can do 32 GT/s"


def test_width_and_speed_are_found_apart() -> None:
    narrow = node({build.NIC_SLOT: build.link(current_width=8)})
    slow = node({build.NIC_SLOT: build.link(current_gts=8.0)})
    assert speed(narrow) is None
    assert width(slow) is None


def test_the_link_of_the_switch_to_the_root_port_is_judged_too() -> None:
    found = finding(width(node({build.UPSTREAM_PORT: build.link(current_width=4)})))
    assert found.observed == f"x4 on {build.ROOT_PORT} - {build.UPSTREAM_PORT}"


def test_of_several_bad_links_the_worst_is_named() -> None:
    links = {
        build.NIC_SLOT: build.link(current_width=8),
        build.UPSTREAM_PORT: build.link(current_width=1),
    }
    found = finding(width(node(links)))
    assert found.observed.startswith("x1 ")
    assert any("x8" in text for text in found.evidence.values())


@pytest.mark.parametrize("weak", [build.NIC_SLOT, build.NIC_PORT])
def test_a_link_is_no_wider_and_faster_than_its_weaker_end(weak: str) -> None:
    links = {
        build.NIC_SLOT: build.link(current_width=8, current_gts=16.0),
        weak: build.link(current_width=8, max_width=8, current_gts=16.0, max_gts=16.0),
    }
    if weak == build.NIC_PORT:
        links[build.NIC_SLOT] = build.link(current_width=8, current_gts=16.0)
    assert width(node(links)) is None
    assert speed(node(links)) is None


def test_the_inside_of_a_switch_is_no_link() -> None:
    """A port that looks down says of the link below it, not of that to the port above it."""
    narrow_card = build.link(current_width=4, max_width=4, current_gts=8.0, max_gts=8.0)
    links = {build.NIC_SLOT: narrow_card, build.NIC_PORT: build.link(current_width=4)}
    assert width(node(links)) is None


def test_a_narrow_uplink_does_not_make_the_link_of_the_nic_bad() -> None:
    small = build.link(current_width=8, max_width=8)
    assert width(node({build.UPSTREAM_PORT: small, build.ROOT_PORT: small})) is None


def test_what_an_emulated_port_says_of_itself_is_not_judged() -> None:
    """The root ports of QEMU can do 32 lanes, and show those of what is plugged in."""
    emulated = Link(current_gts=2.5, max_gts=16.0, current_width=1, max_width=32)
    virtio = Link(current_gts=2.5, max_gts=2.5, current_width=1, max_width=1)
    functions = (
        build.bridge(build.ROOT_PORT, None, "root port", link=emulated),
        build.pci_function(build.NIC_SLOT, parent=build.ROOT_PORT, link=virtio),
    )
    facts = node_of(functions, {})
    assert width(facts) is None
    assert speed(facts) is None


# Values that say nothing.


def test_a_function_without_a_link_is_not_judged() -> None:
    facts = node({build.NIC_SLOT: None})
    with pytest.raises(NotJudged, match="no PCIe link"):
        width(facts)


def test_a_nic_directly_below_the_root_bus_is_not_judged() -> None:
    functions = (build.pci_function(build.NIC_SLOT, parent=None, link=None),)
    with pytest.raises(NotJudged, match="no PCIe link"):
        speed(node_of(functions, {}))


def test_a_passed_through_function_is_judged_by_its_own_end_if_promised() -> None:
    facts = node_of((build.pci_function(build.NIC_SLOT, parent=None),), {})
    with pytest.raises(NotJudged, match="the port above it can do is not told"):
        speed(facts)
    assert width(facts, promise(nic_link={"width": 16})) is None
    narrow = node_of(
        (build.pci_function(build.NIC_SLOT, parent=None, link=build.link(current_width=8)),), {}
    )
    assert finding(width(narrow, promise(nic_link={"width": 16}))).code == "PCI-LINK-WIDTH"


def test_a_promised_link_that_cannot_be_seen_is_an_error() -> None:
    facts = node({build.NIC_SLOT: None})
    with pytest.raises(ProbeError, match="promises x16"):
        width(facts, promise(nic_link={"width": 16}))


def test_above_a_function_without_a_link_the_links_are_judged() -> None:
    links = {build.NIC_SLOT: None, build.UPSTREAM_PORT: build.link(current_width=8)}
    assert finding(width(node(links))).code == "PCI-LINK-WIDTH"


@pytest.mark.parametrize("slot", [build.NIC_SLOT, build.NIC_PORT, build.ROOT_PORT])
def test_a_link_that_cannot_be_read_is_an_error(slot: str) -> None:
    unreadable = build.link(max_width=DENIED, max_gts=DENIED)
    with pytest.raises(ProbeError, match=f"{slot} is unreadable: denied"):
        width(node({slot: unreadable}))
    with pytest.raises(ProbeError, match="denied"):
        speed(node({slot: unreadable}))


def test_a_link_that_cannot_be_read_does_not_hide_one_that_is_bad() -> None:
    links = {
        build.NIC_SLOT: build.link(current_width=DENIED),
        build.UPSTREAM_PORT: build.link(current_width=8),
    }
    assert finding(width(node(links))).evidence[f"{build.NIC_PORT} - {build.NIC_SLOT}"][0] == "?"


def test_an_unreadable_tree_is_blocked_by_the_check_that_owns_the_error() -> None:
    with pytest.raises(Blocked, match="error in pci_listed"):
        width(build.facts(pci=DENIED))


def test_a_way_that_is_not_whole_is_an_error_with_the_reason() -> None:
    functions = tuple(one for one in build.pci_tree().functions if one.slot != build.UPSTREAM_PORT)
    tree = PciTree(functions=functions, misplaced={build.UPSTREAM_PORT: "vendor: empty"})
    with pytest.raises(ProbeError, match="vendor: empty"):
        width(build.facts(pci=tree))


def test_a_device_without_a_pci_function_is_not_judged() -> None:
    facts = build.facts(rdma_devices=(build.rdma_device(slot=None),))
    with pytest.raises(NotJudged, match="no PCI function"):
        width(facts)
    for expect in ({"nic_link": {"width": 16}}, {"uplink": {"width": 16}}):
        with pytest.raises(ProbeError, match=r"no PCI function.* promises (nic_|up)link x16"):
            width(facts, promise(**expect))
        with pytest.raises(NotJudged):
            speed(facts, promise(**expect))


def test_without_its_device_the_rail_is_blocked() -> None:
    with pytest.raises(Blocked, match=r"PORT-DEVICE-MISSING at node1$"):
        width(build.facts(rdma_devices=()))


# Promises.


def test_less_than_promised_is_found_also_where_the_ends_can_do_no_more() -> None:
    small = build.link(current_width=8, max_width=8, current_gts=16.0, max_gts=16.0)
    facts = node({build.NIC_SLOT: small, build.NIC_PORT: small})
    assert width(facts) is None
    profile = promise(nic_link={"width": 16, "speed_gts": 32})
    assert finding(width(facts, profile)).expected == "at least x16; both ends can do x8"
    assert finding(speed(facts, profile)).expected == "at least 32 GT/s; both ends can do 16 GT/s"


def test_as_much_as_promised_or_more_passes() -> None:
    profile = promise(nic_link={"width": 8, "speed_gts": 16})
    assert width(build.facts(), profile) is None
    assert speed(build.facts(), profile) is None


def test_the_promise_is_about_the_link_of_the_nic_not_the_uplink() -> None:
    small = build.link(current_width=8, max_width=8)
    facts = node({build.UPSTREAM_PORT: small, build.ROOT_PORT: small})
    assert width(facts, promise(nic_link={"width": 16})) is None


def test_a_promise_about_uplinks_is_about_every_link_but_the_ends_own() -> None:
    small = build.link(current_width=8, max_width=8, current_gts=16.0, max_gts=16.0)
    facts = node({build.UPSTREAM_PORT: small, build.ROOT_PORT: small})
    profile = promise(uplink={"width": 16, "speed_gts": 32})
    found = finding(width(facts, profile))
    assert (found.where.text(), found.expected) == (
        "node1/mlx5_0",
        "at least x16; both ends can do x8",
    )
    assert finding(speed(facts, profile)).expected == "at least 32 GT/s; both ends can do 16 GT/s"
    with pytest.raises(Blocked, match="PCI-LINK-WIDTH at node1/mlx5_0"):
        gpu_width(facts, profile)
    with pytest.raises(Blocked, match="PCI-LINK-SPEED at node1/mlx5_0"):
        gpu_speed(facts, profile)
    own = node({build.NIC_SLOT: small, build.NIC_PORT: small})
    assert width(own, profile) is None
    assert speed(own, profile) is None


@pytest.mark.parametrize("silent", [build.UPSTREAM_PORT, build.ROOT_PORT])
def test_a_promised_uplink_that_cannot_be_seen_is_an_error(silent: str) -> None:
    facts = node({silent: None})
    profile = promise(uplink={"width": 16})
    assert width(facts) is None
    for judge in (width, gpu_width):
        with pytest.raises(ProbeError, match=r"0 of the links above .* promises uplink x16"):
            judge(facts, profile)
    assert speed(facts, profile) is None


def test_a_passed_through_function_does_not_show_its_uplink() -> None:
    facts = node_of((build.pci_function(build.NIC_SLOT, parent=None),), {})
    with pytest.raises(ProbeError, match="promises uplink x16"):
        width(facts, promise(uplink={"width": 16}))


def test_directly_below_a_root_port_there_is_no_uplink() -> None:
    functions = (
        build.bridge(build.ROOT_PORT, None, "root port"),
        build.pci_function(build.NIC_SLOT, parent=build.ROOT_PORT),
    )
    assert width(node_of(functions, {}), promise(uplink={"width": 16})) is None


# GPUs.


def test_a_narrow_link_of_the_gpu_is_found() -> None:
    found = finding(gpu_width(node({build.GPU_SLOT: build.link(current_width=8)})))
    assert (found.code, found.where.text()) == ("PCI-LINK-WIDTH", "node1/gpu0")


def test_the_speed_of_an_idle_gpu_is_not_judged() -> None:
    facts = node({build.GPU_SLOT: build.link(current_gts=2.5)})
    with pytest.raises(
        NotJudged, match=r"is at 2\.5 GT/s; both its ends can do 32 GT/s; a GPU low"
    ):
        gpu_speed(facts)
    with pytest.raises(NotJudged, match=r"can do 32 GT/s, and 16 GT/s is promised; a GPU lowers"):
        gpu_speed(facts, promise(gpu_link={"speed_gts": 16}))


def test_a_gpu_that_can_never_be_as_fast_as_promised_is_found() -> None:
    facts = node({build.GPU_SLOT: build.link(current_gts=2.5, max_gts=16.0)})
    found = finding(gpu_speed(facts, promise(gpu_link={"speed_gts": 32})))
    assert found.code == "PCI-LINK-SPEED"
    with pytest.raises(NotJudged, match="idle"):
        gpu_speed(facts, promise(gpu_link={"speed_gts": 16}))


@pytest.mark.parametrize("weak", [build.GPU_SLOT, build.GPU_PORT])
def test_either_end_may_be_the_one_that_is_never_as_fast(weak: str) -> None:
    links = {build.GPU_SLOT: build.link(current_gts=2.5)}
    links[weak] = build.link(current_gts=2.5, max_gts=16.0)
    found = finding(gpu_speed(node(links), promise(gpu_link={"speed_gts": 32})))
    assert found.code == "PCI-LINK-SPEED"


def test_an_idle_gpu_below_a_port_that_tells_nothing_cannot_keep_a_promise() -> None:
    links = {build.GPU_PORT: None, build.GPU_SLOT: build.link(current_gts=2.5)}
    with pytest.raises(ProbeError, match="an idle GPU cannot be told from a slow link"):
        gpu_speed(node(links), promise(gpu_link={"speed_gts": 32}))
    with pytest.raises(NotJudged, match="is not told"):
        gpu_speed(node(links))
    links[build.GPU_SLOT] = build.link()
    assert gpu_speed(node(links), promise(gpu_link={"speed_gts": 32})) is None


def test_a_gpu_that_is_not_there_is_blocked() -> None:
    with pytest.raises(Blocked, match="GPU-MISSING at node1/gpu0"):
        pci_links.width_of_gpu(GPU, None, build.profile(), build.facts())


# One cause, one finding.


def test_a_shared_uplink_is_found_at_the_nic_and_blocks_at_the_gpu() -> None:
    facts = node({build.UPSTREAM_PORT: build.link(current_width=8, current_gts=8.0)})
    assert finding(width(facts)).code == "PCI-LINK-WIDTH"
    with pytest.raises(Blocked, match="PCI-LINK-WIDTH at node1/mlx5_0"):
        gpu_width(facts)
    with pytest.raises(Blocked, match="PCI-LINK-SPEED at node1/mlx5_0"):
        gpu_speed(facts)


def two_ports(**second: object) -> Facts:
    """A NIC with two functions, of which each serves a rail."""
    slot = "0000:1a:00.1"
    link = build.link(current_width=8)
    functions = (
        *build.pci_tree().functions,
        build.pci_function(slot, **({"link": link} | second)),
    )
    devices = (build.rdma_device(), build.rdma_device("mlx5_1", slot=slot))
    tree = node_of(functions, {build.NIC_SLOT: link}).pci
    return build.facts(pci=tree, rdma_devices=devices)


def test_the_link_that_two_functions_of_a_nic_share_is_found_once() -> None:
    profile = build.profile(rails={"count": 2, "nics": [{"name": "mlx5_*"}]})
    facts = two_ports()
    assert finding(width(facts, profile, 0)).where.nic == "mlx5_0"
    with pytest.raises(Blocked, match="PCI-LINK-WIDTH at node1/mlx5_0"):
        width(facts, profile, 1)


def test_a_gpu_keeps_its_own_finding_beside_that_of_a_shared_link() -> None:
    links = {
        build.UPSTREAM_PORT: build.link(current_width=8),
        build.GPU_SLOT: build.link(current_width=4),
    }
    assert finding(gpu_width(node(links))).observed.startswith("x4 ")
