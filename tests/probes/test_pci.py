"""The PCI tree as read from sysfs: what is in it, where, and what happens to bad input."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdrcheck.facts import Acs, Link, PciFunction, PciSettings, PciTree, Unreadable
from gdrcheck.probes import collected, pci
from tests.captured.config_space import Express
from tests.captured.pci import Lanes, Pci, Place
from tests.captured.tree import Tree

WIDE = Lanes(5, 16)
NIC, GPU, NVSWITCH = (0x15B3, 0x1021, 0x020700), (0x10DE, 0x2335, 0x030200), (0x10DE, 1, 0x068000)
NIC_SLOT, GPU_SLOT = "0000:1a:00.0", "0000:1b:00.0"
PORTS = ("0000:16:01.0", "0000:17:00.0", "0000:18:00.0", "0000:18:01.0")


class Machine:
    """One switch with a NIC and a GPU, and functions that are none of our business."""

    def __init__(self, *, group_type: str | None = "identity") -> None:
        self.tree = Tree()
        self.pci = Pci(self.tree, group_type=group_type)
        self.bus = self.pci.host_bridge("0000:16", numa_node=1)
        root_port = self.pci.root_port(self.bus, PORTS[0], WIDE)
        upstream = self.pci.upstream(root_port, PORTS[1], WIDE)
        self.nic_port = self.pci.downstream(upstream, PORTS[2], WIDE)
        gpu_port = self.pci.downstream(upstream, PORTS[3], WIDE)
        express = Express(relaxed_ordering=True, read_request=4096)
        self.nic = self.pci.function(
            self.nic_port, NIC_SLOT, NIC, "mlx5_core", lanes=WIDE, express=express
        )
        self.gpu = self.pci.gpu(gpu_port, GPU_SLOT, 0x2335, 256 << 30, lanes=WIDE)
        self.pci.function(self.bus, "0000:16:00.0", (0x8086, 1, 0x088000), None)
        self.pci.function(self.bus, "0000:16:02.0", (0x8086, 1, 0x010802), "nvme")

    def put(self, place: Place, **files: str) -> None:
        self.tree.put(place.folder, files)

    def read(self, root: Path, *also: str, collector: bool = True) -> PciTree:
        if collector:
            host = {"version": 1, "ran_at_s": 1.0, "complaints": []}
            self.tree.put("run/gdrcheck/host", {"host.json": json.dumps(host)})
        self.tree.write(root)
        return read(root, *also)


def read(root: Path, *also: str) -> PciTree:
    tree = pci.read_tree(root, collected.read(root), also)
    assert isinstance(tree, PciTree), tree
    return tree


def function(tree: PciTree, slot: str) -> PciFunction:
    found = tree.function(slot)
    assert found is not None
    return found


def slots(tree: PciTree) -> list[str]:
    return [one.slot for one in tree.functions]


def link(tree: PciTree, slot: str) -> Link:
    found = function(tree, slot).link
    assert found is not None
    return found


def test_the_tree_holds_gpus_nics_and_the_bridges_above_them_only(tmp_path: Path) -> None:
    tree = Machine().read(tmp_path)
    assert slots(tree) == [*PORTS, NIC_SLOT, GPU_SLOT]
    assert tree.misplaced == {}
    assert [one.slot for one in tree.nvidia_gpus] == [GPU_SLOT]


def test_a_function_is_below_the_last_bridge_of_its_path(tmp_path: Path) -> None:
    tree = Machine().read(tmp_path)
    parents = {one.slot: one.parent for one in tree.functions}
    assert parents == {
        PORTS[0]: None,
        PORTS[1]: PORTS[0],
        PORTS[2]: PORTS[1],
        PORTS[3]: PORTS[1],
        NIC_SLOT: PORTS[2],
        GPU_SLOT: PORTS[3],
    }
    assert {one.root_bus for one in tree.functions} == {"pci0000:16"}


def test_what_sysfs_says_of_a_function(tmp_path: Path) -> None:
    nic = function(Machine().read(tmp_path), NIC_SLOT)
    assert (nic.vendor, nic.device, nic.class_code) == NIC
    assert (nic.driver, nic.numa_node, nic.iommu_group_type) == ("mlx5_core", 1, "identity")
    assert (nic.aer_fatal, nic.aer_nonfatal) == (0, 0)
    assert nic.link == Link(current_gts=32, max_gts=32, current_width=16, max_width=16)


def test_the_memory_bars_are_read_with_their_sizes(tmp_path: Path) -> None:
    gpu = function(Machine().read(tmp_path), GPU_SLOT)
    assert gpu.bars_bytes == (16 << 20, 256 << 30, 32 << 20)


def test_a_port_of_io_addresses_is_no_memory_bar(tmp_path: Path) -> None:
    machine = Machine()
    machine.put(machine.nic, resource="0x0000000000001000 0x000000000000107f 0x0000000000040101")
    assert function(machine.read(tmp_path), NIC_SLOT).bars_bytes == ()


def test_minus_one_is_no_numa_node(tmp_path: Path) -> None:
    machine = Machine()
    machine.put(machine.nic, numa_node="-1")
    assert function(machine.read(tmp_path), NIC_SLOT).numa_node is None


def test_without_an_iommu_there_is_no_group(tmp_path: Path) -> None:
    tree = Machine(group_type=None).read(tmp_path)
    assert function(tree, NIC_SLOT).iommu_group_type is None


def test_uncorrectable_errors_are_the_totals(tmp_path: Path) -> None:
    machine = Machine()
    machine.put(machine.nic, aer_dev_fatal="DLP 3\nTOTAL_ERR_FATAL 3")
    machine.put(machine.nic, aer_dev_nonfatal="CmpltTO 2\nUnsupReq 5\nTOTAL_ERR_NONFATAL 7")
    nic = function(machine.read(tmp_path), NIC_SLOT)
    assert (nic.aer_fatal, nic.aer_nonfatal) == (3, 7)


def test_a_function_without_error_counters_has_none(tmp_path: Path) -> None:
    machine = Machine()
    del machine.tree.files[f"{machine.nic.folder}/aer_dev_fatal"]
    assert function(machine.read(tmp_path), NIC_SLOT).aer_fatal is None


def test_a_nic_that_no_driver_has_taken_is_in_the_tree(tmp_path: Path) -> None:
    machine = Machine()
    machine.pci.function(machine.bus, "0000:16:05.0", (0x15B3, 0x101D, 0x020000), None)
    assert function(machine.read(tmp_path), "0000:16:05.0").driver is None


def test_a_switch_of_nvlink_is_in_the_tree_and_no_gpu(tmp_path: Path) -> None:
    machine = Machine()
    machine.pci.function(machine.bus, "0000:16:06.0", NVSWITCH, "nvidia-nvswitch")
    tree = machine.read(tmp_path)
    assert function(tree, "0000:16:06.0").is_nvswitch
    assert [one.slot for one in tree.nvidia_gpus] == [GPU_SLOT]


def test_functions_that_are_asked_for_are_in_the_tree(tmp_path: Path) -> None:
    tree = Machine().read(tmp_path, "0000:16:02.0", "0000:99:00.0")
    assert function(tree, "0000:16:02.0").driver == "nvme"
    assert set(tree.misplaced) == {"0000:99:00.0"}


def test_gpus_are_numbered_by_numbers_not_by_letters(tmp_path: Path) -> None:
    machine = Machine()
    for domain in ("10000", "2000"):
        bus = machine.pci.host_bridge(f"{domain}:00")
        machine.pci.gpu(bus, f"{domain}:01:00.0", 1, 1 << 30, lanes=WIDE)
    gpus = machine.read(tmp_path).nvidia_gpus
    assert [one.slot for one in gpus] == [GPU_SLOT, "2000:01:00.0", "10000:01:00.0"]


def test_a_domain_behind_a_volume_management_device_is_its_own(tmp_path: Path) -> None:
    machine = Machine()
    device = machine.pci.function(machine.bus, "0000:16:0e.0", (0x8086, 0x28C0, 0x010400), "vmd")
    inner = Place(f"{device.folder}/pci10000:e0", -1)
    port = machine.pci.root_port(inner, "10000:e0:06.0", WIDE)
    machine.pci.function(port, "10000:e1:00.0", NIC, "mlx5_core", lanes=WIDE)
    nic = function(machine.read(tmp_path), "10000:e1:00.0")
    assert (nic.root_bus, nic.parent) == ("pci10000:e0", "10000:e0:06.0")


def test_a_host_bridge_may_lie_below_platform_devices(tmp_path: Path) -> None:
    machine = Machine()
    bus = Place("sys/devices/platform/soc/40000000.pcie/pci0009:00", -1)
    machine.pci.gpu(bus, "0009:01:00.0", 1, 1 << 30, lanes=WIDE)
    gpu = function(machine.read(tmp_path), "0009:01:00.0")
    assert (gpu.root_bus, gpu.parent) == ("pci0009:00", None)


def test_components_that_are_no_functions_are_no_bridges(tmp_path: Path) -> None:
    machine = Machine()
    inner = Place(f"{machine.nic_port.folder}/virtio1", -1)
    machine.pci.function(inner, "0000:19:00.0", NIC, None)
    assert function(machine.read(tmp_path), "0000:19:00.0").parent == PORTS[2]


# Links.


@pytest.mark.parametrize("speed", ["8.0 GT/s PCIe", "8.0 GT/s", "8 GT/s"])
def test_speeds_of_old_and_new_kernels_are_read(tmp_path: Path, speed: str) -> None:
    machine = Machine()
    machine.put(machine.nic, current_link_speed=speed, current_link_width="4")
    assert link(machine.read(tmp_path), NIC_SLOT) == Link(
        current_gts=8, max_gts=32, current_width=4, max_width=16
    )


@pytest.mark.parametrize(("speed", "width"), [("Unknown", "255"), ("Unknown speed", "0")])
def test_an_integrated_function_has_no_link(tmp_path: Path, speed: str, width: str) -> None:
    machine = Machine()
    machine.put(machine.nic, current_link_speed=speed, current_link_width="0")
    machine.put(machine.nic, max_link_speed=speed, max_link_width=width)
    assert function(machine.read(tmp_path), NIC_SLOT).link is None


@pytest.mark.parametrize("width", ["0", "255"])
def test_a_port_that_announces_nothing_has_no_link(tmp_path: Path, width: str) -> None:
    """Its status is that of what is plugged in; kernels print an empty width in two ways."""
    machine = Machine()
    machine.put(machine.nic_port, max_link_speed="Unknown", max_link_width=width)
    tree = machine.read(tmp_path)
    assert function(tree, machine.nic_port.slot).link is None
    assert link(tree, NIC_SLOT).max_width == 16


def test_a_function_without_link_files_has_no_link(tmp_path: Path) -> None:
    machine = Machine()
    machine.pci.function(machine.bus, "0000:16:05.0", NIC, None)
    assert function(machine.read(tmp_path), "0000:16:05.0").link is None


def test_a_virtual_function_of_a_virtual_machine_has_no_link(tmp_path: Path) -> None:
    machine = Machine()
    machine.put(machine.nic, current_link_speed="Unknown", current_link_width="0")
    assert function(machine.read(tmp_path), NIC_SLOT).link is None


def virtual(machine: Machine, kind: tuple[int, int, int] = NIC, **changes: str) -> str:
    """A virtual function of the NIC; its slot."""
    slot = "0000:1a:00.1"
    express = Express(relaxed_ordering=False, read_request=128)
    place = machine.pci.function(
        machine.nic_port, slot, kind, "mlx5_core", lanes=Lanes(0, 0, 5, 16), express=express
    )
    machine.tree.link(f"{place.folder}/physfn", machine.nic.folder)
    machine.put(machine.nic, **changes)
    return slot


def test_a_virtual_function_has_link_and_settings_of_its_physical_function(tmp_path: Path) -> None:
    machine = Machine()
    slot = virtual(machine, current_link_width="8")
    tree = machine.read(tmp_path, slot)
    assert link(tree, slot).current_width == 8
    found = function(tree, slot).settings
    assert isinstance(found, PciSettings)
    assert (found.relaxed_ordering, found.max_read_request_bytes) == (True, 4096)


@pytest.mark.parametrize("kind", [NIC, GPU])
def test_a_virtual_function_nobody_asked_for_is_not_in_the_tree(
    tmp_path: Path, kind: tuple[int, int, int]
) -> None:
    machine = Machine()
    slot = virtual(machine, kind)
    tree = machine.read(tmp_path)
    assert tree.function(slot) is None
    assert len(tree.nvidia_gpus) == 1


@pytest.mark.parametrize(
    ("file", "text", "word"),
    [
        ("current_link_width", "63", "does not answer"),
        ("current_link_width", "0", "0 lanes"),
        ("current_link_width", "x16", "not a number"),
        ("max_link_width", "255", "255 lanes"),
        ("current_link_width", "", "empty"),
        ("current_link_width", "9" * 5000, "not a number"),
    ],
)
def test_a_width_that_says_nothing_is_unreadable(
    tmp_path: Path, file: str, text: str, word: str
) -> None:
    machine = Machine()
    machine.put(machine.nic, **{file: text})
    found = link(machine.read(tmp_path), NIC_SLOT)
    width = found.current_width if file.startswith("current") else found.max_width
    assert isinstance(width, Unreadable)
    assert word in width.unreadable
    assert not width.privilege


@pytest.mark.parametrize("text", ["Unknown", "fast", "32 GT/s PCIe and more", "GT/s", "\0"])
def test_a_speed_that_says_nothing_is_unreadable(tmp_path: Path, text: str) -> None:
    machine = Machine()
    machine.put(machine.nic, current_link_speed=text)
    assert isinstance(link(machine.read(tmp_path), NIC_SLOT).current_gts, Unreadable)


# Settings.


def test_settings_come_from_the_host_collector(tmp_path: Path) -> None:
    tree = Machine().read(tmp_path)
    port = function(tree, PORTS[2]).settings
    assert isinstance(port, PciSettings)
    assert (port.port_type, port.acs) == ("downstream port", Acs(enabled=()))


def test_without_collector_and_privilege_settings_are_unreadable_by_privilege(
    tmp_path: Path,
) -> None:
    found = function(Machine().read(tmp_path, collector=False), NIC_SLOT).settings
    assert isinstance(found, Unreadable)
    assert found.privilege


def test_without_collector_root_reads_the_settings_itself(tmp_path: Path) -> None:
    machine = Machine()
    files = machine.tree.files
    files[f"{machine.nic.folder}/config"] = files[f"run/gdrcheck/host/config/{NIC_SLOT}"]
    found = function(machine.read(tmp_path, collector=False), NIC_SLOT).settings
    assert isinstance(found, PciSettings)
    assert found.max_read_request_bytes == 4096


@pytest.mark.parametrize("data", [b"", b"\xff" * 4096, b"short", b"\x00" * 64])
def test_a_broken_file_of_the_collector_is_unreadable_and_no_matter_of_privilege(
    tmp_path: Path, data: bytes
) -> None:
    machine = Machine()
    machine.tree.files[f"run/gdrcheck/host/config/{NIC_SLOT}"] = data
    found = function(machine.read(tmp_path), NIC_SLOT).settings
    assert isinstance(found, Unreadable)
    assert NIC_SLOT in found.unreadable
    assert not found.privilege


# Bad trees.


def test_a_machine_without_pci_has_an_empty_tree(tmp_path: Path) -> None:
    (tmp_path / "sys/bus").mkdir(parents=True)
    assert read(tmp_path) == PciTree(functions=(), misplaced={})


@pytest.mark.parametrize("folder", ["", "sys", "sys/bus/pci"])
def test_a_tree_that_cannot_be_listed_is_unreadable(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    assert isinstance(pci.read_tree(tmp_path, collected.read(tmp_path), ()), Unreadable)


def entry(root: Path, name: str, target: str) -> None:
    (root / "sys/bus/pci/devices" / name).symlink_to(target)


def test_links_to_nowhere_in_circles_and_out_of_the_tree_are_misplaced(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside/pci0000:00/0000:03:00.0"
    outside.mkdir(parents=True)
    for name, text in (("vendor", "0x10de"), ("device", "0x1"), ("class", "0x030200")):
        (outside / name).write_text(text)
    Machine().read(root)
    entry(root, "0000:01:00.0", "nowhere")
    entry(root, "0000:02:00.0", "0000:02:00.0")
    entry(root, "0000:03:00.0", str(outside))
    entry(root, "0000:04:00.0", f"../../../devices/pci0000:16/{PORTS[0]}")
    entry(root, "no slot", "nowhere")
    tree = read(root, "0000:04:00.0")
    assert set(tree.misplaced) == {
        "0000:01:00.0",
        "0000:02:00.0",
        "0000:03:00.0",
        "0000:04:00.0",
        "no slot",
    }
    assert "out of the tree" in tree.misplaced["0000:03:00.0"]
    assert slots(tree) == [*PORTS, NIC_SLOT, GPU_SLOT]


def test_a_file_that_is_a_link_out_of_the_tree_is_not_read(tmp_path: Path) -> None:
    root, secret = tmp_path / "root", tmp_path / "secret"
    secret.write_text("0x10de")
    machine = Machine()
    machine.read(root)
    for name in ("vendor", "aer_dev_fatal"):
        path = root / machine.gpu.folder / name
        path.unlink()
        path.symlink_to(secret)
    tree = read(root)
    assert tree.function(GPU_SLOT) is None
    assert "plain file" in tree.misplaced[GPU_SLOT]


def test_a_pipe_in_place_of_a_file_does_not_hang(tmp_path: Path) -> None:
    machine = Machine()
    machine.read(tmp_path)
    path = tmp_path / machine.nic.folder / "numa_node"
    path.unlink()
    os.mkfifo(path)
    assert isinstance(function(read(tmp_path), NIC_SLOT).numa_node, Unreadable)


@pytest.mark.parametrize("text", ["", "0x", "GPU", "-1", "0x1ffff", "\xff\xfe"])
def test_a_function_whose_vendor_says_nothing_is_misplaced_not_absent(
    tmp_path: Path, text: str
) -> None:
    machine = Machine()
    machine.put(machine.gpu, vendor=text)
    tree = machine.read(tmp_path)
    assert set(tree.misplaced) == {GPU_SLOT}


def test_a_bridge_that_cannot_be_read_stays_the_parent(tmp_path: Path) -> None:
    machine = Machine()
    machine.put(machine.nic_port, device="")
    tree = machine.read(tmp_path)
    assert set(tree.misplaced) == {PORTS[2]}
    assert function(tree, NIC_SLOT).parent == PORTS[2]


IDENTITY = ("vendor", "device", "class")
LINK = ("current_link_speed", "max_link_speed", "current_link_width", "max_link_width")
OTHER = ("numa_node", "resource", "aer_dev_fatal", "aer_dev_nonfatal", "config")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from(IDENTITY + LINK + OTHER), st.binary(max_size=80) | st.none()),
    st.binary(max_size=300),
)
def test_no_files_break_the_probe(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes | None], config: bytes
) -> None:
    machine = Machine()
    machine.tree.files[f"run/gdrcheck/host/config/{NIC_SLOT}"] = config
    for name, data in files.items():
        path = f"{machine.nic.folder}/{name}"
        machine.tree.files.pop(path, None)
        if data is not None:
            machine.tree.files[path] = data
    tree = machine.read(tmp_path_factory.mktemp("root"))
    if not set(IDENTITY) & set(files):
        assert tree.function(NIC_SLOT) is not None
    assert PciTree.model_validate_json(tree.model_dump_json()) == tree
