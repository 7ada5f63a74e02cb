"""The RDMA probe on small trees: healthy, sparse, broken, hostile."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdrcheck import probes
from gdrcheck.facts import Port, RdmaDevice, Unreadable, VerbsDevice
from gdrcheck.probes import rdma
from tests.probes import trees

OPENED = VerbsDevice(name="mlx5_0", error=None, error_number=None, ports=())
FUNCTION = "sys/devices/pci0000:00/0000:19:00.0"
PORT = f"{FUNCTION}/infiniband/mlx5_0/ports/1"


def read_devices(
    root: Path, survey: tuple[VerbsDevice, ...] | Unreadable
) -> tuple[RdmaDevice, ...] | Unreadable:
    return rdma.answered(rdma.read_devices(root), survey)


def device_of(root: Path) -> RdmaDevice:
    devices = read_devices(root, (OPENED,))
    assert not isinstance(devices, Unreadable)
    return devices[0]


def port_of(root: Path) -> Port:
    return device_of(root).ports[0]


def nic(root: Path, **changes: str) -> None:
    trees.pci_nic(root, "mlx5_0", "0000:19:00.0", "eth1", **changes)


def test_a_pci_device_is_read_whole(tmp_path: Path) -> None:
    nic(tmp_path)
    device = device_of(tmp_path)
    assert (device.name, device.slot, device.driver) == ("mlx5_0", "0000:19:00.0", "mlx5_core")
    assert (device.netdev_names, device.uverbs, device.software) == (("eth1",), "uverbs0", False)
    assert (device.firmware, device.board) == ("28.43.2026", "MT_0000000838")
    assert device.verbs == OPENED
    (port,) = device.ports
    assert (port.state, port.physical_state, port.rate_gbps) == ("ACTIVE", "LinkUp", 400.0)
    assert (port.lanes, port.speed, port.link_layer) == (4, "NDR", "ethernet")
    assert (port.pkeys, port.traffic_class) == ((0xFFFF,), None)
    assert port.counters == {"link_downed": 0, "out_of_sequence": 7}
    assert [(gid.index, gid.type, gid.netdev) for gid in port.gids] == [
        (0, "RoCE v2", "eth1"),
        (1, "RoCE v2", "eth1"),
    ]


def test_a_software_device_takes_slot_and_netdev_from_its_parent(tmp_path: Path) -> None:
    trees.software_nic(tmp_path, "rxe0", "data0", "0000:81:00.0")
    device = device_of(tmp_path)
    assert (device.slot, device.netdev_names, device.driver) == (
        "0000:81:00.0",
        ("data0",),
        "software",
    )
    assert (device.software, device.firmware, device.board) == (True, None, None)
    assert (device.ports[0].rate_gbps, device.ports[0].lanes) == (2.5, 1)


def test_a_software_iwarp_device_is_one_although_it_links_to_the_function_below(
    tmp_path: Path,
) -> None:
    nic(tmp_path)
    trees.write(tmp_path, {f"{FUNCTION}/infiniband/mlx5_0/node_desc": "Software iWARP stack\n"})
    device = device_of(tmp_path)
    assert (device.software, device.driver, device.netdev_names) == (True, "software", ("eth1",))


def test_a_parent_that_is_no_interface_leads_nowhere(tmp_path: Path) -> None:
    trees.software_nic(tmp_path, "rxe0", "data0", "0000:81:00.0")
    trees.write(tmp_path, {"sys/class/infiniband/rxe0/parent": "../../../etc\n"})
    device = device_of(tmp_path)
    assert (device.software, device.slot, device.netdevs) == (True, None, ())


def test_no_rdma_subsystem_is_no_devices_and_an_unreadable_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "sys/class").mkdir(parents=True)
    assert read_devices(tmp_path, ()) == ()
    assert isinstance(read_devices(tmp_path / "nowhere", ()), Unreadable)


def test_what_libibverbs_did_not_say_is_unreadable(tmp_path: Path) -> None:
    nic(tmp_path)
    blind = Unreadable(unreadable="pyverbs is not installed")
    for survey in (blind, ()):
        devices = read_devices(tmp_path, survey)
        assert not isinstance(devices, Unreadable)
        assert isinstance(devices[0].verbs, Unreadable)


@pytest.mark.parametrize(
    ("file", "field"),
    [
        ("state", "state"),
        ("phys_state", "physical_state"),
        ("rate", "rate_gbps"),
        ("rate", "lanes"),
        ("rate", "speed"),
        ("link_layer", "link_layer"),
        ("lid", "lid"),
        ("pkeys/0", "pkeys"),
    ],
)
@pytest.mark.parametrize("text", ["", "\n", "nonsense", "\0\0", "4:", "é"])
def test_a_broken_file_is_unreadable_and_says_which(
    tmp_path: Path, file: str, field: str, text: str
) -> None:
    nic(tmp_path, **{file: text})
    value = getattr(port_of(tmp_path), field)
    assert isinstance(value, Unreadable)
    assert file in value.unreadable


@pytest.mark.parametrize(
    ("text", "rate_gbps", "lanes", "speed"),
    [
        ("2.5 Gb/sec (1X SDR)", 2.5, 1, "SDR"),
        ("100 Gb/sec (2X HDR)", 100.0, 2, "HDR"),
        ("10 Gb/sec (4X)", 10.0, 4, None),
        ("800 Gb/sec", 800.0, None, None),
        ("0 Gb/sec (0X SDR)", 0.0, None, "SDR"),
    ],
)
def test_rate_lanes_and_speed_are_told_apart(
    tmp_path: Path, text: str, rate_gbps: float, lanes: int | None, speed: str | None
) -> None:
    nic(tmp_path, rate=text + "\n")
    port = port_of(tmp_path)
    assert port.rate_gbps == rate_gbps
    assert (port.lanes == lanes) if lanes else isinstance(port.lanes, Unreadable)
    assert (port.speed == speed) if speed else isinstance(port.speed, Unreadable)


def test_partition_keys_are_those_that_are_not_zero_in_the_order_of_the_table(
    tmp_path: Path,
) -> None:
    nic(tmp_path, **{"pkeys/2": "0x8001\n", "pkeys/10": "0x7fff\n"})
    assert port_of(tmp_path).pkeys == (0xFFFF, 0x8001, 0x7FFF)


def test_a_port_without_a_partition_table_has_no_keys(tmp_path: Path) -> None:
    nic(tmp_path)
    for name in ("0", "1"):
        (tmp_path / PORT / "pkeys" / name).unlink()
    (tmp_path / PORT / "pkeys").rmdir()
    assert port_of(tmp_path).pkeys == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Global tclass=106\n", 106),
        ("Global tclass=0\n", 0),
        ("Global tclass=96\ntclass=104 dst_ip=192.0.2.1\n", 96),
        ("tclass=104 dst_ip=192.0.2.1\n", None),
        ("", None),
        ("\n", None),
    ],
)
def test_the_override_of_the_traffic_class(tmp_path: Path, text: str, expected: int | None) -> None:
    nic(tmp_path)
    trees.write(tmp_path, {f"{FUNCTION}/infiniband/mlx5_0/tc/1/traffic_class": text})
    assert port_of(tmp_path).traffic_class == expected


@pytest.mark.parametrize("text", ["Global tclass=-1\n", "Global tclass=256\n", "106\n", "é\n"])
def test_an_override_of_unknown_form_is_not_none(tmp_path: Path, text: str) -> None:
    nic(tmp_path)
    trees.write(tmp_path, {f"{FUNCTION}/infiniband/mlx5_0/tc/1/traffic_class": text})
    found = port_of(tmp_path).traffic_class
    assert isinstance(found, Unreadable)
    assert "traffic_class" in found.unreadable


def test_a_device_without_uverbs_says_so(tmp_path: Path) -> None:
    nic(tmp_path)
    (tmp_path / "sys/class/infiniband_verbs/uverbs0/ibdev").write_text("other\n")
    assert isinstance(device_of(tmp_path).uverbs, Unreadable)


FILES = (
    "state",
    "rate",
    "lid",
    "gids/1",
    "pkeys/1",
    "counters/link_downed",
    "hw_counters/lifespan",
)
ELSEWHERE = ("../../fw_ver", "../../tc/1/traffic_class", "../../node_desc", "../../parent")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(data=st.binary(max_size=300), file=st.sampled_from(FILES + ELSEWHERE))
def test_any_bytes_in_a_file_are_survived(tmp_path: Path, data: bytes, file: str) -> None:
    root = tmp_path / "tree"
    if not root.exists():
        nic(root)
    path = root / PORT / file
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_bytes() if path.exists() else None
    path.write_bytes(data)
    try:
        device = device_of(root)
    finally:
        path.unlink() if before is None else path.write_bytes(before)
    assert device.ports[0].link_layer == "ethernet"
    assert RdmaDevice.model_validate_json(device.model_dump_json()) == device


@pytest.mark.parametrize("name", ["mlx5 0", "mlx5_0,x", "x" * 65, ".hidden"])
def test_a_device_with_a_name_that_is_none_makes_the_list_unreadable(
    tmp_path: Path, name: str
) -> None:
    nic(tmp_path)
    (tmp_path / "sys/class/infiniband" / name).mkdir()
    devices = read_devices(tmp_path, ())
    assert isinstance(devices, Unreadable)
    assert "no plain device name" in devices.unreadable


def test_names_that_are_no_numbers_are_no_ports(tmp_path: Path) -> None:
    nic(tmp_path)
    for name in ("01", "-1", "x", "\u0663", "999999"):
        (tmp_path / PORT / ".." / name).mkdir()
    assert [port.number for port in device_of(tmp_path).ports] == [1]


def bond(root: Path) -> None:
    """A bond of the NIC, which the GIDs name in place of the NIC's own interface."""
    nic(root, **{f"gid_attrs/ndevs/{index}": "bond0\n" for index in (0, 1)})
    files = trees.netdev_files("sys/class/net/bond0", mtu="9000\n", ifindex="7\n", iflink="7\n")
    trees.write(root, files)


