"""What stands before libibverbs, over a libibverbs that registers nothing but tells what it got."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from lab.emulated_gpu import build, loaded
from lab.emulated_gpu.config import Config, Faults, h200s
from lab.paths import REPOSITORY
from tests.emulated_gpu.emulation import Emulation

HERE = Path(__file__).parent
PAGE = os.sysconf("SC_PAGESIZE")
DEADLINE_S = 60
# The functions of libibverbs, as the fake one numbers them.
PLAIN, IOVA, IOVA2 = 1, 2, 3


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the fake libibverbs.so.1."""
    folder = tmp_path_factory.mktemp("ibverbs")
    subprocess.run(
        [
            *("gcc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"),
            *("-Wl,-soname,libibverbs.so.1", f"-Wl,--version-script={HERE / 'fake_ibverbs.map'}"),
            *("-o", folder / "libibverbs.so.1", HERE / "fake_ibverbs.c"),
        ],
        check=True,
        timeout=DEADLINE_S,
    )
    return folder


class Preloaded:
    """Starts processes with the preload over the fake libibverbs."""

    def __init__(self, emulation: Emulation, libraries: Path) -> None:
        self.emulation = emulation
        self._environment = {**os.environ, **loaded.environment(emulation.path)}
        folders = f"{libraries}:{self._environment['LD_LIBRARY_PATH']}"
        preload = str(build.build() / build.VERBS_PRELOAD)
        self._environment |= {"LD_LIBRARY_PATH": folders, "LD_PRELOAD": preload}

    def __call__(self, what: str) -> Any:
        command = [sys.executable, "-m", "tests.emulated_gpu.preloaded", what]
        done = subprocess.run(
            command,
            env=self._environment,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def preloaded(emulation: Emulation, libraries: Path) -> Preloaded:
    return Preloaded(emulation, libraries)


@pytest.mark.parametrize("there", [True, False])
def test_memory_of_the_host_goes_through_unchanged(preloaded: Preloaded, there: bool) -> None:
    if not there:
        preloaded.emulation.path.unlink()
    found = preloaded("host")
    assert [one["by"] for one in found] == [PLAIN, IOVA, IOVA2]
    assert all(one["addr"] == one["asked"] for one in found)
    assert [one["iova"] for one in found] == [found[0]["asked"], 0, 0]


def test_a_device_pointer_registers_what_the_gpu_holds_under_the_pointer(
    preloaded: Preloaded,
) -> None:
    found = preloaded("pointer")
    inside = found["inside"]
    assert found["seen"] == "gpu bytes"
    assert inside["addr"] == inside["iova"] == found["asked"]
    assert inside["alias"] != found["asked"]
    assert (inside["length"], inside["by"]) == (2 * PAGE, IOVA2)
    assert found["moved"]["iova"] == 0
    assert found["beyond"] == {"errno": "EFAULT"}


def test_an_export_registers_what_the_gpu_holds_under_its_offset(preloaded: Preloaded) -> None:
    found = preloaded("descriptor")
    assert found["seen"] == "gpu bytes"
    assert (found["inside"]["iova"], found["inside"]["addr"]) == (PAGE, 0)
    assert found["beyond"] == {"errno": "EINVAL"}
    assert found["none"] == {"errno": "EBADF"}
    assert found["other"] == {"errno": "EINVAL"}


def test_a_full_window_refuses_and_what_is_undone_makes_room(preloaded: Preloaded) -> None:
    preloaded.emulation.set(h200s(1, memory_mib=64, bar1_mib=40))
    found = preloaded("window")
    assert found["given"] == ["works", "works", "EFAULT"]
    assert found["full"] == {"errno": "ENOMEM"}
    assert (found["undone"], found["again"]) == (0, "works")


def test_without_peermem_a_device_pointer_is_a_bad_address(preloaded: Preloaded) -> None:
    gpus = h200s(1, memory_mib=64)
    Config(gpus, peermem=False).write(preloaded.emulation.path)
    assert preloaded("pointer")["inside"] == {"errno": "EFAULT"}
    assert preloaded("descriptor")["seen"] == "gpu bytes"


def test_switched_off_it_leaves_dmabuf_to_libibverbs(preloaded: Preloaded) -> None:
    Config(h200s(1, memory_mib=64), dmabuf=False).write(preloaded.emulation.path)
    found = preloaded("descriptor")
    assert found["inside"] == found["none"] == {"errno": "ENOTSUP"}
    assert preloaded("pointer")["seen"] == "gpu bytes"


def test_faults_of_a_registration_are_those_of_the_file(preloaded: Preloaded) -> None:
    faults = Faults(fail={"ibv_reg_mr": 12, "ibv_reg_dmabuf_mr": 95})
    preloaded.emulation.set(gpu_faults={0: faults})
    assert preloaded("pointer")["inside"] == {"errno": "ENOMEM"}
    found = preloaded("descriptor")
    assert found["inside"] == {"errno": "ENOTSUP"}
    assert found["none"] == {"errno": "EBADF"}
    assert {one["by"] for one in preloaded("host")} == {PLAIN, IOVA, IOVA2}


LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC = 1, 2, 4, 8
ALL = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC
SPOILT = IOVA2 ^ 0xFF


def test_memory_that_nothing_refuses_is_posted_with_its_key(preloaded: Preloaded) -> None:
    found = preloaded("refusal")
    assert found["access"] == [ALL]
    assert found["reading"] == {"seen": [IOVA2] * 3, "after": IOVA2}


@pytest.mark.parametrize(
    ("refuse", "left"),
    [
        ("source", ALL & ~REMOTE_READ),
        ("read", ALL & ~REMOTE_READ),
        ("sink", REMOTE_READ),
    ],
)
def test_a_refusal_takes_the_rights_that_others_would_have(
    preloaded: Preloaded, refuse: Literal["source", "read", "sink"], left: int
) -> None:
    preloaded.emulation.set(gpu_faults={0: Faults(refuse=[refuse])})
    found = preloaded("refusal")
    assert found["access"] == [left]
    assert found["host"] == ALL
    if refuse != "source":
        assert found["reading"]["seen"] == [IOVA2] * 3


def test_a_nic_that_cannot_read_is_given_wrong_keys_for_what_reads(preloaded: Preloaded) -> None:
    preloaded.emulation.set(gpu_faults={0: Faults(refuse=["source"])})
    found = preloaded("refusal")
    assert found["reading"] == {"seen": [SPOILT] * 3, "after": IOVA2}
    assert found["another key"] == {"seen": [IOVA2 + 1] * 3, "after": IOVA2 + 1}
    assert found["undone"] == {"seen": [IOVA2] * 3, "after": IOVA2}


def test_another_gpus_refusal_concerns_no_memory_of_this_one(preloaded: Preloaded) -> None:
    preloaded.emulation.set(gpu_faults={1: Faults(refuse=["source", "sink"])})
    found = preloaded("refusal")
    assert found["access"] == [ALL]
    assert found["reading"] == {"seen": [IOVA2] * 3, "after": IOVA2}
