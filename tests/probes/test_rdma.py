"""The RDMA probe on small trees: healthy, sparse, broken, hostile."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdrcheck.facts import Unreadable
from gdrcheck.probes.rdma import read_devices
from tests.probes import trees


def test_a_pci_device_is_read_whole(tmp_path: Path) -> None:
    trees.pci_nic(tmp_path, "mlx5_0", "0000:19:00.0", "eth1")
    (device,) = read_devices(tmp_path)
    assert (device.name, device.slot, device.driver) == ("mlx5_0", "0000:19:00.0", "mlx5_core")
    assert (device.netdevs, device.uverbs, device.software) == (("eth1",), "uverbs0", False)
    (port,) = device.ports
    assert (port.state, port.physical_state, port.rate_gbps) == ("ACTIVE", "LinkUp", 400.0)
    assert port.link_layer == "ethernet"
    assert [(gid.index, gid.type, gid.netdev) for gid in port.gids] == [
        (0, "RoCE v2", "eth1"),
        (1, "RoCE v2", "eth1"),
    ]


def test_a_software_device_takes_slot_and_netdev_from_its_parent(tmp_path: Path) -> None:
    trees.software_nic(tmp_path, "rxe0", "data0", "0000:81:00.0")
    (device,) = read_devices(tmp_path)
    assert (device.slot, device.netdevs, device.software) == ("0000:81:00.0", ("data0",), True)
    assert device.ports[0].rate_gbps == 2.5


def test_no_rdma_subsystem_is_no_devices_and_an_unreadable_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "sys/class").mkdir(parents=True)
    assert read_devices(tmp_path) == ()
    assert isinstance(read_devices(tmp_path / "nowhere"), Unreadable)


@pytest.mark.parametrize(
    ("file", "field"),
    [
        ("state", "state"),
        ("phys_state", "physical_state"),
        ("rate", "rate_gbps"),
        ("link_layer", "link_layer"),
        ("lid", "lid"),
    ],
)
@pytest.mark.parametrize("text", ["", "\n", "nonsense", "\0\0", "4:", "é"])
def test_a_broken_file_is_unreadable_and_says_which(
    tmp_path: Path, file: str, field: str, text: str
) -> None:
    trees.pci_nic(tmp_path, "mlx5_0", "0000:19:00.0", "eth1", **{file: text})
    (device,) = read_devices(tmp_path)
    value = getattr(device.ports[0], field)
    assert isinstance(value, Unreadable)
    assert file in value.unreadable


def test_a_device_without_uverbs_says_so(tmp_path: Path) -> None:
    trees.pci_nic(tmp_path, "mlx5_0", "0000:19:00.0", "eth1")
    (tmp_path / "sys/class/infiniband_verbs/uverbs0/ibdev").write_text("other\n")
    (device,) = read_devices(tmp_path)
    assert isinstance(device.uverbs, Unreadable)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.binary(max_size=300), file=st.sampled_from(["state", "rate", "lid", "gids/1"]))
def test_any_bytes_in_a_port_file_are_survived(tmp_path: Path, data: bytes, file: str) -> None:
    root = tmp_path / "tree"
    if not root.exists():
        trees.pci_nic(root, "mlx5_0", "0000:19:00.0", "eth1")
    (root / "sys/class/infiniband/mlx5_0/ports/1" / file).write_bytes(data)
    (device,) = read_devices(root)
    assert device.ports[0].link_layer == "ethernet"


@pytest.mark.parametrize("name", ["mlx5 0", "mlx5_0,x", "x" * 65, ".hidden"])
def test_a_device_with_a_name_that_is_none_makes_the_list_unreadable(
    tmp_path: Path, name: str
) -> None:
    trees.pci_nic(tmp_path, "mlx5_0", "0000:19:00.0", "eth1")
    (tmp_path / "sys/class/infiniband" / name).mkdir()
    devices = read_devices(tmp_path)
    assert isinstance(devices, Unreadable)
    assert "no plain device name" in devices.unreadable
