"""A captured tree reads to the same facts, and holds nothing that identifies the machine."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from gdrcheck import probes
from gdrcheck.anonymise import Anonymiser
from gdrcheck.commands.capture import host_names
from gdrcheck.facts import Facts, Nvml
from gdrcheck.probes.capture import Captured, capture
from gdrcheck.probes.capture_filters import config_space, walked
from tests.captured import edits
from tests.captured.edits import HOST_FILE, put
from tests.captured.machines import MACHINES
from tests.captured.pci import COLLECTED
from tests.captured.tree import Tree

KEY = b"a key"
NODE = "node1"
DEVICE = "sys/class/infiniband/mlx5_0"
SERIAL = bytes.fromhex("b83fd2fffe00aa01")


def taken(root: Path, out: Path) -> tuple[Facts, Facts, Captured]:
    """The facts below ``root``, those of its captured tree, and what the capture says."""
    facts = probes.collect(NODE, root)
    out.mkdir()
    done = capture(facts, root, out, Anonymiser(KEY, host_names(facts)))
    return facts, probes.collect(NODE, out), done


def anonymous(facts: Facts) -> Any:
    """``facts`` as they are to be read from a captured tree."""
    one = Anonymiser(KEY, [facts.host.hostname])
    values = walked(facts.model_dump(mode="json"), one.text)
    values["host"]["hostname"] = one.host(facts.host.hostname)
    assert isinstance(facts.rdma_devices, tuple)
    for device, made in zip(facts.rdma_devices, values["rdma_devices"], strict=True):
        for netdev, its in zip(device.netdevs, made["netdevs"], strict=True):
            assert isinstance(netdev.subnets, tuple)
            its["subnets"] = [one.network(subnet) for subnet in netdev.subnets]
    return values


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_reads_to_the_same_facts(name: str, tmp_path: Path) -> None:
    facts, again, done = taken(MACHINES[name]().write(tmp_path / "in"), tmp_path / "out")
    expected, found = anonymous(facts), again.model_dump(mode="json")
    # Of the words of the command line only those stay whole that say how the machine works.
    line = expected["host"].pop("command_line").split()
    kept = found["host"].pop("command_line").split()
    assert [word.partition("=")[0] for word in kept] == [word.partition("=")[0] for word in line]
    assert found == expected
    assert done.left_out == {}


def test_an_interface_that_is_named_after_its_address_is_renamed_everywhere(
    tmp_path: Path,
) -> None:
    tree = MACHINES["roce"]().tree
    facts = probes.collect(NODE, MACHINES["roce"]().write(tmp_path / "before"))
    assert isinstance(facts.rdma_devices, tuple)
    (old,) = facts.rdma_devices[0].netdev_names
    new = "enxb83fd200aa01"
    Tree(
        files={
            path.replace(f"/{old}", f"/{new}"): data.replace(old.encode(), new.encode())
            for path, data in tree.files.items()
        },
        links={
            path.replace(f"/{old}", f"/{new}"): target.replace(f"/{old}", f"/{new}")
            for path, target in tree.links.items()
        },
        folders={path.replace(f"/{old}", f"/{new}") for path in tree.folders},
    ).write(tmp_path / "in")
    facts, again, _ = taken(tmp_path / "in", tmp_path / "out")
    assert isinstance(facts.rdma_devices, tuple)
    assert isinstance(again.rdma_devices, tuple)
    assert facts.rdma_devices[0].netdev_names == (new,)
    assert again.rdma_devices[0].netdev_names[0].startswith("enx")
    expected, found = anonymous(facts), again.model_dump(mode="json")
    assert found["rdma_devices"] == expected["rdma_devices"]
    assert found["host"]["sysctls"] == expected["host"]["sysctls"]
    assert b"b83fd200aa01" not in everything(tmp_path / "out")


def identities(root: Path) -> list[str]:
    """Gives the machine at ``root`` everything that must not be seen; returns it."""
    log = [
        "NVRM: Xid (PCI:0000:1b:00): 79, pid=54321, name=secret_job, GPU has fallen off the bus.",
        "NVRM: GPU at PCI:0000:1b:00: GPU-8f3c0a1e-1b2c-4d5e-8f90-0123456789ab",
        "NVRM: GPU Board Serial Number: 1650921000123",
        "NVRM: Xid (PCI:0000:1b:00): 31, pid=54321, name=my secret_two, Ch 00000010",
        "mlx5_core 0000:1a:00.0 enxb83fd200aa07: Link up, from b8:3f:d2:00:aa:07 at gpu-a17",
        "nfs: server 203.0.113.77 not responding, 2001:db8:77::1234 neither",
    ]
    lines = [{"topic": "nvrm", "seconds_since_boot": 1.5, "text": text} for text in log]
    for edit in (
        put("proc/sys/kernel/hostname", "gpu-a17.corp.example"),
        put(
            "proc/cmdline",
            "root=UUID=0f1e2d3c-1111-2222-3333-444455556666 ip=203.0.113.9 iommu=pt "
            'login="the hidden words"',
        ),
        put(f"{DEVICE}/node_desc", "gpu-a17 mlx5_0"),
        put(f"{DEVICE}/ports/1/gids/0", "fe80:0000:0000:0000:b83f:d203:00aa:0009"),
        put(f"{DEVICE}/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:cb00:7121"),
        put("sys/class/net/secret0/address", "b8:3f:d2:00:aa:0b"),
        put("etc/passwd", "alice:x:1000"),
        put("proc/self/status", "Name:\tsecret_job\nUid:\t0\t0\t0\t0\nPid:\t54321\nCapEff:\t4000"),
        edits.collected("kernel_log", lines),
        edits.collected(
            "complaints",
            [
                "modules: run by alice@gpu-a17.corp.example",
                "neighbours: ibs3: 2 neighbours on one cable: leaf9 swp1, leaf9 swp2",
            ],
        ),
        edits.collected("later_key", {"mac": "b8:3f:d2:00:aa:0c"}),
        edits.collected(
            "neighbours",
            {
                "ibs1": {
                    "switch": "00:1c:73:aa:bb:cc",
                    "switch_name": "leaf7.corp.example",
                    "port": "Ethernet7/1",
                    "source": "lldpd",
                },
                "ibs2": {
                    "switch": "spine-8 10.9.8.7",
                    "switch_name": "Corp-Spine 00:1c:73:aa:bb:cd",
                    "port": "to gpu-b18",
                    "source": "frames",
                },
                "ibs3": {"unreadable": "2 neighbours on one cable: leaf9 swp1, leaf9 swp2"},
            },
        ),
        edits.answer(
            _gpu(root),
            uuid="GPU-11112222-3333-4444-5555-666677778888",
            processes=[{"pid": 54321, "used_bytes": 1}],
        ),
    ):
        edit(root)
    space = root / COLLECTED / (root / DEVICE / "device").resolve().name
    space.write_bytes(with_serial(space.read_bytes()))
    return [
        "gpu-a17", "corp.example", "alice", "secret_job", "54321", "8f3c0a1e", "1650921000123",
        "b83fd200aa07", "b8:3f:d2", "203.0.113.77", "2001:db8:77", "0f1e2d3c", "203.0.113.9",
        "b83f:d203:00aa", "cb00:7121", "00:1c:73", "leaf7", "11112222", "secret0", "secret_two",
        "hidden", "spine", "gpu-b18", "leaf9",
    ]  # fmt: skip


def _gpu(root: Path) -> str:
    return str(
        json.loads((root / "run/gdrcheck/recorded/nvml.json").read_text())["gpus"][0]["slot"]
    )


def with_serial(space: bytes) -> bytes:
    """A configuration space with a Device Serial Number (PCI Express base spec., 7.9.3)."""
    at, made = 0x100, bytearray(space)
    while (header := struct.unpack_from("<I", made, at)[0]) >> 20:
        at = header >> 20
    struct.pack_into("<I", made, at, header | 0x400 << 20)
    struct.pack_into("<I8s", made, 0x400, 0x0003 | 1 << 16, SERIAL)
    return bytes(made)


def everything(folder: Path) -> bytes:
    """The names and the content of all that is below ``folder``."""
    found = []
    for path in sorted(folder.rglob("*")):
        found.append(path.relative_to(folder).as_posix().encode())
        if path.is_symlink():
            found.append(str(path.readlink()).encode())
        elif path.is_file():
            found.append(path.read_bytes())
    return b"\n".join(found)


def test_nothing_that_identifies_the_machine_is_left(tmp_path: Path) -> None:
    root = MACHINES["dgx"]().write(tmp_path / "in")
    secrets = identities(root)
    before = everything(root)
    assert [one for one in secrets if one.encode() not in before] == []
    facts, again, done = taken(root, tmp_path / "out")
    after = everything(tmp_path / "out")
    assert [one for one in secrets if one.encode() in after.lower()] == []
    assert SERIAL in before
    assert SERIAL not in after
    assert again.pci == facts.pci
    assert again.host.command_line == "root=removed ip=removed iommu=pt login=removed"
    assert done.left_out == {f"{HOST_FILE}: later_key": "not known to this release"}


def test_the_same_stays_the_same_throughout(tmp_path: Path) -> None:
    root = MACHINES["dgx"]().write(tmp_path / "in")
    identities(root)
    uuid = "GPU-8f3c0a1e-1b2c-4d5e-8f90-0123456789ab"
    edits.answer(_gpu(root), uuid=uuid)(root)
    _, again, _ = taken(root, tmp_path / "out")
    assert isinstance(again.nvml, Nvml)
    assert isinstance(again.host.kernel_log, tuple)
    gpu, log = again.nvml.gpus[0], [line.text for line in again.host.kernel_log]
    assert log[1].endswith(str(gpu.uuid))
    assert isinstance(gpu.processes, tuple)
    assert f"pid={gpu.processes[0].pid}, name=process1" in log[0]


def test_a_version_that_looks_like_an_address_stays(tmp_path: Path) -> None:
    root, version = MACHINES["dgx"]().write(tmp_path / "in"), "218.0.152.7"
    for path in (f"{DEVICE}/fw_ver", "sys/module/mlx5_core/version"):
        put(path, version)(root)
    told = json.loads((root / HOST_FILE).read_text())["modules"]
    told["mlx5_core"]["version"] = version
    edits.collected("modules", told)(root)
    facts, again, _ = taken(root, tmp_path / "out")
    assert isinstance(again.rdma_devices, tuple)
    assert again.rdma_devices[0].firmware == version
    assert again.host.modules == facts.host.modules
    assert version in str(again.host.modules)


def test_an_emulated_driver_stays_emulated(tmp_path: Path) -> None:
    root = MACHINES["vm"]().write(tmp_path / "in")
    record = root / "run/gdrcheck/recorded/nvml.json"
    record.write_bytes(b"EMULATED\n" + record.read_bytes())
    facts, again, _ = taken(root, tmp_path / "out")
    assert (facts.emulated, again.emulated) == (True, True)


@pytest.mark.parametrize(
    "path",
    [
        "sys/class/infiniband/mlx5_0/ports/1/state",
        "sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error",
        "sys/class/infiniband/mlx5_0/ports/1/pkeys/0",
        "sys/module/nvidia/srcversion",
        "proc/cmdline",
        "proc/self/auxv",
        "proc/self/net/route",
        HOST_FILE,
    ],
)
def test_what_could_not_be_read_is_told_and_stays_unreadable(path: str, tmp_path: Path) -> None:
    root = MACHINES["roce"]().write(tmp_path / "in")
    (root / path).unlink()
    (root / path).mkdir()
    facts, again, done = taken(root, tmp_path / "out")
    # The routes are to be had by two names.
    assert {name.rpartition("/")[2] for name in done.left_out} == {path.rpartition("/")[2]}
    assert all((tmp_path / "out" / name).is_dir() for name in done.left_out)
    healthy = probes.collect(NODE, MACHINES["roce"]().write(tmp_path / "healthy"))
    assert facts != healthy
    assert shape(again) == shape(facts)


def shape(facts: Facts) -> Any:
    """Which facts could not be read, without the reasons, and how many there are of each."""

    def of(value: Any) -> Any:
        if isinstance(value, dict):
            if "unreadable" in value:
                return "unreadable"
            return {key: of(one) for key, one in value.items()}
        return [of(one) for one in value] if isinstance(value, list) else type(value).__name__

    return of(facts.model_dump(mode="json"))


def test_a_link_that_leads_out_of_the_tree_is_left_out(tmp_path: Path) -> None:
    root = MACHINES["roce"]().write(tmp_path / "in")
    place = root / DEVICE
    place.unlink()
    place.symlink_to("../../../../../../etc")
    _, _, done = taken(root, tmp_path / "out")
    assert any("leads out of the tree" in why for why in done.left_out.values())
    assert b"passwd" not in everything(tmp_path / "out")


@pytest.mark.parametrize("size", [0, 1, 63, 64, 255, 256, 4096])
def test_any_configuration_space_keeps_its_size(size: int) -> None:
    for fill in (b"\0", b"\xff", b"\x10", b"\x40"):
        data = fill * size
        assert len(config_space(data)) == size
