"""Probes of NVIDIA's driver and of the RDMA stack."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdrcheck.facts import NvidiaDriver, Provider, RdmaStack, Unreadable
from gdrcheck.probes import collected
from gdrcheck.probes.driver import read_nvidia, read_rdma_stack
from tests import facts as builders
from tests.probes import trees
from tests.probes.test_host import why, write_json

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (x)\nGCC"
CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
)
PARAMETERS = 'GrdmaPciTopoCheckOverride: 1\nRegistryDwords: "A=1;B=2"\nRmMsg: ""\nOther: 3\n'
LIBRARIES = "usr/lib/x86_64-linux-gnu/libibverbs"


def tree(root: Path, **files: str) -> Path:
    """A machine with the driver and without RDMA."""
    for folder in ("sys/module", "sys/class", "sys/kernel/mm", "sys/bus/pci/devices", "etc"):
        (root / folder).mkdir(parents=True)
    trees.write(
        root,
        {"proc/driver/nvidia/version": OPEN, "proc/driver/nvidia/params": PARAMETERS, **files},
    )
    return root


def nvidia(root: Path) -> NvidiaDriver:
    found = read_nvidia(root, builders.nvml())
    assert found is not None
    return found


def stack(root: Path) -> RdmaStack:
    return read_rdma_stack(root, collected.read(root), {"libibverbs1": "56.1"})


@pytest.mark.parametrize(
    ("text", "version", "is_open"),
    [(OPEN, "580.95.05", True), (CLOSED, "535.104.05", False)],
)
def test_version_and_kind_come_from_the_drivers_own_line(
    tmp_path: Path, text: str, version: str, is_open: bool
) -> None:
    found = nvidia(tree(tmp_path, **{"proc/driver/nvidia/version": text}))
    assert (found.version, found.open_module, found.cuda) == (version, is_open, "13.0")


@pytest.mark.parametrize("text", ["", OPEN[:40], "nonsense", "\0", "é"])
def test_a_broken_line_is_neither_open_nor_proprietary(tmp_path: Path, text: str) -> None:
    files = {"proc/driver/nvidia/version": text, "sys/module/nvidia/version": "580.95.05\n"}
    found = nvidia(tree(tmp_path, **files))
    assert why(found.open_module).startswith("version")
    assert found.version == "580.95.05"
    (tmp_path / "sys/module/nvidia/version").write_text("new")
    assert isinstance(nvidia(tmp_path).version, Unreadable)


def test_a_driver_is_missing_only_when_nobody_could_be_asked(tmp_path: Path) -> None:
    tree(tmp_path)
    assert read_nvidia(tmp_path, None) is None
    silent = read_nvidia(tmp_path, Unreadable(unreadable="NVML: no library"))
    assert silent is not None
    assert (silent.version, why(silent.cuda)) == ("580.95.05", "NVML: no library")


def test_parameters_of_interest_are_kept_as_they_are_printed(tmp_path: Path) -> None:
    found = nvidia(tree(tmp_path)).parameters
    assert found == {"GrdmaPciTopoCheckOverride": "1", "RegistryDwords": "A=1;B=2"}


@pytest.mark.parametrize("text", ["", "no colon", "A: 1\n: 2", "\xff"])
def test_broken_parameters_are_unreadable(tmp_path: Path, text: str) -> None:
    found = nvidia(tree(tmp_path, **{"proc/driver/nvidia/params": text})).parameters
    assert why(found).startswith("params")


def test_loaded_and_registered_are_two_things(tmp_path: Path) -> None:
    peermem = nvidia(tree(tmp_path)).peermem
    assert (peermem.loaded, peermem.module, peermem.clients) == (False, None, None)
    (tmp_path / "sys/module/nv_peer_mem").mkdir()
    (tmp_path / "sys/kernel/mm/memory_peers").mkdir()
    peermem = nvidia(tmp_path).peermem
    assert (peermem.loaded, peermem.module, peermem.clients) == (True, "nv_peer_mem", ())
    assert peermem.registered is False
    (tmp_path / "sys/kernel/mm/memory_peers/nv_mem").mkdir()
    assert nvidia(tmp_path).peermem.registered is True


def test_peermem_in_a_tree_without_its_folders_is_unreadable(tmp_path: Path) -> None:
    peermem = nvidia(tmp_path).peermem
    assert isinstance(peermem.loaded, Unreadable)
    assert isinstance(peermem.registered, Unreadable)


def test_nvswitches_are_nvidias_other_bridges(tmp_path: Path) -> None:
    base = "sys/bus/pci/devices"
    kinds = {
        "0000:07:00.0": ("0x10de", "0x068000"),
        "0000:08:00.0": ("0x10de", "0x030200"),
        "0000:09:00.0": ("0x8086", "0x068000"),
    }
    files = {f"{base}/{slot}/vendor": vendor for slot, (vendor, _) in kinds.items()}
    files |= {f"{base}/{slot}/class": kind for slot, (_, kind) in kinds.items()}
    assert nvidia(tree(tmp_path, **files)).nvswitches == ("0000:07:00.0",)


def test_a_machine_without_rdma_says_so(tmp_path: Path) -> None:
    found = stack(tree(tmp_path))
    assert (found.uverbs_abi, found.providers, found.rdma_core) == (None, (), "56.1")
    assert "not loaded" in why(found.exclusive_namespaces)
    assert isinstance(found.ofed, Unreadable)
    assert found.ofed.privilege


def test_nothing_of_an_empty_tree_is_taken_for_absent(tmp_path: Path) -> None:
    found = stack(tmp_path)
    for value in (found.uverbs_abi, found.providers, found.exclusive_namespaces):
        assert isinstance(value, Unreadable)


def test_the_stack_of_the_kernel_is_read(tmp_path: Path) -> None:
    tree(tmp_path, **{"sys/class/infiniband_verbs/abi_version": "6\n"})
    write_json(tmp_path, ofed="MLNX_OFED_LINUX-24.10-0.7.0.0")
    found = stack(tmp_path)
    assert (found.uverbs_abi, found.ofed) == (6, "MLNX_OFED_LINUX-24.10-0.7.0.0")


@pytest.mark.parametrize(
    ("mode", "exclusive"), [("Y", False), ("N", True), (None, False), ("", None), ("yes", None)]
)
def test_namespaces_are_exclusive_when_the_kernel_does_not_share(
    tmp_path: Path, mode: str | None, exclusive: bool | None
) -> None:
    tree(tmp_path)
    (tmp_path / "sys/module/ib_core/parameters").mkdir(parents=True)
    if mode is not None:
        trees.write(tmp_path, {"sys/module/ib_core/parameters/netns_mode": mode})
    found = stack(tmp_path).exclusive_namespaces
    assert found is exclusive if exclusive is not None else isinstance(found, Unreadable)


def test_providers_are_those_that_are_named_with_their_library(tmp_path: Path) -> None:
    drivers = {"mlx5": "mlx5", "efa": "efa", "own": "/opt/own/libown", "gone": "gone", "old": "#x"}
    files = {
        f"etc/libibverbs.d/{name}.driver": f"driver {value}\n" for name, value in drivers.items()
    }
    files |= {
        f"{LIBRARIES}/libmlx5-rdmav34.so": "",
        "usr/lib64/libibverbs/libefa-rdmav59.so": "",
        "opt/own/libown-rdmav34.so": "",
        "etc/libibverbs.d/readme": "driver nothing\n",
    }
    tree(tmp_path, **files)
    os.symlink("../nowhere", tmp_path / LIBRARIES / "libgone-rdmav34.so")
    assert stack(tmp_path).providers == (
        Provider(name="efa", library="libefa-rdmav59.so"),
        Provider(name="gone", library=None),
        Provider(name="mlx5", library="libmlx5-rdmav34.so"),
        Provider(name="own", library="libown-rdmav34.so"),
    )


def test_a_driver_file_that_cannot_be_read_does_not_make_providers_missing(tmp_path: Path) -> None:
    tree(tmp_path, **{"etc/libibverbs.d/mlx5.driver": ""})
    assert "mlx5.driver" in why(stack(tmp_path).providers)


def test_a_driver_line_cannot_lead_out_of_the_tree(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/libx-rdmav34.so").write_text("")
    root = tree(tmp_path / "root", **{"etc/libibverbs.d/x.driver": "driver /../outside/libx\n"})
    assert stack(root).providers == ()


FILES = [
    *("proc/driver/nvidia/version", "proc/driver/nvidia/params", "sys/module/nvidia/version"),
    *("sys/class/infiniband_verbs/abi_version", "sys/module/ib_core/parameters/netns_mode"),
    *("etc/libibverbs.d/mlx5.driver", "sys/bus/pci/devices/0000:07:00.0/class"),
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(data=st.binary(max_size=200) | st.text().map(str.encode), file=st.sampled_from(FILES))
def test_any_bytes_in_a_file_are_survived(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, file: str
) -> None:
    root = tree(tmp_path_factory.mktemp("tree"))
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    driver, found = nvidia(root), stack(root)
    assert NvidiaDriver.model_validate_json(driver.model_dump_json()) == driver
    assert RdmaStack.model_validate_json(found.model_dump_json()) == found
