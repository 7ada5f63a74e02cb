"""NVIDIA's unpatched NVML binding on the emulated libnvidia-ml, asked as gdrcheck asks it."""

from __future__ import annotations

import os
from dataclasses import replace

import pynvml
import pytest
from pydantic import TypeAdapter

from gdrcheck.facts import GpuProcess, Nvml, Unreadable
from gdrcheck.probes import live
from gdrcheck.probes.gpu import CHILD, EMULATED_LINE
from lab.emulated_gpu import loaded
from lab.emulated_gpu.config import Faults, h200s
from tests.emulated_gpu.emulation import Emulation

MIB = 1 << 20
AWAITED_S = 60.0
HANGS_S = 3.0
ANSWER: TypeAdapter[Nvml | Unreadable] = TypeAdapter(Nvml | Unreadable)


def asked(
    monkeypatch: pytest.MonkeyPatch, emulation: Emulation, within_s: float = AWAITED_S
) -> live.Said:
    for name, value in loaded.environment(emulation.path).items():
        monkeypatch.setenv(name, value)
    return live.listen(live.LIVE_ROOT, CHILD, "", within_s)


def answer(monkeypatch: pytest.MonkeyPatch, emulation: Emulation) -> Nvml | Unreadable:
    said = asked(monkeypatch, emulation)
    assert said.failure is None
    assert said.printed.startswith(EMULATED_LINE)
    return ANSWER.validate_json(said.printed.removeprefix(EMULATED_LINE))


def test_every_value_is_that_of_the_file(
    monkeypatch: pytest.MonkeyPatch, emulation: Emulation
) -> None:
    gpus = h200s(2, memory_mib=640, bar1_mib=256)
    busy = replace(gpus[1], processes=((4711, 12), (4712, 1)), compute_mode=3)
    emulation.set((gpus[0], busy))
    found = answer(monkeypatch, emulation)
    assert isinstance(found, Nvml)
    assert (found.driver_version, found.cuda_version) == ("580.159.04", "13.0")
    assert (found.lost, found.confidential_computing) == ({}, None)
    first, second = found.gpus
    assert (first.slot, first.uuid) == (gpus[0].slot, gpus[0].uuid)
    assert (second.slot, second.uuid) == (gpus[1].slot, gpus[1].uuid)
    assert first.model == "NVIDIA H200"
    assert first.memory_total_bytes == 640 * MIB
    assert (first.bar1_total_bytes, first.bar1_used_bytes) == (256 * MIB, 0)
    assert (first.mig, first.mig_devices, first.processes) == ("disabled", (), ())
    assert (first.compute_mode, first.fabric_state) == ("default", None)
    assert first.virtualization == "none"
    assert second.compute_mode == "exclusive_process"
    assert second.processes == (
        GpuProcess(pid=4711, used_bytes=12 * MIB),
        GpuProcess(pid=4712, used_bytes=MIB),
    )


def test_a_gpu_that_is_gone_is_lost_and_the_other_answers(
    monkeypatch: pytest.MonkeyPatch, emulation: Emulation
) -> None:
    emulation.set(gpu_faults={0: Faults(gone=True)})
    found = answer(monkeypatch, emulation)
    assert isinstance(found, Nvml)
    assert [gpu.slot for gpu in found.gpus] == [h200s(2)[1].slot]
    assert "NVML_ERROR_GPU_IS_LOST (15)" in " ".join(found.lost.values())


def test_one_function_that_fails_on_one_gpu(
    monkeypatch: pytest.MonkeyPatch, emulation: Emulation
) -> None:
    refused = Faults(fail={"nvmlDeviceGetUUID": pynvml.NVML_ERROR_NO_PERMISSION})
    emulation.set(gpu_faults={1: refused})
    found = answer(monkeypatch, emulation)
    assert isinstance(found, Nvml)
    assert found.gpus[0].uuid == h200s(2)[0].uuid
    assert isinstance(found.gpus[1].uuid, Unreadable)
    assert "NVML_ERROR_NO_PERMISSION (4)" in found.gpus[1].uuid.unreadable


def test_what_does_not_start_says_why_and_is_emulated_all_the_same(
    monkeypatch: pytest.MonkeyPatch, emulation: Emulation
) -> None:
    mismatch = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    emulation.set(faults=Faults(fail={"nvmlInit_v2": mismatch}))
    found = answer(monkeypatch, emulation)
    assert isinstance(found, Unreadable)
    assert "NVML_ERROR_LIB_RM_VERSION_MISMATCH (18)" in found.unreadable


def test_what_never_answers_is_emulated_all_the_same(
    monkeypatch: pytest.MonkeyPatch, emulation: Emulation
) -> None:
    emulation.set(faults=Faults(hang=["nvmlInit_v2"]))
    said = asked(monkeypatch, emulation, HANGS_S)
    assert said.printed == EMULATED_LINE
    assert said.failure is not None
    assert "start NVML" in said.failure.unreadable


def test_without_a_file_nvml_finds_no_driver(
    monkeypatch: pytest.MonkeyPatch, emulation: Emulation
) -> None:
    os.unlink(emulation.path)
    found = answer(monkeypatch, emulation)
    assert isinstance(found, Unreadable)
    assert "NVML_ERROR_DRIVER_NOT_LOADED (9)" in found.unreadable