def test_a_bond_is_an_interface_of_the_device_whose_gids_name_it(tmp_path: Path) -> None:
    bond(tmp_path)
    trees.write(tmp_path, trees.routes("bond0 000064C6 00000000 0001 00FFFFFF"))
    own, above = device_of(tmp_path).netdevs
    assert (own.name, own.mtu_bytes) == ("eth1", 4200)
    assert (above.name, above.mtu_bytes, above.up) == ("bond0", 9000, True)
    assert above.subnets == ("198.100.0.0/24",)


def test_an_interface_of_a_vlan_is_none_of_the_device(tmp_path: Path) -> None:
    bond(tmp_path)
    trees.write(tmp_path, {"sys/class/net/bond0/iflink": "3\n"})
    assert device_of(tmp_path).netdev_names == ("eth1",)


def test_the_settings_of_a_bond_are_read_as_well(tmp_path: Path) -> None:
    bond(tmp_path)
    trees.write(tmp_path, {"proc/sys/net/ipv4/conf/bond0/arp_ignore": "1\n"})
    found = probes.collect("a", tmp_path).host.sysctls
    assert found == {"net.ipv4.conf.bond0.arp_ignore": "1"}


def test_an_interface_that_this_namespace_does_not_have_is_none(tmp_path: Path) -> None:
    nic(tmp_path, **{"gid_attrs/ndevs/1": "macvlan7\n", "gid_attrs/ndevs/0": "../../etc\n"})
    assert device_of(tmp_path).netdev_names == ("eth1",)
