"""Distances: in the words of nvidia-smi topo, and a matrix without contradictions."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck import topology
from gdrcheck.facts import Facts, NvLink, PciFunction, PciTree, Unreadable
from tests import facts as build
from tests.gpu_facts import gpu_health, gpu_peer, nvlink, nvlinks


@dataclass
class Builder:
    """Makes trees: each method returns the slot of what it added."""

    functions: list[PciFunction] = field(default_factory=list)
    buses: dict[str, str] = field(default_factory=dict)

    def add(self, parent: str | None, root_bus: str = "pci0000:00", **changes: object) -> str:
        number = len(self.functions)
        slot = f"0000:{number // 32:02x}:{number % 32:02x}.0"
        self.buses[slot] = self.buses[parent] if parent else root_bus
        make = build.pci_function(slot, parent=parent, root_bus=self.buses[slot], **changes)
        self.functions.append(make)
        return slot

    def port(self, parent: str | None, **changes: object) -> str:
        return self.add(parent, **({"class_code": 0x060400} | changes))  # type: ignore[arg-type]

    def switch(self, above: str, ports: int, **changes: object) -> list[str]:
        """A switch below the port ``above``: its ports that look down."""
        upstream = self.port(above, **changes)
        return [self.port(upstream, **changes) for _ in range(ports)]

    def facts(self, numa_nodes: object = (0, 1)) -> Facts:
        tree = PciTree(functions=tuple(self.functions), misplaced={})
        return build.facts(pci=tree, host=build.host(numa_nodes=numa_nodes))


def two_sockets() -> tuple[Builder, dict[str, str]]:
    """Two host bridges on node 0 and one on node 1; a switch, and one behind another."""
    tree = Builder()
    near = tree.port(None, numa_node=0)
    ports = tree.switch(near, 3)
    behind = tree.switch(ports[2], 1)
    beside = tree.port(None, numa_node=0)
    same_node = tree.port(None, root_bus="pci0000:40", numa_node=0)
    other_node = tree.port(None, root_bus="pci0000:80", numa_node=1)
    return tree, {
        "NIC": tree.add(ports[0], numa_node=0),
        "same switch": tree.add(ports[1], numa_node=0),
        "switch behind": tree.add(behind[0], numa_node=0),
        "other root port": tree.add(beside, numa_node=0),
        "other host bridge": tree.add(same_node, numa_node=0),
        "other socket": tree.add(other_node, numa_node=1),
    }


@pytest.mark.parametrize(
    ("place", "distance"),
    [
        ("NIC", "PIX"),
        ("same switch", "PIX"),
        ("switch behind", "PXB"),
        ("other root port", "PHB"),
        ("other host bridge", "NODE"),
        ("other socket", "SYS"),
    ],
)
def test_distances_have_the_names_of_nvidia_smi(place: str, distance: str) -> None:
    tree, slots = two_sockets()
    assert topology.distance(tree.facts(), slots["NIC"], slots[place]) == distance


def test_two_functions_of_one_card_are_closest() -> None:
    tree = Builder()
    port = tree.port(None)
    one, other = tree.add(port), tree.add(port)
    assert topology.distance(tree.facts(), one, other) == "PIX"


def test_a_switch_is_passed_once_whichever_end_is_counted_from() -> None:
    assert topology.distance(build.facts(), build.UPSTREAM_PORT, build.NIC_SLOT) == "PIX"
    assert topology.distance(build.facts(), build.ROOT_PORT, build.NIC_SLOT) == "PXB"


def test_the_node_of_the_root_port_counts_where_the_firmware_contradicts_itself() -> None:
    tree = Builder()
    one = tree.add(tree.port(None, numa_node=0), numa_node=1)
    far = tree.port(None, root_bus="pci0000:80", numa_node=1)
    other = tree.add(far, numa_node=0)
    assert topology.distance(tree.facts(), one, other) == "SYS"


def test_in_a_flat_virtual_machine_everything_is_at_the_host_bridge() -> None:
    tree = Builder()
    slots = [tree.add(None, numa_node=None) for _ in range(3)]
    found = {topology.distance(tree.facts(), slots[0], other) for other in slots[1:]}
    assert found == {"PHB"}


def test_without_a_numa_node_the_distance_between_host_bridges_is_unknown() -> None:
    tree = Builder()
    one = tree.add(None, numa_node=None)
    other = tree.add(None, root_bus="pci0000:80", numa_node=1)
    assert topology.distance(tree.facts(), one, other) is None


def test_a_machine_with_one_numa_node_needs_no_numbers() -> None:
    tree = Builder()
    one = tree.add(None, numa_node=None)
    other = tree.add(None, root_bus="pci0000:80", numa_node=None)
    assert topology.distance(tree.facts(numa_nodes=(0,)), one, other) == "NODE"


def test_unreadable_numa_nodes_are_not_one_node() -> None:
    tree = Builder()
    one = tree.add(None, numa_node=Unreadable(unreadable="denied"))
    other = tree.add(None, root_bus="pci0000:80", numa_node=1)
    blind = tree.facts(numa_nodes=Unreadable(unreadable="denied"))
    assert topology.distance(blind, one, other) is None


def test_a_bridge_that_is_missing_makes_the_distance_unknown_not_short_or_long() -> None:
    tree, slots = two_sockets()
    gone = topology.path_up(tree.facts().pci, slots["NIC"])[2].slot  # type: ignore[arg-type]
    tree.functions = [one for one in tree.functions if one.slot != gone]
    for place in slots.values():
        assert topology.distance(tree.facts(), slots["NIC"], place) is None


def test_bridges_in_a_circle_make_the_distance_unknown() -> None:
    functions = (
        build.pci_function("0000:01:00.0", parent="0000:02:00.0"),
        build.pci_function("0000:02:00.0", parent="0000:03:00.0"),
        build.pci_function("0000:03:00.0", parent="0000:02:00.0"),
    )
    facts = build.facts(pci=PciTree(functions=functions, misplaced={}))
    assert topology.distance(facts, "0000:01:00.0", "0000:02:00.0") is None
    assert topology.distance(facts, "0000:01:00.0", "0000:01:00.0") is None


@pytest.mark.parametrize("deep", [topology.MAX_BRIDGES, topology.MAX_BRIDGES + 1])
def test_a_way_that_is_too_long_to_be_real_is_unknown(deep: int) -> None:
    tree = Builder()
    port = tree.port(None)
    for _ in range(deep - 1):
        port = tree.port(port)
    end = tree.add(port)
    found = topology.path_up(tree.facts().pci, end)  # type: ignore[arg-type]
    assert len(found) == (deep + 1 if deep <= topology.MAX_BRIDGES else 0)


def test_a_copy_of_a_tree_finds_what_the_copy_holds() -> None:
    tree = build.pci_tree()
    assert tree.function(build.NIC_SLOT) is not None
    copy = tree.model_copy(update={"functions": (build.pci_function("0000:77:00.0"),)})
    assert copy.function(build.NIC_SLOT) is None
    assert copy.function("0000:77:00.0") is not None
    assert PciTree.model_validate_json(tree.model_dump_json()) == tree


def test_an_unreadable_tree_has_no_distances() -> None:
    facts = build.facts(pci=Unreadable(unreadable="denied"))
    assert topology.distance(facts, build.NIC_SLOT, build.GPU_SLOT) is None


def test_the_bridges_between_are_those_that_a_transfer_passes() -> None:
    tree = build.facts().pci
    assert isinstance(tree, PciTree)
    way = topology.bridges_between(tree, build.NIC_SLOT, build.GPU_SLOT)
    assert [one.slot for one in way] == [build.NIC_PORT, build.UPSTREAM_PORT, build.GPU_PORT]


def test_across_the_host_bridge_all_bridges_are_between() -> None:
    tree, slots = two_sockets()
    pci = tree.facts().pci
    assert isinstance(pci, PciTree)
    way = topology.bridges_between(pci, slots["NIC"], slots["other socket"])
    up = topology.path_up(pci, slots["NIC"])[1:]
    assert way == (*up, *topology.path_up(pci, slots["other socket"])[1:])


def test_nothing_is_between_a_function_and_itself() -> None:
    tree = build.facts().pci
    assert isinstance(tree, PciTree)
    assert topology.bridges_between(tree, build.NIC_SLOT, build.NIC_SLOT) == ()


@st.composite
def machines(draw: st.DrawFn, *, contradictory: bool = True) -> Facts:
    """Any tree: host bridges on known or unknown NUMA nodes, switches in switches, any depth.

    The firmware may name the node of some functions only, and, if ``contradictory``, name several
    below one host bridge.
    """
    tree = Builder()
    for bus in range(draw(st.integers(1, 3))):
        nodes = [0, 1] if contradictory else [draw(st.sampled_from([0, 1]))]
        node = st.sampled_from([None, *nodes])
        for _ in range(draw(st.integers(1, 2))):
            ports = [tree.port(None, root_bus=f"pci0000:{bus:02x}", numa_node=draw(node))]
            while ports and len(tree.functions) < 24:
                port = ports.pop()
                kind = draw(st.sampled_from(["function", "card", "switch"]))
                for _ in range({"function": 1, "card": 2, "switch": 0}[kind]):
                    tree.add(port, numa_node=draw(node))
                if kind == "switch":
                    ports += tree.switch(port, draw(st.integers(1, 3)), numa_node=draw(node))
    return tree.facts(numa_nodes=draw(st.sampled_from([(0,), (0, 1)])))


def slots_of(facts: Facts) -> list[str]:
    assert isinstance(facts.pci, PciTree)
    return [function.slot for function in facts.pci.functions]


@given(machines())
def test_the_matrix_is_reflexive_and_symmetric(facts: Facts) -> None:
    for one in slots_of(facts):
        assert topology.distance(facts, one, one) == "PIX"
        for other in slots_of(facts):
            there, back = (one, other), (other, one)
            assert topology.distance(facts, *there) == topology.distance(facts, *back)
            way = topology.bridges_between(facts.pci, *there)  # type: ignore[arg-type]
            assert way[::-1] == topology.bridges_between(facts.pci, *back)  # type: ignore[arg-type]


@given(machines(), st.data())
def test_no_distance_is_shorter_than_its_parts(facts: Facts, data: st.DataObject) -> None:
    """From an end to a bridge on the way is never farther than to the other end."""
    one, other = (data.draw(st.sampled_from(slots_of(facts))) for _ in range(2))
    whole = topology.distance(facts, one, other)
    if whole is None:
        return
    for bridge in topology.bridges_between(facts.pci, one, other):  # type: ignore[arg-type]
        for end in (one, other):
            part = topology.distance(facts, end, bridge.slot)
            if part is not None:
                assert topology.rank(part) <= topology.rank(whole)


@given(machines(contradictory=False), st.data())
def test_no_way_over_a_third_is_shorter_than_the_host_bridges_allow(
    facts: Facts, data: st.DataObject
) -> None:
    """Neighbours of one function below a host bridge are neighbours below it, and so on."""
    one, via, other = (data.draw(st.sampled_from(slots_of(facts))) for _ in range(3))
    parts = [topology.distance(facts, one, via), topology.distance(facts, via, other)]
    whole = topology.distance(facts, one, other)
    if None not in parts and whole is not None:
        longest = max(topology.rank(part) for part in parts)
        # Two switches in a row are neighbours of a third between them, without being one switch.
        allowed = max(longest, topology.rank("PXB"))
        assert topology.rank(whole) <= allowed


GPUS = ("0000:1a:05.0", "0000:1a:06.0")


def with_links(*links: object, peers: object = ()) -> Facts:
    """Two GPUs, each with its own NVLinks."""
    gpus = tuple(
        build.gpu(slot, health=of if isinstance(of, Unreadable) else gpu_health(nvlinks=of))
        for slot, of in zip(GPUS, links, strict=True)
    )
    return build.facts(nvml=build.nvml(gpus=gpus, peers=peers))


def direct(number: int, slot: str, **changes: object) -> NvLink:
    return nvlink(number, remote="gpu", remote_slot=slot, **changes)


@pytest.mark.parametrize(
    ("one", "other", "links"),
    [
        ((), (), 0),
        (nvlinks(), nvlinks(), 18),
        (nvlinks(), nvlinks(nvlink(3, active=False), nvlink(7, active=False)), 16),
        (nvlinks(), (), 0),
        ((direct(0, GPUS[1]), direct(1, GPUS[1])), (direct(0, GPUS[0]), direct(1, GPUS[0])), 2),
        ((direct(0, GPUS[1]), direct(1, GPUS[1], active=False)), (), 1),
        ((direct(0, "0000:99:00.0"),), (direct(0, "0000:99:00.0"),), 0),
        ((direct(0, GPUS[1]), nvlink(1)), (direct(0, GPUS[0]), nvlink(1)), 1),
        ((nvlink(0, active=Unreadable(unreadable="no answer")),), (nvlink(0),), None),
        ((nvlink(0, remote=Unreadable(unreadable="no answer")),), (nvlink(0),), None),
        (Unreadable(unreadable="no answer"), nvlinks(), None),
    ],
)
def test_nvlinks_between_two_gpus_are_counted(
    one: object, other: object, links: int | None
) -> None:
    assert topology.nvlinks_between(with_links(one, other), *GPUS) == links


def test_nvlinks_of_a_gpu_that_does_not_answer_are_not_known() -> None:
    assert topology.nvlinks_between(with_links((), ()), GPUS[0], "0000:99:00.0") is None
    assert topology.nvlinks_between(build.facts(nvml=None), *GPUS) is None


def test_what_nvml_says_of_two_gpus_is_found_each_way_and_of_no_others() -> None:
    said = (gpu_peer(*GPUS), gpu_peer(*GPUS[::-1], read="not supported"))
    facts = with_links((), (), peers=(*said, gpu_peer(GPUS[0], "0000:99:00.0")))
    assert topology.peers(facts, *GPUS) == said
    assert topology.peers(with_links((), (), peers=Unreadable(unreadable="no")), *GPUS) == ()


def test_the_order_of_distances_ends_with_the_unknown() -> None:
    ranks = [topology.rank(one) for one in (*topology.DISTANCES, None)]
    assert ranks == sorted(set(ranks))
