"""Each fault that the file can hold comes true at the next call, and nothing else does."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest
from cuda.bindings import driver

from lab.emulated_gpu.config import Corrupt, Faults, h200s
from tests.emulated_gpu.emulation import (
    GDR_CAPABLE,
    IS_MANAGED,
    Emulation,
    attribute,
    result,
    status,
)

GOOD = "[gpu 0]\nslot = 0000:24:00.0\nuuid = GPU-11111111-2222-3333-4444-555555555550\n"

pytestmark = pytest.mark.usefixtures("context")


def test_a_call_fails_with_the_status_of_the_file(emulation: Emulation) -> None:
    emulation.set(faults=Faults(fail={"cuMemAlloc": 46, "cuInit": 802}))
    assert status(driver.cuMemAlloc, 10) == 46
    assert status(driver.cuInit, 0) == 802
    assert status(driver.cuMemGetInfo) == 0
    emulation.set()
    assert status(driver.cuInit, 0) == 0


def test_so_many_calls_work_first_and_a_new_file_counts_anew(emulation: Emulation) -> None:
    for _ in range(2):
        emulation.set(faults=Faults(fail={"cuMemGetInfo": 214}, after={"cuMemGetInfo": 2}))
        assert [status(driver.cuMemGetInfo) for _ in range(4)] == [0, 0, 214, 214]


def test_a_call_fails_so_many_times_only(emulation: Emulation) -> None:
    emulation.write(GOOD + "[faults]\nfail cuMemGetInfo = 214 after 1 times 2\n")
    assert [status(driver.cuMemGetInfo) for _ in range(5)] == [0, 214, 214, 0, 0]


def test_a_fault_of_one_gpu_leaves_the_other_alone(emulation: Emulation) -> None:
    emulation.set(gpu_faults={1: Faults(fail={"cuDeviceTotalMem": 999, "cuMemGetInfo": 999})})
    assert status(driver.cuDeviceTotalMem, 0) == 0
    assert status(driver.cuDeviceTotalMem, 1) == 999
    # The context is that of GPU 0.
    assert status(driver.cuMemGetInfo) == 0


def test_a_vanished_gpu_fails_in_every_call(emulation: Emulation) -> None:
    emulation.set(gpu_faults={0: Faults(gone=True)})
    assert status(driver.cuMemGetInfo) == 999
    assert status(driver.cuCtxSynchronize) == 999
    assert status(driver.cuDeviceTotalMem, 0) == 999
    assert status(driver.cuDeviceTotalMem, 1) == 0


def test_a_gpu_vanishes_after_some_calls(emulation: Emulation) -> None:
    emulation.set(gpu_faults={0: Faults(gone=True, after={"gone": 2})})
    calls = [status(driver.cuMemGetInfo), status(driver.cuCtxSynchronize)]
    assert [*calls, status(driver.cuMemGetInfo)] == [0, 0, 999]


def test_pointers_can_be_reported_as_managed(emulation: Emulation) -> None:
    pointer = result(driver.cuMemAlloc, 100)
    emulation.set(faults=Faults(managed=True))
    assert attribute(IS_MANAGED, pointer)
    assert not attribute(GDR_CAPABLE, pointer)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[gpu 0\n", r":4: \[gpu 0: a section is one name in brackets"),
        ("[gpus]\n", r":4: unknown section \[gpus\]; known: driver, gpu N, verbs, faults"),
        ("[gpu x]\n", r":4: gpu = x: expected a number from 0 to 15"),
        ("[gpu 0]\n", r":4: \[gpu 0\] for the second time"),
        ("[gpu 2]\n", r"\[gpu 2\] without \[gpu 1\]"),
        ("[gpu 1]\nname = x\n", r"\[gpu 1\] needs slot and uuid"),
        ("slot = 24:00.0\n", r":4: slot = 24:00.0: expected a PCI address"),
        ("uuid = GPU-1\n", r":4: uuid = GPU-1: expected GPU-xxxxxxxx-"),
        ("memory_mib = much\n", r":4: memory_mib = much: expected a number from"),
        ("bar1 = 3\n", r":4: unknown key bar1 in \[gpu 0\]; known: slot, uuid"),
        ("attribute x = 1\n", r":4: attribute = x: expected a number"),
        ("attribute 124 = yes\n", r":4: attribute 124 = yes: expected a number"),
        ("process = 17\n", r":4: process = 17: expected a process id and its MiB"),
        ("[driver]\ncuda = 13.0\n", r":5: cuda = 13.0: expected a number"),
        ("[driver]\nverson = 1\n", r":5: unknown key verson in \[driver\]"),
        ("[verbs]\ndmabuf = 2\n", r":5: dmabuf = 2: expected a number from 0 to 1"),
        ("[faults]\nfail cuMemAloc = 2\n", r":5: .*: the stand-ins have no function cuMemAloc"),
        ("[faults]\nfail cuMemAlloc = ENOMEM\n", r":5: fail cuMemAlloc = ENOMEM: expected"),
        ("[faults]\nfail cuMemAlloc = 2 after\n", r":5: after needs a number"),
        ("[faults]\nfail cuMemAlloc = 2 after x\n", r":5: after = x: expected a number"),
        ("[faults]\nvanish = 1\n", r":5: unknown fault vanish; known: fail FUNCTION"),
        ("[faults]\nmanaged = 1 after 2\n", r":5: managed cannot begin after some calls"),
        ("[faults]\ncorrupt sink = 1 times\n", r":5: times needs a number"),
        ("[faults]\ncorrupt sink = 1 times 2 after 1\n", r":5: times = 2 after 1: expected"),
        ("[faults]\ncorrupt = 1\n", r":5: unknown fault corrupt; .*, corrupt sink, "),
        ("[faults]\npeer refuse = 1 after 1\n", r":5: peer refuse cannot begin after some"),
        ("[faults]\nrefuse read = 1 after 1\n", r":5: refuse read cannot begin after some"),
        ("[faults]\nrefuse sink = 1 times 1\n", r":5: refuse sink cannot .*, or end"),
        ("[faults]\ngone = 1 length 4\n", r":5: gone has no length"),
        ("[faults]\nfail cuGetErrorName = 2\n", r":5: .*: cuGetErrorName always works"),
        ("[faults gpu 0]\nfail cuInit = 2\n", r":5: .*: cuInit concerns no GPU: put it into"),
        ("[faults gpu 3]\ngone = 1\n", r"\[faults gpu 3\], but there is no \[gpu 3\]"),
        ("[faults]\ngone\n", r":5: gone: expected key = value"),
    ],
)
def test_a_wrong_line_is_named_and_every_call_fails(
    emulation: Emulation, capfd: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    emulation.write(GOOD + text)
    assert status(driver.cuMemGetInfo) == 999
    said = capfd.readouterr().err
    assert re.search(re.escape(str(emulation.path)) + ".*" + complaint, said), said
    assert status(driver.cuMemGetInfo) == 999
    assert capfd.readouterr().err == ""


def test_all_wrong_lines_are_named_at_once(
    emulation: Emulation, capfd: pytest.CaptureFixture[str]
) -> None:
    emulation.write(GOOD + "a = 1\n# a comment\n[faults]\nb = 1  # another\nc = 1\n")
    assert status(driver.cuInit, 0) == 999
    lines = capfd.readouterr().err.splitlines()
    assert [line.split(":")[2] for line in lines] == ["4", "7", "8"]


@pytest.mark.parametrize("line", ["slot = 24:00.0", "uuid = GPU-1"])
def test_a_wrong_slot_or_uuid_is_not_called_missing_as_well(
    emulation: Emulation, capfd: pytest.CaptureFixture[str], line: str
) -> None:
    good = GOOD.splitlines()
    key = line.partition(" ")[0]
    emulation.write("\n".join(line if one.startswith(key) else one for one in good))
    assert status(driver.cuInit, 0) == 999
    (said,) = capfd.readouterr().err.splitlines()
    assert f"{line}: expected" in said


def test_a_missing_file_is_named(emulation: Emulation, capfd: pytest.CaptureFixture[str]) -> None:
    emulation.path.unlink()
    assert status(driver.cuDriverGetVersion) == 999
    said = capfd.readouterr().err
    assert f"{emulation.path}: No such file" in said
    assert "GDRCHECK_EMULATED_GPU" in said


def test_a_file_that_is_right_again_works_again(emulation: Emulation) -> None:
    emulation.write("nonsense")
    assert status(driver.cuMemGetInfo) == 999
    emulation.set(h200s(1, memory_mib=64))
    assert status(driver.cuMemGetInfo) == 0


def test_every_switch_of_the_writer_is_understood(emulation: Emulation) -> None:
    everything: dict[str, Any] = {
        "managed": True,
        "gone": True,
        "verify_lies": True,
        "hang": ["ibv_reg_mr"],
        "fail": {"ibv_reg_dmabuf_mr": 22},
        "after": {"ibv_reg_mr": 1, "ibv_reg_dmabuf_mr": 7, "gone": 3},
        "corrupt_sink": Corrupt(length_bytes=65537, after=2, times=1),
        "corrupt_source": Corrupt(),
        "refuse": ["source", "read", "sink"],
        "peer_corrupt": Corrupt(length_bytes=4097),
        "peer_refuse": True,
    }
    assert everything.keys() == {one.name for one in fields(Faults)}
    assert all(everything.values())
    emulation.set(faults=Faults(**everything))
    assert status(driver.cuDriverGetVersion) == 0
