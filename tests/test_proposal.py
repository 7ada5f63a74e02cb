"""Rails that the topology suggests: NICs of one kind, the closest GPU each, the rest told."""

from __future__ import annotations

from gdrcheck.facts import Facts, Unreadable
from gdrcheck.proposal import propose
from tests import facts as build
from tests.commands.support import two_sockets


def nodes_with(*devices: object, **changes: object) -> Facts:
    return build.facts(rdma_devices=devices, **changes)


def chosen(facts: Facts) -> list[tuple[str | None, str]]:
    return [(rail.gpu, rail.nic) for rail in propose(facts).rails]


def test_each_gpu_gets_the_nic_that_is_closest_and_of_the_kind_that_carries_most() -> None:
    assert chosen(two_sockets()) == [("gpu0", "mlx5_1"), ("gpu1", "mlx5_0")]


def test_more_nics_than_gpus_leave_the_distant_ones_out() -> None:
    near = build.rdma_device("mlx5_7")
    far = build.rdma_device("mlx5_1", slot=None)
    found = propose(nodes_with(far, near))
    assert [rail.nic for rail in found.rails] == ["mlx5_7"]
    assert found.left_out == (("mlx5_1", "every GPU has a NIC that is at least as close"),)
    assert found.unfit == ()


def test_without_gpus_every_nic_of_the_kind_is_a_rail() -> None:
    devices = [build.rdma_device(f"mlx5_{number}", slot=None) for number in range(3)]
    facts = nodes_with(*devices, pci=build.pci_tree(functions=()))
    assert chosen(facts) == [(None, "mlx5_0"), (None, "mlx5_1"), (None, "mlx5_2")]


def test_hardware_comes_before_software_however_fast_that_claims_to_be() -> None:
    soft = build.rdma_device("rxe0", slot=None, software=True, ports=(build.port(rate_gbps=9999),))
    found = propose(nodes_with(soft, build.rdma_device("mlx5_0")))
    assert [rail.nic for rail in found.rails] == ["mlx5_0"]
    assert found.left_out[0][0] == "rxe0"


def test_software_devices_alone_are_taken() -> None:
    soft = build.rdma_device("rxe0", slot=None, software=True)
    assert chosen(nodes_with(soft)) == [("gpu0", "rxe0")]


def test_port_is_named_when_it_is_not_the_first_or_not_the_only_one() -> None:
    one, two = build.port(), build.port(number=2)
    found = propose(nodes_with(build.rdma_device(ports=(one, two))))
    assert found.profile.rails is not None
    assert [nic.port for nic in found.profile.rails.nics] == [1]
    assert found.left_out == (("mlx5_0 port 2", "a NIC serves one rail, here by port 1"),)
    down = build.port(state="DOWN")
    found = propose(nodes_with(build.rdma_device(ports=(down, two))))
    assert found.profile.rails is not None
    assert [nic.port for nic in found.profile.rails.nics] == [2]
    assert [rail.port for rail in found.rails] == [2]


def test_devices_that_share_a_slot_are_named_by_name() -> None:
    found = propose(nodes_with(build.rdma_device("a"), build.rdma_device("b"), nvml=None))
    assert found.profile.rails is not None
    assert [nic.text() for nic in found.profile.rails.nics] == ["name a"]


def test_nothing_to_propose_says_why() -> None:
    why = Unreadable(unreadable="Permission denied")
    found = propose(build.facts(rdma_devices=why))
    assert found.profile.rails is None
    assert found.left_out == (
        ("every NIC", "the list of RDMA devices is unreadable: Permission denied"),
    )
    unknown = build.rdma_device(ports=(build.port(rate_gbps=why),))
    assert propose(nodes_with(unknown)).left_out == (
        ("mlx5_0", "rate or link layer of its port are unreadable"),
    )
