"""The NVML probe: what NVIDIA's binding makes of a library's answers, and who asks it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdrcheck import probes
from gdrcheck.facts import GpuProcess, MigDevice, Nvml, Unreadable
from gdrcheck.probes import gpu, nvml_child
from tests import facts
from tests.probes.fake_nvml import MIB, FakeGpu, FakeLibrary

LOST = pynvml.NVML_ERROR_GPU_IS_LOST
UNSUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
UNKNOWN = pynvml.NVML_ERROR_UNKNOWN
MISSING = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
RECORD = "run/gdrcheck/recorded/nvml.json"


def read(
    monkeypatch: pytest.MonkeyPatch, *gpus: FakeGpu, bound: Path = Path("/nowhere"), **errors: int
) -> Nvml:
    FakeLibrary(*gpus, errors=errors).install(monkeypatch)
    answer = nvml_child.read(bound)
    assert isinstance(answer, Nvml)
    return answer


def test_a_gpu_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = read(monkeypatch, FakeGpu(processes=((4711, 2 * MIB),)))
    assert (answer.driver_version, answer.cuda_version) == ("580.159.04", "13.0")
    assert (answer.lost, answer.confidential_computing) == ({}, "off")
    (one,) = answer.gpus
    assert (one.slot, one.uuid, one.model) == ("0000:1b:00.0", "GPU-0", "NVIDIA H200")
    assert one.memory_total_bytes == 143771 * MIB
    assert (one.bar1_total_bytes, one.bar1_used_bytes) == (262144 * MIB, MIB)
    assert (one.mig, one.mig_devices) == ("disabled", ())
    assert one.processes == (GpuProcess(pid=4711, used_bytes=2 * MIB),)
    assert (one.compute_mode, one.fabric_state) == ("default", "completed")
    assert one.virtualization == "passthrough"


def test_gpus_come_in_order_of_their_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    buses = (b"00000000:DB:00.0", b"00010000:01:00.0", b"00000000:1B:00.0")
    answer = read(monkeypatch, *(FakeGpu(bus_id=bus) for bus in buses))
    slots = [one.slot for one in answer.gpus]
    assert slots == ["0000:1b:00.0", "0000:db:00.0", "10000:01:00.0"]


def test_memory_of_a_process_that_the_driver_does_not_tell_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unknown = pynvml.NVML_VALUE_NOT_AVAILABLE_ulonglong.value
    (one,) = read(monkeypatch, FakeGpu(processes=((1, unknown),))).gpus
    assert one.processes == (GpuProcess(pid=1, used_bytes=None),)


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlDeviceGetMigMode", "mig"),
        ("nvmlDeviceGetGpuFabricInfoV", "fabric_state"),
        ("nvmlDeviceGetVirtualizationMode", "virtualization"),
    ],
)
def test_only_not_supported_means_that_there_is_no_such_thing(
    monkeypatch: pytest.MonkeyPatch, function: str, field: str
) -> None:
    (one,) = read(monkeypatch, FakeGpu(errors={function: UNSUPPORTED})).gpus
    assert getattr(one, field) is None
    for code in (UNKNOWN, MISSING, pynvml.NVML_ERROR_NO_PERMISSION):
        if (function, code) == ("nvmlDeviceGetGpuFabricInfoV", MISSING):
            continue
        (one,) = read(monkeypatch, FakeGpu(errors={function: code})).gpus
        assert isinstance(getattr(one, field), Unreadable)


def test_a_function_that_the_binding_fills_no_structure_of_is_one_value_without_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = {"nvmlDeviceGetComputeRunningProcesses_v3": MISSING}
    (one,) = read(monkeypatch, FakeGpu(errors=old)).gpus
    assert isinstance(one.processes, Unreadable)
    assert "pyNVML version does not match" in one.processes.unreadable


@pytest.mark.parametrize(
    ("function", "fields"),
    [
        ("nvmlDeviceGetUUID", ("uuid",)),
        ("nvmlDeviceGetName", ("model",)),
        ("nvmlDeviceGetMemoryInfo", ("memory_total_bytes",)),
        ("nvmlDeviceGetBAR1MemoryInfo", ("bar1_total_bytes", "bar1_used_bytes")),
        ("nvmlDeviceGetMigMode", ("mig", "mig_devices")),
        ("nvmlDeviceGetComputeRunningProcesses_v3", ("processes",)),
        ("nvmlDeviceGetComputeMode", ("compute_mode",)),
        ("nvmlDeviceGetGpuFabricInfoV", ("fabric_state",)),
        ("nvmlDeviceGetVirtualizationMode", ("virtualization",)),
    ],
)
def test_one_field_that_fails_says_so_and_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, function: str, fields: tuple[str, ...]
) -> None:
    (one,) = read(monkeypatch, FakeGpu(errors={function: UNKNOWN})).gpus
    values = {name: getattr(one, name) for name in type(one).model_fields}
    unread = {name for name, value in values.items() if isinstance(value, Unreadable)}
    assert unread == set(fields)
    assert values[fields[0]].unreadable == "NVML: NVML_ERROR_UNKNOWN (999): Unknown Error"


def test_a_name_that_is_no_text_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = read(monkeypatch, FakeGpu(name=b"\xff\xfe")).gpus
    assert isinstance(one.model, Unreadable)


@pytest.mark.parametrize(
    ("fabric", "expected"),
    [
        ((0, 0), None),
        ((1, 0), "not_started"),
        # NVML leaves an error in the status until the registration has ended.
        ((2, pynvml.NVML_ERROR_NOT_SUPPORTED), "in_progress"),
        ((3, 0), "completed"),
        ((3, UNKNOWN), "failed: NVML_ERROR_UNKNOWN (999): Unknown Error"),
        ((9, 0), "state 9"),
    ],
)
def test_a_fabric_that_does_not_apply_is_not_one_that_is_incomplete(
    monkeypatch: pytest.MonkeyPatch, fabric: tuple[int, int], expected: str | None
) -> None:
    (one,) = read(monkeypatch, FakeGpu(fabric=fabric)).gpus
    assert one.fabric_state == expected


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ({"nvmlDeviceGetGpuFabricInfoV": MISSING}, "in_progress"),
        (
            dict.fromkeys(("nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetGpuFabricInfo"), MISSING),
            None,
        ),
        (
            {"nvmlDeviceGetGpuFabricInfoV": MISSING, "nvmlDeviceGetGpuFabricInfo": UNKNOWN},
            Unreadable(unreadable="NVML: NVML_ERROR_UNKNOWN (999): Unknown Error"),
        ),
    ],
)
def test_an_older_driver_is_asked_in_its_own_way(
    monkeypatch: pytest.MonkeyPatch, errors: dict[str, int], expected: object
) -> None:
    (one,) = read(monkeypatch, FakeGpu(fabric=(2, 0), errors=errors)).gpus
    assert one.fabric_state == expected


def test_mig_devices_are_listed_with_their_uuids(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = read(monkeypatch, FakeGpu(mig=1, mig_uuids=(b"MIG-a", b"MIG-b"))).gpus
    assert one.mig == "enabled"
    assert one.mig_devices == (
        MigDevice(uuid="MIG-a", name="NVIDIA H200"),
        MigDevice(uuid="MIG-b", name="NVIDIA H200"),
    )


@pytest.mark.parametrize("code", [LOST, pynvml.NVML_ERROR_NOT_FOUND, UNKNOWN])
def test_a_gpu_without_handle_is_lost_by_slot_when_the_driver_knows_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int
) -> None:
    gone = FakeGpu(errors={"nvmlDeviceGetHandleByIndex_v2": code})
    answer = read(monkeypatch, FakeGpu(), gone)
    assert [one.slot for one in answer.gpus] == ["0000:1b:00.0"]
    assert list(answer.lost) == ["index 1"]
    assert f"({code})" in answer.lost["index 1"]
    for slot in ("0000:1b:00.0", "0000:43:00.0"):
        (tmp_path / slot).mkdir()
    answer = read(monkeypatch, FakeGpu(), gone, bound=tmp_path)
    assert answer.lost == {"0000:43:00.0": "NVML_ERROR_GPU_IS_LOST (15): GPU is lost"}


def test_a_gpu_that_is_lost_while_it_is_asked_is_lost_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = read(monkeypatch, FakeGpu(errors={"nvmlDeviceGetBAR1MemoryInfo": LOST}))
    assert answer.gpus == ()
    assert answer.lost == {"0000:1b:00.0": "NVML_ERROR_GPU_IS_LOST (15): GPU is lost"}


def test_a_gpu_lost_while_asked_does_not_hide_one_without_handle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = FakeGpu(errors={"nvmlDeviceGetHandleByIndex_v2": UNKNOWN})
    answer = read(monkeypatch, FakeGpu(errors={"nvmlDeviceGetMemoryInfo": LOST}), gone)
    assert list(answer.lost) == ["0000:1b:00.0", "index 1"]


def test_a_bus_id_that_is_none_is_a_lost_gpu_not_a_made_up_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = read(monkeypatch, FakeGpu(bus_id=b"garbage"))
    assert answer.gpus == ()
    assert "garbage" in answer.lost["index 0"]


@pytest.mark.parametrize("function", ["nvmlInitWithFlags", "nvmlDeviceGetCount_v2"])
def test_nvml_that_cannot_be_asked_is_unreadable_with_its_code(
    monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    mismatch = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    FakeLibrary(FakeGpu(), errors={function: mismatch}).install(monkeypatch)
    answer = nvml_child.read()
    assert isinstance(answer, Unreadable)
    assert "NVML_ERROR_LIB_RM_VERSION_MISMATCH (18)" in answer.unreadable


def test_a_missing_binding_is_unreadable_and_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pynvml'] = None\n"
        "from gdrcheck.probes import nvml_child; print(nvml_child.read().unreadable)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("the Python package nvidia-ml-py: ")


def test_a_missing_library_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", no_library)
    answer = nvml_child.read()
    assert isinstance(answer, Unreadable)
    assert "NVML_ERROR_LIBRARY_NOT_FOUND (12)" in answer.unreadable


def test_no_sign_of_a_driver_is_none(tmp_path: Path) -> None:
    (tmp_path / RECORD).parent.mkdir(parents=True)
    (tmp_path / RECORD).write_text(facts.nvml().model_dump_json())
    assert gpu.read_nvml(tmp_path) is None


@pytest.mark.parametrize("sign", ["sys/module/nvidia", "proc/driver/nvidia", "dev/nvidiactl"])
def test_a_driver_is_asked_or_its_record_is_read(tmp_path: Path, sign: str) -> None:
    (tmp_path / sign).mkdir(parents=True)
    missing = gpu.read_nvml(tmp_path)
    assert isinstance(missing, Unreadable)
    assert missing.unreadable == "nvml.json: No such file or directory"
    (tmp_path / RECORD).parent.mkdir(parents=True)
    (tmp_path / RECORD).write_text(facts.nvml().model_dump_json())
    assert gpu.read_nvml(tmp_path) == facts.nvml()


def test_a_recorded_reason_is_kept(tmp_path: Path) -> None:
    driver_with_record(tmp_path, Unreadable(unreadable="NVML: why").model_dump_json().encode())
    assert gpu.read_nvml(tmp_path) == Unreadable(unreadable="NVML: why")


@pytest.mark.parametrize("answer", [facts.nvml(), Unreadable(unreadable="NVML: why")])
def test_an_emulated_driver_is_told_whatever_it_answers(
    tmp_path: Path, answer: Nvml | Unreadable
) -> None:
    record = answer.model_dump_json().encode()
    driver_with_record(tmp_path, record)
    assert gpu.ask_nvml(tmp_path) == gpu.Asked(answer, emulated=False)
    driver_with_record(tmp_path, gpu.EMULATED_LINE + record)
    assert gpu.ask_nvml(tmp_path) == gpu.Asked(answer, emulated=True)
    assert probes.collect("node1", tmp_path).emulated


def test_an_emulated_driver_is_told_when_the_answer_is_cut_off(tmp_path: Path) -> None:
    driver_with_record(tmp_path, gpu.EMULATED_LINE)
    asked = gpu.ask_nvml(tmp_path)
    assert isinstance(asked.nvml, Unreadable)
    assert asked.emulated


@pytest.mark.parametrize("change", [{"gpus": [{"slot": "0000:1b:00.0"}]}, {"lost": ["all"]}])
def test_a_record_of_another_form_is_unreadable_and_says_where(
    tmp_path: Path, change: dict[str, object]
) -> None:
    record = json.loads(facts.nvml().model_dump_json()) | change
    driver_with_record(tmp_path, json.dumps(record).encode())
    answer = gpu.read_nvml(tmp_path)
    assert isinstance(answer, Unreadable)
    assert next(iter(change)) in answer.unreadable


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)
@given(
    data=st.binary(max_size=200)
    | st.sampled_from([b"", b"{}", b"[]", b"null", b"[" * 100_000, b'{"gpus":NaN}'])
    | st.integers(0, 300).map(lambda cut: facts.nvml().model_dump_json().encode()[:cut])
)
def test_any_bytes_in_a_record_are_unreadable(tmp_path: Path, data: bytes) -> None:
    driver_with_record(tmp_path, data)
    assert isinstance(gpu.read_nvml(tmp_path), Unreadable)


def driver_with_record(root: Path, data: bytes) -> None:
    (root / "sys/module/nvidia").mkdir(parents=True, exist_ok=True)
    (root / RECORD).parent.mkdir(parents=True, exist_ok=True)
    (root / RECORD).write_bytes(data)
