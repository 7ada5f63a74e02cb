"""What a lab node gets for its emulated GPUs, before it boots."""

from __future__ import annotations

import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from gdrcheck.probes import driver
from lab import initramfs
from lab.emulated_gpu import build, node_files
from lab.emulated_gpu.build import SOURCES
from lab.emulated_gpu.config import DEFAULT_PATH, VARIABLE
from lab.machine import Guest, node_command
from tests.facts import nvml

DMABUF_LIMIT = "udmabuf.size_limit_mb="


@pytest.fixture(scope="module")
def members() -> dict[str, initramfs.Member]:
    return {member.name: member for member in node_files.members(2, 4096)}


def test_the_specification_hands_out_all_that_the_node_has(
    members: dict[str, initramfs.Member],
) -> None:
    specification = yaml.safe_load(members["etc/cdi/nvidia.yaml"].content)
    assert specification["kind"] == "nvidia.com/gpu"
    (device,) = specification["devices"]
    assert device["name"] == "all"
    edits = device["containerEdits"]
    assert edits["deviceNodes"] == [{"path": "/dev/udmabuf"}]
    mounts = {one["containerPath"]: one["hostPath"] for one in edits["mounts"]}
    on_node = {f"/{name}" for name in members}
    folders = {
        str(DEFAULT_PATH.parent),
        f"{node_files.SHOWN}/sys",
        f"{node_files.SHOWN}/proc-driver",
    }
    assert set(mounts.values()) - folders <= on_node
    assert mounts["/sys"] == f"{node_files.SHOWN}/sys"
    assert all("ro" in one["options"] for one in edits["mounts"])
    # Files that are no libraries of a driver reach the container under the names they have here.
    preload = members[mounts["/etc/ld.so.preload"].lstrip("/")].content.decode().strip()
    assert mounts[preload].endswith(build.VERBS_PRELOAD)


def test_the_probes_read_the_drivers_files_as_those_of_a_real_one(
    members: dict[str, initramfs.Member], tmp_path: Path
) -> None:
    tree = f"{node_files.HOME}/tree"
    for name, member in members.items():
        if name.startswith(tree):
            place = name.removeprefix(f"{tree}/").replace("proc-driver", "proc/driver")
            (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / place).write_bytes(member.content)
    read = driver.read_nvidia(tmp_path, nvml())
    assert read is not None
    assert (read.version, read.open_module) == (node_files.DRIVER, True)
    assert read.peermem.loaded is True
    assert read.peermem.registered is True
    assert isinstance(read.parameters, dict)


@pytest.mark.parametrize("memory_mib", [2048, 4096])
def test_both_gpus_fit_into_the_node_and_an_export_is_allowed(memory_mib: int) -> None:
    gpus = node_files.configuration(1, memory_mib).gpus
    assert len(gpus) == 2
    # The node's own programs and one container take half a gigabyte.
    assert sum(gpu.memory_mib for gpu in gpus) <= memory_mib - 1024
    assert all(gpu.bar1_mib < gpu.memory_mib for gpu in gpus)
    limit_mib = next(
        int(word.removeprefix(DMABUF_LIMIT))
        for word in kernel_options(memory_mib)
        if word.startswith(DMABUF_LIMIT)
    )
    assert limit_mib >= max(gpu.memory_mib for gpu in gpus)


def test_nodes_have_gpus_of_their_own() -> None:
    uuids = [gpu.uuid for n in (1, 2) for gpu in node_files.configuration(n, 4096).gpus]
    assert len(set(uuids)) == 4


def test_what_runs_on_the_node_may_run(members: dict[str, initramfs.Member]) -> None:
    for name in (f"{node_files.HOME}/overlay", "usr/bin/nvidia-smi"):
        assert stat.S_IMODE(members[name].mode) == 0o755
    unit = "gdrcheck-lab-gpu.service"
    wanted = members[f"etc/systemd/system/multi-user.target.wants/{unit}"]
    assert wanted.content.decode() == f"../{unit}"
    assert f"etc/systemd/system/{unit}" in members


@pytest.mark.parametrize("processes", [(), ((4711, 12), (4712, 1))])
def test_the_tool_lists_the_processes_that_the_preflight_asks_for(
    tmp_path: Path, processes: tuple[tuple[int, int], ...]
) -> None:
    config = node_files.configuration(1, 4096)
    (tmp_path / "gpus.conf").write_text(
        replace(config, gpus=(config.gpus[0], replace(config.gpus[1], processes=processes))).text()
    )
    done = subprocess.run(
        [
            *("sh", SOURCES / "guest/nvidia-smi"),
            *("--query-compute-apps=pid,process_name", "--format=csv,noheader"),
        ],
        env={**os.environ, VARIABLE: str(tmp_path / "gpus.conf")},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == [f"{pid}, emulated" for pid, _ in processes]


def kernel_options(memory_mib: int) -> list[str]:
    guest = Guest(
        number=1,
        accelerator="tcg",
        memory_mib=memory_mib,
        cpus=1,
        ssh_port=21000,
        kernel=Path("vmlinuz"),
        initramfs=Path("initramfs"),
        run_directory=Path("/tmp/run"),
        store_disk=None,
    )
    command = node_command("qemu", guest)
    return command[command.index("-append") + 1].split()
