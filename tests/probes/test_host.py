"""Probes of the operating system, of the process that asks, and of the image's versions."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdrcheck import probes
from gdrcheck.facts import Facts, HugePages, Unreadable
from gdrcheck.probes import collected
from gdrcheck.probes.host import read_host
from tests.captured.machines import MACHINES
from tests.probes import trees

STATUS = "Name:\tx\nUid:\t1000\t0\t1000\t1000\nCapInh:\t0\nCapEff:\t0000000000004000\n"
LIMITS = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max locked memory         8388608              unlimited            bytes     \n"
)
AUXV = struct.pack("<QQQQQQ", 33, 1 << 47, 6, 65536, 0, 0)
FOLDERS = ("sys/module", "sys/class", "sys/fs", "sys/kernel/mm", "sys/devices/system")


def write_json(root: Path, **values: object) -> None:
    """What the host collector leaves."""
    document = {"version": 1, "ran_at_s": 1.7e9, "complaints": [], **values}
    trees.write(root, {"run/gdrcheck/host/host.json": json.dumps(document)})


def tree(root: Path, **files: str) -> Path:
    """A small host without LSM, IOMMU and huge pages; the collector ran."""
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
    write_json(root, os="Debian GNU/Linux 13 (trixie)", modules={}, units={}, kernel_log=[])
    trees.write(
        root,
        {
            "proc/sys/kernel/osrelease": "6.12.48+deb13-amd64\n",
            "proc/sys/kernel/hostname": "gpu-a\n",
            "proc/sys/kernel/arch": "aarch64\n",
            "proc/cmdline": "root=/dev/sda1 iommu=pt\n",
            "proc/self/status": STATUS,
            "proc/self/limits": LIMITS,
            **files,
        },
    )
    (root / "proc/self/auxv").write_bytes(AUXV)
    return root


def host(root: Path, *netdevs: str) -> probes.host.Host:
    return read_host(root, collected.read(root), netdevs)


def why(value: object) -> str:
    """The reason of an unreadable value."""
    assert isinstance(value, Unreadable), value
    return value.unreadable


def test_a_host_is_read_below_its_root(tmp_path: Path) -> None:
    found = host(tree(tmp_path))
    assert (found.os, found.kernel) == ("Debian GNU/Linux 13 (trixie)", "6.12.48+deb13-amd64")
    assert (found.architecture, found.hostname) == ("aarch64", "gpu-a")
    assert found.command_line == "root=/dev/sda1 iommu=pt"
    assert (found.units, found.kernel_log, found.huge_pages) == ({}, (), ())
    assert (found.selinux, found.apparmor, found.lsm_label) == ("disabled", "disabled", "none")
    assert (found.iommu.units, found.iommu.default_domain) == ((), None)
    assert found.numa_nodes == (0,)


def test_nothing_of_an_empty_tree_is_taken_for_absent(tmp_path: Path) -> None:
    found = host(tmp_path)
    unread = {name for name, value in found if isinstance(value, Unreadable)}
    assert unread == {
        *("os", "kernel", "page_bytes", "command_line", "kernel_config", "huge_pages"),
        *("selinux", "apparmor", "lsm_label", "numa_nodes", "loaded_modules", "units"),
        "kernel_log",
    }
    assert isinstance(found.iommu.units, Unreadable)
    assert isinstance(found.iommu.default_domain, Unreadable)
    assert all(isinstance(module.loaded, Unreadable) for module in found.modules)
    assert (found.architecture, found.hostname, found.sysctls) == ("unknown", "unknown", {})


def test_huge_pages_are_read_by_size(tmp_path: Path) -> None:
    base = "sys/kernel/mm/hugepages"
    files = {
        f"{base}/hugepages-1048576kB/nr_hugepages": "4\n",
        f"{base}/hugepages-1048576kB/free_hugepages": "x\n",
        f"{base}/hugepages-2048kB/nr_hugepages": "0\n",
        f"{base}/hugepages-2048kB/free_hugepages": "0\n",
        f"{base}/other/nr_hugepages": "1\n",
    }
    pools = host(tree(tmp_path, **files)).huge_pages
    assert isinstance(pools, tuple)
    assert pools[0] == HugePages(page_bytes=2 << 20, total=0, free=0)
    assert (pools[1].page_bytes, pools[1].total) == (1 << 30, 4)
    assert "free_hugepages" in why(pools[1].free)


@pytest.mark.parametrize(
    ("text", "expected"), [("1", "enforcing"), ("0", "permissive"), ("", None), ("on", None)]
)
def test_selinux_is_what_the_kernel_says(tmp_path: Path, text: str, expected: str | None) -> None:
    found = host(tree(tmp_path, **{"sys/fs/selinux/enforce": text}))
    assert found.selinux == expected if expected else isinstance(found.selinux, Unreadable)


def test_selinux_that_an_engine_hides_is_not_taken_for_disabled(tmp_path: Path) -> None:
    tree(tmp_path)
    (tmp_path / "sys/fs/selinux").mkdir()
    assert "selinux" in why(host(tmp_path).selinux)


@pytest.mark.parametrize(
    ("answer", "label", "expected"),
    [
        ("Y", b"unconfined\n", ("enabled", "unconfined")),
        (
            "Y",
            b"system_u:system_r:container_t:s0\0",
            ("enabled", "system_u:system_r:container_t:s0"),
        ),
        ("N", b"anything", ("disabled", "none")),
    ],
)
def test_apparmor_and_the_label(
    tmp_path: Path, answer: str, label: bytes, expected: tuple[str, str]
) -> None:
    tree(
        tmp_path,
        **{"sys/module/apparmor/parameters/enabled": answer, "proc/self/attr/current": "x"},
    )
    (tmp_path / "proc/self/attr/current").write_bytes(label)
    found = host(tmp_path)
    assert (found.apparmor, found.lsm_label) == expected


def group(number: int, kind: str, slot: str, device_class: str, vendor: str) -> dict[str, str]:
    """An IOMMU group with one function."""
    return {
        f"sys/kernel/iommu_groups/{number}/type": kind,
        f"sys/kernel/iommu_groups/{number}/devices/{slot}/x": "",
        f"sys/bus/pci/devices/{slot}/class": device_class,
        f"sys/bus/pci/devices/{slot}/vendor": vendor,
    }


@pytest.mark.parametrize(
    ("gpu", "nic", "expected"),
    [
        ("identity", "identity", "identity"),
        ("DMA", "DMA-FQ", "DMA"),
        ("identity", "DMA-FQ", "mixed"),
        ("unmanaged", "DMA", "DMA"),
        ("unmanaged", "blocked", None),
    ],
)
def test_the_default_domain_is_that_of_gpus_and_nics(
    tmp_path: Path, gpu: str, nic: str, expected: str | None
) -> None:
    files = {
        **group(1, gpu, "0000:1b:00.0", "0x030200", "0x10de"),
        **group(2, nic, "0000:1a:00.0", "0x020700", "0x15b3"),
        **group(3, "DMA", "0000:00:1f.0", "0x060100", "0x8086"),
        **group(4, "DMA", "0000:03:00.0", "0x030000", "0x1a03"),
    }
    tree(tmp_path, **files)
    (tmp_path / "sys/class/iommu/dmar0").mkdir(parents=True)
    found = host(tmp_path).iommu
    assert (found.units, found.default_domain) == (("dmar0",), expected)


@pytest.mark.parametrize("text", ["", "something"])
def test_a_group_of_unknown_type_makes_the_domain_unreadable(tmp_path: Path, text: str) -> None:
    tree(tmp_path, **group(7, text, "0000:1b:00.0", "0x030200", "0x10de"))
    assert "7" in why(host(tmp_path).iommu.default_domain)


def test_numa_nodes_are_in_order(tmp_path: Path) -> None:
    files = {f"sys/devices/system/node/node{n}/cpulist": "" for n in (0, 1, 2, 10)}
    assert host(tree(tmp_path, **files)).numa_nodes == (0, 1, 2, 10)


def test_network_settings_of_rdma_interfaces_only(tmp_path: Path) -> None:
    base = "proc/sys/net/ipv4/conf"
    files = {f"{base}/{name}/arp_ignore": "1\n" for name in ("all", "eth1", "eth2", "data0")}
    tree(tmp_path, **files)
    trees.pci_nic(tmp_path, "mlx5_0", "0000:19:00.0", "eth1")
    trees.software_nic(tmp_path, "rxe0", "data0", "0000:81:00.0")
    prefix = "net.ipv4.conf"
    assert set(of_facts(tmp_path).host.sysctls) == {
        f"{prefix}.{name}.arp_ignore" for name in ("all", "data0", "eth1")
    }
    assert set(host(tmp_path, "eth2").sysctls) == {
        f"{prefix}.{name}.arp_ignore" for name in ("all", "eth2")
    }


def test_without_the_collector_its_values_are_unreadable_by_privilege(tmp_path: Path) -> None:
    tree(tmp_path)
    (tmp_path / "run/gdrcheck/host/host.json").unlink()
    found = host(tmp_path)
    for value in (found.os, found.kernel_config, found.units, found.kernel_log):
        assert isinstance(value, Unreadable)
        assert value.privilege
    assert isinstance(found.modules, tuple)
    for module in found.modules:
        assert isinstance(module.path, Unreadable)
        assert module.path.privilege


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def of_facts(root: Path) -> Facts:
    """The facts of the tree, after they were written and read again."""
    facts = probes.collect("a", root)
    return Facts.model_validate_json(facts.model_dump_json())


KEYS = ("os", "kernel_config", "modules", "units", "kernel_log", "ofed", "ran_at_s")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)
@given(values=st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, JSON)))
def test_any_answer_of_the_collector_is_survived(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, object]
) -> None:
    root = tree(tmp_path_factory.mktemp("tree"))
    write_json(root, **values)
    found = of_facts(root)
    assert found.host.kernel == "6.12.48+deb13-amd64"
    assert found.host.page_bytes == 65536


@pytest.mark.parametrize("text", ['"\\ud800"', "NaN", "[" * 200, '{"unreadable": 1}', "1e999"])
def test_values_that_could_not_be_written_again_are_unreadable(tmp_path: Path, text: str) -> None:
    tree(tmp_path)
    document = f'{{"version": 1, "ran_at_s": 1, "complaints": [], "os": {text}}}'
    trees.write(tmp_path, {"run/gdrcheck/host/host.json": document})
    assert isinstance(of_facts(tmp_path).host.os, Unreadable)


FILES = [
    *("proc/self/status", "proc/self/limits", "proc/self/auxv", "proc/self/attr/current"),
    *("proc/cmdline", "proc/sys/kernel/hostname", "proc/sys/kernel/osrelease"),
    *(
        "sys/fs/selinux/enforce",
        "sys/module/apparmor/parameters/enabled",
        "sys/module/nvidia/version",
    ),
    *("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "sys/kernel/iommu_groups/1/type"),
    *("run/gdrcheck/host/host.json", "opt/gdrcheck/versions.json"),
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(data=st.binary(max_size=200) | st.text().map(str.encode), file=st.sampled_from(FILES))
def test_any_bytes_in_a_file_are_survived(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, file: str
) -> None:
    root = tree(
        tmp_path_factory.mktemp("tree"),
        **group(1, "DMA", "0000:1b:00.0", "0x030200", "0x10de"),
        **{"sys/module/apparmor/parameters/enabled": "Y"},
    )
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    assert of_facts(root).host.architecture == "aarch64"


def test_a_name_that_is_not_text_makes_a_list_unreadable(tmp_path: Path) -> None:
    tree(tmp_path)
    (tmp_path / "sys/class/iommu").mkdir()
    (tmp_path / "sys/class/iommu" / os.fsdecode(b"dmar\xff")).mkdir()
    assert "not text" in why(of_facts(tmp_path).host.iommu.units)


def test_a_tree_of_pipes_does_not_hang_any_probe(tmp_path: Path) -> None:
    root = MACHINES["roce"]().write(tmp_path / "root")
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    for path in files:
        path.unlink()
        os.mkfifo(path)
    read = "from gdrcheck import probes; from pathlib import Path; import sys; "
    read += "print(probes.collect('a', Path(sys.argv[1])).model_dump_json())"
    done = subprocess.run(
        [sys.executable, "-c", read, str(root)], check=True, capture_output=True, timeout=60
    )
    found = Facts.model_validate_json(done.stdout)
    assert "not a plain file" in why(found.host.command_line)
    assert "not a plain file" in why(found.collector)
    assert not isinstance(found.rdma_devices, Unreadable)
    assert all("not a plain file" in why(one.firmware) for one in found.rdma_devices)


def test_facts_of_this_machine_survive_serialisation() -> None:
    facts = probes.collect("here")
    assert Facts.model_validate_json(facts.model_dump_json()) == facts
    assert facts.node == "here"
