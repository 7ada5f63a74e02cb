"""The GPU of each rail: the closest, and the same one on every node of a kind."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.facts import Facts, PciFunction, PciTree, RdmaDevice, Unreadable
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail, gpu_nic_pairs, rails_with_gpus, resolve
from tests import facts as build

NEAR, FAR = "pci0000:16", "pci0000:80"


class Node:
    """Builds a node of switches, each with some NICs and GPUs; slots ascend in that order."""

    def __init__(self) -> None:
        self.functions: list[PciFunction] = []
        self.devices: list[RdmaDevice] = []
        self.gpus = 0

    def switch(self, nics: Sequence[str], gpus: int, root_bus: str = NEAR) -> Node:
        number = len(self.functions)
        node = 0 if root_bus == NEAR else 1
        top, up = f"0000:{number:02x}:00.0", f"0000:{number:02x}:01.0"
        self._add(build.bridge(top, None, "root port", root_bus=root_bus, numa_node=node))
        self._add(build.bridge(up, top, "upstream port", root_bus=root_bus, numa_node=node))
        for name in (*nics, *[""] * gpus):
            port = f"0000:{len(self.functions):02x}:02.0"
            self._add(build.bridge(port, up, "downstream port", root_bus=root_bus, numa_node=node))
            slot = f"0000:{len(self.functions):02x}:03.0"
            place = {"parent": port, "root_bus": root_bus, "numa_node": node}
            make = build.pci_function if name else build.gpu_function
            self._add(make(slot, **place))
            if name:
                self.devices.append(build.rdma_device(name, slot=slot))
        self.gpus += gpus
        return self

    def _add(self, function: PciFunction) -> None:
        self.functions.append(function)

    def without(self, *names: str) -> Node:
        """The node with these RDMA devices gone."""
        self.devices = [device for device in self.devices if device.name not in names]
        return self

    def without_gpu(self, number: int) -> Node:
        """The node with this GPU gone from the bus; the profile still promises it."""
        gone = [one for one in self.functions if one.is_nvidia_gpu][number]
        self.functions.remove(gone)
        return self

    def rails(self, *selectors: dict[str, object], count: int | None = None) -> tuple[Rail, ...]:
        return resolve(*self.promised_and_found(None, *selectors, count=count))

    def promised_and_found(
        self, gpus: int | None = None, *selectors: dict[str, object], count: int | None = None
    ) -> tuple[Profile, Facts]:
        """The profile, which promises ``gpus``, or all that the node was built with; the facts."""
        tree = PciTree(functions=tuple(self.functions), misplaced={})
        facts = build.facts(pci=tree, rdma_devices=tuple(self.devices))
        nics = list(selectors) or [{"name": "mlx5_*"}]
        promised = build.profile(
            gpus={"count": self.gpus if gpus is None else gpus, "model": "NVIDIA H200"},
            rails={"count": count or len(self.devices), "nics": nics},
        )
        return promised, facts


def pairs(rails: tuple[Rail, ...]) -> list[tuple[str, str | None, str | None]]:
    return [(rail.nic, rail.gpu, rail.distance) for rail in rails]


def two_switches() -> Node:
    return Node().switch(["mlx5_0", "mlx5_1"], 2).switch(["mlx5_2", "mlx5_3"], 2, FAR)


def test_each_rail_gets_the_gpu_that_is_closest_to_its_nic() -> None:
    assert pairs(two_switches().rails()) == [
        ("mlx5_0", "gpu0", "PIX"),
        ("mlx5_1", "gpu1", "PIX"),
        ("mlx5_2", "gpu2", "PIX"),
        ("mlx5_3", "gpu3", "PIX"),
    ]


def test_rails_are_the_same_places_whatever_the_devices_are_called() -> None:
    """Two nodes of one kind, whose kernels numbered the devices otherwise."""
    other = Node().switch(["mlx5_7", "mlx5_3"], 2).switch(["mlx5_0", "mlx5_10"], 2, FAR)
    here, there = two_switches().rails(), other.rails()
    assert [(rail.id, rail.gpu, rail.gpu_slot) for rail in here] == [
        (rail.id, rail.gpu, rail.gpu_slot) for rail in there
    ]
    slots = [rail.device.slot for rail in here if rail.device]
    assert slots == [rail.device.slot for rail in there if rail.device]
    assert [rail.nic for rail in there] == ["mlx5_7", "mlx5_3", "mlx5_0", "mlx5_10"]


def test_rails_named_by_slot_have_their_gpus_whatever_the_devices_are_called() -> None:
    slots = [{"slot": device.slot} for device in reversed(two_switches().devices)]
    other = Node().switch(["mlx5_7", "mlx5_3"], 2).switch(["mlx5_0", "mlx5_10"], 2, FAR)
    here, there = two_switches().rails(*slots), other.rails(*slots)
    assert [rail.gpu_slot for rail in here] == [rail.gpu_slot for rail in there]
    assert {rail.distance for rail in here} == {"PIX"}


def test_a_close_gpu_is_left_to_the_nic_that_is_close_to_it() -> None:
    """Rail 0 has none of its own: it must not take that of rail 1, which has the lowest number."""
    node = Node().switch(["mlx5_0"], 0).switch(["mlx5_1"], 1, FAR).switch([], 1, FAR)
    assert pairs(node.rails()) == [("mlx5_0", "gpu1", "SYS"), ("mlx5_1", "gpu0", "PIX")]


@pytest.mark.parametrize("dead", range(4))
def test_a_missing_nic_does_not_move_the_other_rails_to_other_gpus(dead: int) -> None:
    selectors = [{"name": f"mlx5_{number}"} for number in range(4)]
    whole = two_switches().rails(*selectors)
    hurt = two_switches().without(f"mlx5_{dead}").rails(*selectors, count=4)
    assert [rail.gpu for rail in hurt] == [rail.gpu for rail in whole]
    assert hurt[dead].distance is None
    assert hurt[dead].missing


@pytest.mark.parametrize("dead", range(4))
def test_a_missing_nic_moves_nothing_where_all_are_equally_far(dead: int) -> None:
    selectors = [{"name": f"mlx5_{number}"} for number in range(4)]
    flat = Node().switch(["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"], 4).without(f"mlx5_{dead}")
    assert [rail.gpu for rail in flat.rails(*selectors, count=4)] == [
        "gpu0",
        "gpu1",
        "gpu2",
        "gpu3",
    ]


def test_a_missing_gpu_leaves_it_open_whose_the_others_are() -> None:
    """Numbers above the missing one have shifted: gpu1 is now the GPU that was gpu2."""
    node = Node().switch(["mlx5_0"], 1).switch(["mlx5_1"], 1).switch(["mlx5_2"], 1, FAR)
    selectors = [{"name": f"mlx5_{number}", "gpu": number} for number in range(3)]
    for dead in range(3):
        hurt = Node().switch(["mlx5_0"], 1).switch(["mlx5_1"], 1).switch(["mlx5_2"], 1, FAR)
        hurt.without_gpu(dead)
        assert pairs(hurt.rails()) == [(f"mlx5_{number}", None, None) for number in range(3)]
        named = hurt.rails(*selectors)
        # The names stay what the profile says, for cases to have the same ones on every node.
        assert [rail.gpu for rail in named] == ["gpu0", "gpu1", "gpu2"]
        assert {(rail.gpu_slot, rail.distance) for rail in named} == {(None, None)}
    assert all(rail.gpu_slot for rail in node.rails(*selectors))


def test_a_gpu_too_many_leaves_it_open_as_well() -> None:
    node = Node().switch(["mlx5_0"], 1).switch(["mlx5_1"], 1, FAR)
    node.gpus = 1
    assert {rail.gpu_slot for rail in node.rails()} == {None}


def test_with_fewer_gpus_than_rails_the_closest_rails_have_them() -> None:
    node = Node().switch(["mlx5_0", "mlx5_1"], 0).switch(["mlx5_2", "mlx5_3"], 1, FAR)
    assert [rail.gpu for rail in node.rails()] == [None, None, "gpu0", None]


def test_with_more_gpus_than_rails_each_rail_has_one() -> None:
    node = Node().switch(["mlx5_0"], 2).switch(["mlx5_1"], 2, FAR)
    assert [(rail.gpu, rail.distance) for rail in node.rails()] == [
        ("gpu0", "PIX"),
        ("gpu2", "PIX"),
    ]


def test_a_gpu_that_the_profile_names_is_the_rails_and_no_others() -> None:
    selectors = [{"name": "mlx5_0", "gpu": 3}, *({"name": f"mlx5_{n}"} for n in (1, 2, 3))]
    assert pairs(two_switches().rails(*selectors)) == [
        ("mlx5_0", "gpu3", "SYS"),
        ("mlx5_1", "gpu1", "PIX"),
        ("mlx5_2", "gpu2", "PIX"),
        ("mlx5_3", "gpu0", "SYS"),
    ]


def test_a_named_gpu_that_is_not_there_stays_named_without_a_slot() -> None:
    node = Node().switch(["mlx5_0"], 1).without_gpu(0)
    rail = node.rails({"name": "mlx5_0", "gpu": 0})[0]
    assert (rail.gpu, rail.gpu_slot, rail.distance) == ("gpu0", None, None)


def test_a_rail_whose_nic_is_missing_keeps_the_gpu_that_is_named_for_it() -> None:
    node = Node().switch(["mlx5_0", "mlx5_1"], 2).without("mlx5_0")
    rails = node.rails({"name": "mlx5_0", "gpu": 1}, {"name": "mlx5_1"}, count=2)
    assert [(rail.gpu, rail.gpu_slot is not None) for rail in rails] == [
        ("gpu1", True),
        ("gpu0", True),
    ]


def test_without_promised_gpus_rails_have_none() -> None:
    facts = build.facts()
    promised = build.profile(gpus={"count": 0})
    assert [rail.gpu for rail in resolve(promised, facts)] == [None]


def test_an_unreadable_tree_gives_no_gpus() -> None:
    facts = build.facts(pci=Unreadable(unreadable="denied"))
    rail = resolve(build.profile(), facts)[0]
    assert (rail.gpu, rail.distance, rail.missing) == (None, None, None)


@given(st.permutations(range(6)))
def test_the_assignment_does_not_depend_on_the_order_of_the_facts(order: list[int]) -> None:
    node = Node().switch(["mlx5_0", "mlx5_1", "mlx5_2"], 2).switch(["mlx5_3"], 1, FAR)
    node = node.switch(["mlx5_4", "mlx5_5"], 3, FAR)
    whole = node.rails()
    node.devices = [node.devices[one] for one in order]
    assert node.rails() == whole
    assert len({rail.gpu for rail in whole}) == 6


def gpu_nics(node: Node, gpus: int | None = None) -> list[tuple[str, str | None, bool]]:
    profile, facts = node.promised_and_found(gpus)
    return [(one.where.text(), one.gpu_slot, one.on_rail) for one in gpu_nic_pairs(profile, facts)]


def test_every_gpu_is_paired_with_the_nic_of_every_rail() -> None:
    node = Node().switch(["mlx5_0"], 1).switch(["mlx5_1"], 1, FAR)
    there = [one.slot for one in node.functions if one.is_nvidia_gpu]
    assert gpu_nics(node) == [
        ("node1/gpu0/mlx5_0", there[0], True),
        ("node1/gpu0/mlx5_1", there[0], False),
        ("node1/gpu1/mlx5_0", there[1], False),
        ("node1/gpu1/mlx5_1", there[1], True),
    ]


def test_a_gpu_that_is_missing_keeps_its_pairs_and_none_is_known_to_be_a_rail() -> None:
    node = Node().switch(["mlx5_0"], 1).switch(["mlx5_1"], 1, FAR).without_gpu(0)
    left = next(one.slot for one in node.functions if one.is_nvidia_gpu)
    assert gpu_nics(node) == [
        ("node1/gpu0/mlx5_0", left, False),
        ("node1/gpu0/mlx5_1", left, False),
        ("node1/gpu1/mlx5_0", None, False),
        ("node1/gpu1/mlx5_1", None, False),
    ]


def test_every_rail_has_its_gpu_or_none() -> None:
    node = Node().switch(["mlx5_0", "mlx5_1"], 1)
    profile, facts = node.promised_and_found()
    slot = next(one.slot for one in node.functions if one.is_nvidia_gpu)
    found = rails_with_gpus(profile, facts)
    assert [(one.where.text(), one.gpu_number, one.gpu_slot) for one in found] == [
        ("node1/gpu0/mlx5_0", 0, slot),
        ("node1/mlx5_1", None, None),
    ]
    assert all(one.on_rail for one in found)


def test_without_promised_gpus_there_are_no_pairs() -> None:
    profile, facts = Node().switch(["mlx5_0"], 1).promised_and_found(gpus=0)
    assert gpu_nic_pairs(profile, facts) == ()
    assert rails_with_gpus(profile, facts) == ()
