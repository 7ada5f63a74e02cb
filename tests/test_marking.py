"""Traffic class and partition of a first profile: as every rail has them, or left out by name."""

from __future__ import annotations

import pytest

from gdrcheck import marking
from gdrcheck.facts import Unreadable
from gdrcheck.rails import Rail
from tests import facts as build

WHY = Unreadable(unreadable="traffic_class: Permission denied")


def read(*ports: dict[str, object]) -> tuple[dict[str, object], list[tuple[str, str]]]:
    """What is taken from rails with these ports, one each."""
    return marking.read(
        [
            Rail(
                id=number,
                node="node1",
                gpu=None,
                nic=f"mlx5_{number}",
                device=build.rdma_device(f"mlx5_{number}", ports=(build.port(**port),)),
            )
            for number, port in enumerate(ports)
        ]
    )


def roce(traffic_class: object) -> dict[str, object]:
    return {"link_layer": "ethernet", "traffic_class": traffic_class}


def test_class_that_is_forced_on_all_roce_ports_is_taken() -> None:
    assert read(roce(106), roce(106)) == ({"traffic_class": 106}, [])


@pytest.mark.parametrize(
    ("classes", "why"),
    [
        ((106, 96), "differs: 106, 96"),
        ((106, None), "differs: 106, None"),
        ((None, None), "none is forced on the NICs; which one applications ask for is not in the "),
        ((106, WHY), "traffic_class: Permission denied"),
        ((256, 256), "256 is no traffic class"),
    ],
)
def test_class_that_is_not_known_of_all_is_left_out(classes: tuple[object, ...], why: str) -> None:
    values, left_out = read(*map(roce, classes))
    assert values == {}
    ((key, said),) = left_out
    assert key == "traffic_class"
    assert said.startswith(why)


@pytest.mark.parametrize(
    ("pkeys", "taken"),
    [
        ((0xFFFF,), None),
        ((0x7FFF, 0xFFFF), None),
        ((), None),
        ((0x8001, 0x7FFF), 0x8001),
        ((0x0001, 0x8001), 0x8001),
        ((0x0001,), 0x0001),
    ],
)
def test_partition_is_that_of_the_first_key_unless_it_is_the_default_one(
    pkeys: tuple[int, ...], taken: int | None
) -> None:
    values = {} if taken is None else {"pkey": taken}
    assert read({"pkeys": pkeys}, {"pkeys": pkeys}) == (values, [])


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        (((0x8001,), (0x8002,)), "differs: 0x0001, 0x0002"),
        (((0xFFFF, 0x8002),), "the default one comes first; ports are in 0x0002 as well"),
        ((Unreadable(unreadable="pkeys: gone"),), "pkeys: gone"),
    ],
)
def test_partition_that_is_not_clear_is_left_out(tables: tuple[object, ...], why: str) -> None:
    assert read(*({"pkeys": table} for table in tables)) == ({}, [("pkey", why)])


def test_nothing_is_taken_of_no_rail() -> None:
    assert marking.read([]) == ({}, [])
